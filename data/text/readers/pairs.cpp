#include "pairs.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

constexpr const char* kPair = "a line is a source, a tab and a target, or {\"source\": ..., \"target\": ...}";

struct Pair {
  std::string source, target;
};

std::string text_of(const json& object, const std::string& field, const char* option) {
  const auto found = object.find(field);
  const std::string name = "\"" + one_line(field) + "\"";
  if (found == object.end() && object.contains("sentence_good"))
    throw std::runtime_error("it is a minimal pair, which eval --pairs reads");
  if (found == object.end()) throw std::runtime_error("there is no " + name + ": name the field with --" + option);
  if (!found->is_string()) throw std::runtime_error(name + " is not a text");
  return found->get<std::string>();
}

Pair pair_of(const json& object, const JsonFields& fields) {
  return {text_of(object, fields.source_field, "source-field"), text_of(object, fields.target_field, "target-field")};
}

Pair pair_of(std::string_view line) {
  const auto tabs = std::ranges::count(line, '\t');
  if (tabs != 1)
    throw std::runtime_error((tabs == 0 ? "there is no tab: " : "there are " + std::to_string(tabs) + " tabs: ") +
                             std::string(kPair));
  const size_t tab = line.find('\t');
  return {std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))};
}

// Appends a text of a pair.
void append_text(std::string& text, std::vector<TextSpan>& spans, const std::string& part, const char* what,
                 size_t line) {
  if (part.empty()) throw std::runtime_error(std::string("the ") + what + " is empty: leave the line out");
  spans.push_back({.begin = text.size(), .end = text.size() + part.size(), .line = line});
  text += part;
}

// Calls use(line, number) for each line that is not blank. Names the line in errors.
template <class Use>
void for_each_line(std::string_view text, const std::string& name, const Use& use) {
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \r") == line.npos) continue;
    try {
      use(line, number);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(one_line(name) + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
}

bool begins_with_object(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \r\n")));
  if (!text.starts_with('{')) return false;
  try {
    return parse_json(text.substr(0, text.find('\n'))).is_object();
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

std::vector<TextSpan> append_pairs(std::string& text, std::string_view file, const std::string& name,
                                   const JsonFields& fields) {
  std::vector<TextSpan> spans;
  const auto append = [&](const Pair& pair, size_t line) {
    append_text(text, spans, pair.source, "source", line);
    append_text(text, spans, pair.target, "target", line);
  };
  if (is_json_lines_name(name) || begins_with_object(file))
    for_each_json_line(file, name, [&](const json& object, size_t line) { append(pair_of(object, fields), line); });
  else
    for_each_line(file, name, [&](std::string_view line, size_t number) { append(pair_of(line), number); });
  return spans;
}

DocumentTokens tokens_around_pairs(const Tokenizer& tokenizer, const std::string& separator) {
  const std::vector<std::string> names = tokenizer.special_names();
  const bool pads = separator.empty() || separator == kPadding;
  if (pads && tokenizer.begin() < 0 && tokenizer.end() >= 0 && std::ranges::find(names, kPadding) != names.end())
    return {tokenizer.special(kPadding), tokenizer.end()};
  DocumentTokens around = tokenizer.around(separator);
  if (tokenizer.begin() != around.first) around.begin = tokenizer.begin();
  return around;
}
