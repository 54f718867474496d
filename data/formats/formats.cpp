#include "formats.hpp"

#include <algorithm>
#include <stdexcept>

#include "gguf.hpp"
#include "huggingface.hpp"
#include "layers/config/named.hpp"

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {"hf", "folder of Hugging Face's transformers", {"f32"}, true, is_huggingface_folder, open_huggingface,
       check_huggingface, write_huggingface},
      {"gguf", "file of llama.cpp", {"f32", "f16", "bf16", "q8_0"}, false, nullptr, nullptr, check_gguf, write_gguf},
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
