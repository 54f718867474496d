#pragma once
// Characters and bytes that a tokenizer has no token for.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

// What to do with a character without a token. `replace` writes U+FFFD, or '?' if that has no token, or skips it if
// neither has one.
enum class Unknown { error, skip, replace };

// Thrown for a character without a token, and for bytes that are not UTF-8.
struct NoToken : std::runtime_error {
  NoToken(size_t byte, bool utf8, const std::string& what) : std::runtime_error(what), at(byte), is_utf8(utf8) {}
  NoToken behind(size_t bytes) const { return {bytes + at, is_utf8, what()}; }  // for a text that begins earlier
  size_t at;     // byte offset in the text
  bool is_utf8;  // true: a character without a token; false: bytes that are not UTF-8
  // What the user can do about a character without a token.
  static constexpr const char* kAdvice = "--unknown skip leaves it out, --unknown replace writes a replacement";
};

// Thrown for a tokenizer.json with a part that we do not have. The file itself is not damaged.
struct UnsupportedPart : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the message for a code point without a token.
std::string unknown_character(uint32_t point);
