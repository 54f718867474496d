#pragma once
// Added tokens: texts that are one token wherever they occur, as in the added_tokens of a tokenizer.json. The longest
// one that begins leftmost is found first.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

struct AddedToken {
  uint32_t token;
  std::string text;
  bool special = true;        // it has a meaning of its own, such as the end of a text
  bool normalized = false;    // it is looked for in the normalized text
  bool left_strips = false, right_strips = false;  // takes the white space before it or after it, too
  bool single_word = false;   // not as a part of a word
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);  // texts are not empty

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& all() const { return tokens_; }

  // Calls with_text(part) for the text between the added tokens, and with_token(token) for these, in order. If not
  // `special`, special tokens are text.
  void split(std::string_view text, bool special, const std::function<void(std::string_view)>& with_text,
             const std::function<void(uint32_t)>& with_token) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // sorted by text
  bool begins_[256] = {};           // true for the first byte of some text
};
