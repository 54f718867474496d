#include "foreign_tokenizer.hpp"

#include <cstdio>
#include <mutex>

#include "data/files/files.hpp"
#include "data/strings/utf8.hpp"

Tokenizer read_or_keep(const std::function<Tokenizer()>& read, int vocabulary, const std::string& file) {
  static std::once_flag noted;
  try {
    return read();
  } catch (const UnsupportedPart& error) {
    std::call_once(noted, [&] {
      std::fprintf(stderr, "NOTE: %s: the model reads token files only, no text\n", one_line(error.what()).c_str());
    });
    return Tokenizer::unread({vocabulary, file.empty() ? "" : read_file(file, kLargestTokenizer), error.what()});
  }
}

Tokenizer no_tokenizer(const std::string& why, int vocabulary) {
  return read_or_keep([&]() -> Tokenizer { throw UnsupportedPart(why); }, vocabulary, "");
}
