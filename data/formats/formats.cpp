#include "formats.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/formats/gguf/gguf.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "flat_weights.hpp"
#include "layers/config/enum_names.hpp"
#include "llama2c.hpp"
#include "llmc.hpp"

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {"hf", "folder of Hugging Face's transformers", {"f32"}, true, is_huggingface_folder, open_huggingface,
       check_huggingface, write_huggingface, files_of_huggingface(), is_huggingface_export},
      {"gguf", "file of llama.cpp", {"f32", "f16", "bf16", "q8_0"}, false, nullptr, nullptr, check_gguf, write_gguf,
       {}, nullptr},
      {"llmc", "folder of llm.c", {"f32", "bf16"}, true, is_llmc, open_llmc, check_llmc, write_llmc,
       {kLlmcTokenizer, kFlatFile}, is_llmc_export},
      {"llama2c", "folder of llama2.c", {"f32"}, true, is_llama2c, open_llama2c, check_llama2c, write_llama2c,
       {kLlama2cTokenizer, kFlatFile}, is_llama2c_export},
  };
  return rows;
}

const Format* format_of(const std::string& path) {
  for (const Format& row : formats())
    if (row.is && row.is(path)) return &row;
  return nullptr;
}

const Format& find_format(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& row : formats()) {
    if (name == row.name) return row;
    names.emplace_back(row.name);
  }
  throw std::invalid_argument(unknown_name("format", name, names));
}
