#include "bpe_files.hpp"

#include <filesystem>
#include <new>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/utf8.hpp"
#include "tokenizer.hpp"

using nlohmann::json;

namespace {

// Calls read() and puts the file's name before its error messages.
template <class Read>
Bpe named(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const UnsupportedPart& error) {
    throw UnsupportedPart(path + " cannot be used as a tokenizer: " + one_line(error.what()));
  } catch (const std::exception& error) {
    throw std::runtime_error(path + " cannot be used as a tokenizer: " + plain_text(error));
  }
}

}  // namespace

Bpe read_bpe(const std::string& path) {
  const std::string text = read_file(path, kLargestTokenizer);
  return named(path, [&] {
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
