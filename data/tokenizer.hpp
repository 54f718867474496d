#pragma once
// Text ↔ tokens.
//   byte   256 tokens, the bytes themselves; reads anything
//   char   one token for each Unicode code point that occurs in the text, in ascending order

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

class Tokenizer {
 public:
  enum class Kind { byte, character };

  static Tokenizer bytes();
  // The alphabet of a text. Throws std::runtime_error if it is not UTF-8 or has more than 65,535 code points.
  static Tokenizer characters(std::string_view text);
  static Tokenizer characters(std::vector<uint32_t> code_points);

  Kind kind() const { return kind_; }
  const std::vector<uint32_t>& alphabet() const { return alphabet_; }  // char only
  int vocabulary() const;

  // Throws std::runtime_error naming the first character that has no token.
  std::vector<uint16_t> encode(std::string_view text) const;
  // The bytes of one token; nothing for numbers beyond the vocabulary.
  std::string decode(int token) const;

 private:
  Kind kind_ = Kind::byte;
  std::vector<uint32_t> alphabet_;
};
