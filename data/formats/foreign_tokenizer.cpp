#include "foreign_tokenizer.hpp"


#include "data/files/files.hpp"
#include "data/strings/notes.hpp"

Tokenizer read_or_keep(const std::function<Tokenizer()>& read, int vocabulary, const std::string& file) {
  try {
    return read();
  } catch (const UnsupportedPart& error) {
    print_note_once(error.what() + std::string(": the model reads token files only, no text"));
    return Tokenizer::unread({vocabulary, file.empty() ? "" : read_file(file, kLargestTokenizer), error.what()});
  }
}

Tokenizer no_tokenizer(const std::string& why, int vocabulary) {
  return read_or_keep([&]() -> Tokenizer { throw UnsupportedPart(why); }, vocabulary, "");
}
