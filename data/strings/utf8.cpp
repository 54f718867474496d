#include "utf8.hpp"

#include <algorithm>
#include <cstdio>

namespace {

// The number of bytes that follow `first` in its code point; -1 if no code point begins with it.
int bytes_after(unsigned char first) {
  if (first < 0x80) return 0;
  if (first < 0xc2 || first >= 0xf5) return -1;
  return 1 + (first >= 0xe0) + (first >= 0xf0);
}

bool continues(char byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

std::optional<uint32_t> next_code_point(std::string_view text, size_t& at) {
  if (at >= text.size()) return std::nullopt;
  const unsigned char first = text[at];
  const int more = bytes_after(first);
  if (more < 0 || at + more >= text.size()) return std::nullopt;
  uint32_t point = more == 0 ? first : first & (0x3f >> more);
  for (int i = 1; i <= more; ++i) {
    if (!continues(text[at + i])) return std::nullopt;
    point = point << 6 | (text[at + i] & 0x3f);
  }
  constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return std::nullopt;
  at += more + 1;
  return point;
}

std::optional<uint32_t> previous_code_point(std::string_view text, size_t& at) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(at, 4); ++bytes) {
    size_t end = at - bytes;
    const std::optional<uint32_t> point = next_code_point(text, end);
    if (!point || end != at) continue;
    at -= bytes;
    return point;
  }
  return {};
}

bool is_white_space(uint32_t c) {
  return (c >= '\t' && c <= '\r') || (c >= 0x2000 && c <= 0x200a) || c == ' ' || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_cut_short(std::string_view text) {
  return !text.empty() && static_cast<int>(text.size()) <= bytes_after(text[0]) &&
         std::all_of(text.begin() + 1, text.end(), continues);
}

std::string utf8(uint32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  const int more = 1 + (point >= 0x800) + (point >= 0x10000);  // bytes after the first, each with six bits
  std::string s = {static_cast<char>(0xff00 >> (more + 1) | point >> 6 * more)};
  for (int i = more - 1; i >= 0; --i) s += static_cast<char>(0x80 | (point >> 6 * i & 0x3f));
  return s;
}

size_t first_non_text(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t start = at;
    const auto point = next_code_point(bytes, at);
    if (!point || *point < 7 || (*point > 13 && *point < 32 && *point != 27) || *point == 127) return start;
  }
  return std::string_view::npos;
}

std::string TerminalText::feed(std::string_view bytes) {
  pending_ += bytes;
  std::string shown;
  size_t at = 0;
  while (at < pending_.size() && !is_cut_short(std::string_view(pending_).substr(at))) {
    const size_t start = at;
    const auto point = next_code_point(pending_, at);
    const bool obeyed = !point || (*point < 32 && *point != '\n' && *point != '\t') || (*point >= 127 && *point < 160);
    at = std::max(at, start + 1);
    if (!obeyed) {
      shown.append(pending_, start, at - start);
      continue;
    }
    for (size_t i = start; i < at; ++i) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(pending_[i]));
      shown += escaped;
    }
  }
  pending_.erase(0, at);
  return shown;
}

std::string TerminalText::finish() {
  std::string last = feed(" ");  // a space ends any unfinished code point
  last.pop_back();
  return last;
}

std::string for_terminal(std::string_view text) {
  TerminalText shown;
  const std::string beginning = shown.feed(text);
  return beginning + shown.finish();
}

std::string one_line(std::string_view text) {
  std::string line = for_terminal(text);
  for (const auto& [character, escaped] : {std::pair{'\n', "\\n"}, std::pair{'\t', "\\t"}})
    for (size_t at; (at = line.find(character)) != line.npos;) line.replace(at, 1, escaped);
  return line;
}

std::string in_quotes(std::string_view name) { return "'" + one_line(name.substr(0, 60)) + "'"; }
