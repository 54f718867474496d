#include "bpe_files.hpp"

#include <filesystem>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/errors.hpp"
#include "data/tokenizer/tokenizer.hpp"

using nlohmann::json;

Bpe read_bpe(const std::string& path) {
  const std::string text = read_file(path, kLargestTokenizer);
  return explained<UnsupportedPart>(path + " cannot be used as a tokenizer: ", [&] {
    const json file = parse_json(text);
    if (!file.is_object()) throw std::runtime_error("it is not a JSON object");
    if (file.contains("model") && file["model"].is_object()) return bpe_from_json(file, text);
    for (const char* name : {"vocab.bpe", "merges.txt"}) {
      const std::filesystem::path merges = std::filesystem::path(path).replace_filename(name);
      if (std::filesystem::exists(merges)) return bpe_from_gpt2(file, read_file(merges, kLargestTokenizer));
    }
    throw std::runtime_error("it has no model, and there is no vocab.bpe or merges.txt next to it");
  });
}
