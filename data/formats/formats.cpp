#include "formats.hpp"

#include <algorithm>

#include "data/files/gguf_keys.hpp"
#include "data/formats/gguf/gguf.hpp"
#include "data/formats/gguf/gguf_model.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/options/command_settings.hpp"
#include "flat_weights.hpp"
#include "layers/config/enum_names.hpp"
#include "llama2c.hpp"
#include "llmc.hpp"

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {.name = "hf", .description = "folder of Hugging Face's transformers", .dtypes = {"f32", "f16", "bf16"},
       .card = true, .adapters = true, .is = is_huggingface_folder, .open = open_huggingface,
       .check = check_huggingface, .write = write_huggingface, .files = files_of_huggingface(),
       .is_export = is_huggingface_export},
      {.name = "gguf", .description = "file of llama.cpp", .dtypes = {"f32", "f16", "bf16", "q8_0"}, .folder = false,
       .is = is_gguf, .open = open_gguf, .check = check_gguf, .write = write_gguf},
      {.name = "llmc", .description = "folder of llm.c", .dtypes = {"f32", "bf16"}, .is = is_llmc, .open = open_llmc,
       .check = check_llmc, .write = write_llmc, .files = {kLlmcTokenizer, kFlatFile}, .is_export = is_llmc_export},
      {.name = "llama2c", .description = "folder of llama2.c", .is = is_llama2c, .open = open_llama2c,
       .check = check_llama2c, .write = write_llama2c, .files = {kLlama2cTokenizer, kFlatFile},
       .is_export = is_llama2c_export},
  };
  return rows;
}

const Format* format_of(const std::string& path) {
  for (const Format& row : formats())
    if (row.is && row.is(path)) return &row;
  return nullptr;
}

const Format& find_format(const std::string& name) { return row_named(formats(), "format", name); }

std::vector<std::string> format_names() { return names_of(formats()); }

std::vector<std::string> format_dtypes() {
  std::vector<std::string> all;
  for (const Format& row : formats())
    for (const std::string& type : row.dtypes)
      if (std::find(all.begin(), all.end(), type) == all.end()) all.push_back(type);
  return all;
}
