#pragma once
// UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The code point that starts at text[at]; moves `at` behind it. Nothing, and `at` stays, if none starts there.
std::optional<uint32_t> next_code_point(std::string_view text, size_t& at);

// True if `text` is the beginning of a code point whose other bytes are missing.
bool is_cut_short(std::string_view text);

std::string utf8(uint32_t code_point);

// Control characters that no text has. Allowed are those that move the cursor, and escape, which begins a color.
inline bool is_control(uint32_t c) { return c < 7 || (c > 13 && c < 32 && c != 27) || c == 127; }

// Where `bytes` stop being text: the first control character, or byte that is not UTF-8; npos: nowhere.
size_t first_non_text(std::string_view bytes);

// Text for a terminal, which would obey control characters. All but '\n' and '\t', and bytes that are not UTF-8, become
// "\x1b". A code point may arrive in pieces.
class TerminalText {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // what is left of a code point that never ended

 private:
  std::string pending_;
};

std::string for_terminal(std::string_view text);
