#pragma once
// UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The code point that starts at text[at]; moves `at` past it. If none starts there, returns nothing and leaves `at`.
std::optional<uint32_t> next_code_point(std::string_view text, size_t& at);

// True if `text` is the beginning of a code point whose last bytes are missing.
bool is_cut_short(std::string_view text);

std::string utf8(uint32_t code_point);

// The position of the first byte that is not text: a control character, or not UTF-8; npos: all is text. Characters
// that move the cursor, and escape, which begins a color, count as text.
size_t first_non_text(std::string_view bytes);

// Makes text safe to print on a terminal, which would obey control characters. They become "\x1b", except '\n' and
// '\t', and so do bytes that are not UTF-8. A code point may arrive in pieces.
class TerminalText {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // the bytes of a code point that never ended

 private:
  std::string pending_;
};

std::string for_terminal(std::string_view text);

// The same on one line: line ends and tabs are escaped, too.
std::string one_line(std::string_view text);

// The first 60 bytes of a name in a file, as errors show it: on one line, in single quotes.
std::string in_quotes(std::string_view name);
