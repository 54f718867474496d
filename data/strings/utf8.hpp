#pragma once
// UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Returns the code point that starts at text[at] and moves `at` past it. If none starts there, returns nothing and
// leaves `at` as it was.
std::optional<uint32_t> next_code_point(std::string_view text, size_t& at);

// Returns the code point that ends before text[at] and moves `at` to its start. If none ends there, returns nothing and
// leaves `at` as it was.
std::optional<uint32_t> previous_code_point(std::string_view text, size_t& at);

// True for Unicode's property White_Space.
bool is_white_space(uint32_t code_point);

// True if `text` is the beginning of a code point whose last bytes are missing.
bool is_cut_short(std::string_view text);

std::string utf8(uint32_t code_point);

// Returns the position of the first byte that is not text (a control character, or not UTF-8), or npos. Characters that
// move the cursor count as text, and so does escape, which begins a color.
size_t first_non_text(std::string_view bytes);

// Makes text safe to print on a terminal. Control characters, which a terminal obeys, become escapes such as "\x1b",
// except '\n' and '\t'. Bytes that are not UTF-8 do, too. A code point may arrive in pieces.
class TerminalText {
 public:
  std::string feed(std::string_view bytes);
  std::string finish();  // the bytes of a code point that never ended

 private:
  std::string pending_;
};

std::string for_terminal(std::string_view text);

// Does the same on one line: escapes line ends and tabs, too.
std::string one_line(std::string_view text);

// Returns the first 60 bytes of a name from a file, on one line and in single quotes, for error messages.
std::string in_quotes(std::string_view name);
