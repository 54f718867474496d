#include "grammar_lines.hpp"

#include <algorithm>

namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

std::vector<GrammarLine> grammar_lines(std::string_view source) {
  std::vector<GrammarLine> lines;
  for (std::string_view rest = source; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::string words(trim(line));
    const size_t indent = line.find_first_not_of(' ');
    if (words.empty()) continue;
    if (indent <= 2 || lines.empty() || lines.back().is_header) lines.push_back({indent == 0, words});
    else lines.back().words += " " + words;
  }
  return lines;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + separator.size()))
    parts.emplace_back(trim(text.substr(0, end)));
  parts.emplace_back(trim(text));
  return parts;
}
