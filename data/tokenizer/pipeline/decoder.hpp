#pragma once
// The decoder of a tokenizer.json: what each token stands for in text. Each part of it is a row of a table in
// decoder.cpp.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

class Decoder {
 public:
  // Throws std::runtime_error that names the part for a part that we do not have, and for parts in an order in which
  // a token has no text of its own.
  explicit Decoder(const nlohmann::json& decoder);

  // Returns the bytes that a token of this name stands for.
  std::string bytes_of(const std::string& name) const;
  int stripped() const { return stripped_; }  // so many spaces at the beginning of a text are left out
  bool spaces_words() const { return spaces_words_; }  // tokens have a space before them that their names lack

  // What a part does.
  struct Effect {
    std::function<std::string(const std::string& name)> changes = {};  // null: leaves names as they are
    int strips = 0;       // spaces at the beginning
    bool spaces = false;  // puts spaces before tokens
    bool fuses = false;   // from here on, the whole text is one token
  };

 private:
  std::vector<Effect> effects_;
  int stripped_ = 0;
  bool spaces_words_ = false;
};

// Returns 65 for "<0x41>", and -1 if the text is not a byte.
int byte_named(const std::string& text);
