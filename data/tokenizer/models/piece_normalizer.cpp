#include "piece_normalizer.hpp"

#include "data/strings/utf8.hpp"

namespace {

constexpr std::string_view kSpaceMark = "\u2581", kNotText = "\ufffd";

// Appends a text with ' ' for U+2581.
void append_with_spaces(std::string& to, std::string_view text) {
  for (size_t at; (at = text.find(kSpaceMark)) != text.npos; text.remove_prefix(at + kSpaceMark.size()))
    to.append(text.substr(0, at)) += ' ';
  to += text;
}

}  // namespace

// What becomes of the beginning of a text.
PieceNormalizer::Step PieceNormalizer::step_at(std::string_view text) const {
  size_t length = 0;
  kept.for_each_prefix(text, [&](size_t longer, uint32_t) { length = longer; });
  if (length > 0) return {length, text.substr(0, length)};
  if (const auto rule = rules ? rules->longest_at(text) : std::nullopt) return {rule->length, rule->replacement};
  if (next_code_point(text, length)) return {length, text.substr(0, length)};
  return {1, replaces_bytes ? kNotText : text.substr(0, 1)};
}

std::string PieceNormalizer::operator()(std::string_view text) const {
  std::string result;
  while (removes_spaces && !text.empty()) {
    const Step step = step_at(text);
    if (step.written != " ") break;
    text.remove_prefix(step.length);
  }
  if (text.empty()) return result;
  result.reserve(text.size() + 1);
  if (dummy_prefix) result += ' ';
  bool after_space = removes_spaces;
  while (!text.empty()) {
    auto [length, written] = step_at(text);
    while (after_space && written.starts_with(' ')) written.remove_prefix(1);
    append_with_spaces(result, written);
    if (!written.empty()) after_space = removes_spaces && written.ends_with(' ');
    text.remove_prefix(length);
  }
  while (removes_spaces && result.ends_with(' ')) result.pop_back();
  return result;
}

// If spaces are removed, the dummy prefix of the second part replaces them.
bool PieceNormalizer::may_cut(std::string_view text, size_t at) const {
  if (removes_spaces && !dummy_prefix) return false;
  if (rules && rules->joins_spaces()) return false;
  const auto stays = [&](std::string_view character) { return step_at(character).written == character; };
  return at > 0 && text[at - 1] > ' ' && text[at - 1] < 0x7f && stays(text.substr(at - 1, 1)) && stays(" ");
}
