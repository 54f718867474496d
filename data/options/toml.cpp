#include "toml.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <stdexcept>

#include "data/strings/utf8.hpp"

namespace {

constexpr char kEscaped[] = "\b\t\n\f\r\"\\", kLetters[] = "btnfr\"\\";

class TomlReader {
 public:
  explicit TomlReader(const std::string& text) : s_(text) {
    if (s_.starts_with("\xef\xbb\xbf")) i_ = 3;
    if (!s_.ends_with('\n')) s_ += '\n';
  }

  std::vector<TomlEntry> entries() {
    std::vector<TomlEntry> list;
    std::set<std::string> seen;
    for (skip_lines(); !at_end(); skip_lines()) {
      const int line = line_;
      const std::string name = key();
      if (!seen.insert(name).second) fail("'" + one_line(name) + "' appears twice: leave one of them out");
      list.push_back({name, value(), line});
      skip_rest_of_line();
      if (here() != '\n') fail("more text after the value of '" + one_line(name) + "': quote the value");
    }
    return list;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("line " + std::to_string(line_) + ": " + what);
  }

  bool at_end() const { return i_ == s_.size(); }
  char here() const { return s_[i_]; }  // '\0' at the end
  void skip_blanks() {
    while (here() == ' ' || here() == '\t' || here() == '\r') ++i_;
  }
  void skip_rest_of_line() {
    skip_blanks();
    if (here() == '#') i_ = s_.find('\n', i_);
  }
  void skip_lines() {
    for (skip_rest_of_line(); here() == '\n'; skip_rest_of_line()) {
      ++i_;
      ++line_;
    }
  }

  std::string key() {
    if (here() == '[') fail("tables such as [train] are not read: write name = value");
    const std::string name = here() == '"' || here() == '\'' ? string() : bare();
    skip_blanks();
    if (name.empty() || here() != '=') fail("expected name = value");
    ++i_;
    skip_blanks();
    return name;
  }

  std::vector<std::string> value() { return here() == '[' ? array() : std::vector{scalar()}; }

  std::vector<std::string> array() {
    std::vector<std::string> list;
    ++i_;
    for (skip_lines(); here() != ']'; skip_lines()) {
      if (at_end()) fail("the array is not closed: add ]");
      if (here() == '[') fail("an array in an array is not read: write one flat list");
      list.push_back(scalar());
      skip_lines();
      if (here() == ',') ++i_;
      else if (here() != ']' && !at_end()) fail("the array needs , between its values and ] at its end");
    }
    ++i_;
    return list;
  }

  std::string scalar() {
    if (here() == '"' || here() == '\'') return string();
    const std::string word = bare();
    if (word.empty()) fail("a value is missing: write name = value");
    return word;
  }

  std::string bare() {
    const size_t begin = i_;
    while (static_cast<unsigned char>(here()) > ' ' && !std::strchr(",[]{}#=\"'", here())) ++i_;
    return s_.substr(begin, i_ - begin);
  }

  std::string string() {
    const char quote = s_[i_++];
    if (s_.compare(i_, 2, std::string(2, quote)) == 0) fail("multi-line strings are not read: write \\n in a string");
    std::string text;
    while (here() != quote) {
      const auto c = static_cast<unsigned char>(here());
      if (c == '\n') fail(std::string("the string is not closed: add ") + quote);
      if (c < ' ' && c != '\t') fail("a control character in a string: write it as an escape such as \\u001b");
      ++i_;
      if (c == '\\' && quote == '"') text += escape();
      else text += static_cast<char>(c);
    }
    ++i_;
    return text;
  }

  std::string escape() {
    const char letter = s_[i_++];
    if (const char* named = letter ? std::strchr(kLetters, letter) : nullptr)
      return std::string(1, kEscaped[named - kLetters]);
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    const std::string number = s_.substr(i_, digits);
    const bool valid = number.size() == digits && number.find_first_not_of("0123456789abcdefABCDEF") == number.npos;
    const uint32_t code = digits > 0 && valid ? static_cast<uint32_t>(std::stoul(number, nullptr, 16)) : 0;
    if (code == 0 || code > 0x10ffff || code >> 11 == 27)
      fail("unknown escape \\" + one_line(std::string(1, letter)) + " in a string: write \\\\ for a backslash");
    i_ += digits;
    if (letter == 'x') return std::string(1, static_cast<char>(code));
    return utf8(code);
  }

  std::string s_;  // ends with a newline
  size_t i_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<TomlEntry> read_toml(const std::string& text) { return TomlReader(text).entries(); }

std::string toml(const std::string& text) {
  std::string s = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const auto point = next_code_point(text, i);
    if (!point) ++i;
    const char* named = point && *point ? std::strchr(kEscaped, text[begin]) : nullptr;
    char code[8];
    std::snprintf(code, sizeof code, point ? "\\u%04x" : "\\x%02x", static_cast<unsigned char>(text[begin]));
    if (named) s += std::string("\\") + kLetters[named - kEscaped];
    else if (!point || *point < 0x20 || *point == 0x7f) s += code;
    else s += text.substr(begin, i - begin);
  }
  return s + '"';
}

std::string toml(const std::vector<std::string>& list) {
  std::string s = "[";
  for (const auto& item : list) s += (s.size() > 1 ? ", " : "") + toml(item);
  return s + "]";
}
