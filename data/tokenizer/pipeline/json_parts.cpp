#include "json_parts.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "data/files/json.hpp"
#include "unknown.hpp"

using nlohmann::json;

void lack(const std::string& what) { throw UnsupportedPart(what + " is not supported"); }

const json& member(const json& j, const char* name) {
  static const json none;
  const auto found = j.find(name);
  return found == j.end() ? none : *found;
}

std::string text_of(const json& j, const std::string& what) {
  if (!j.is_string()) throw std::runtime_error(what + " is not a text");
  return j.get<std::string>();
}

bool flag_of(const json& part, const char* name, bool otherwise) {
  const json& j = member(part, name);
  if (!j.is_null() && !j.is_boolean()) throw std::runtime_error(std::string(name) + " is not true or false");
  return j.is_null() ? otherwise : j.get<bool>();
}

namespace {

// The lists of a Sequence.
constexpr const char* kLists[] = {"normalizers", "pretokenizers", "processors", "decoders"};

}  // namespace

std::string type_of(const json& part) {
  const std::string type = text_of(member(part, "type"), "the type of a part");
  const bool is_word = std::all_of(type.begin(), type.end(), [](unsigned char c) { return std::isalnum(c); });
  return is_word ? type.substr(0, 60) : to_ascii(type.substr(0, 60));
}

std::string description_of(const json& part) {
  std::string name = type_of(part);
  for (const char* list : kLists)
    if (const json& parts = member(part, list); parts.is_array()) {
      for (const json& inner : parts) name += (&inner == &parts[0] ? " [" : ", ") + type_of(inner);
      name += "]";
    }
  return name;
}

std::vector<json> parts_in(const json& part, const std::string& what) {
  if (part.is_null()) return {};
  if (!part.is_object()) throw std::runtime_error("its " + what + " is not an object");
  if (type_of(part) != "Sequence") return {part};
  std::vector<json> all;
  for (const char* list : kLists)
    for (const json& inner : member(part, list)) {
      const std::vector<json> parts = parts_in(inner, what);
      all.insert(all.end(), parts.begin(), parts.end());
    }
  return all;
}

Regex pattern_of(const json& part) {
  const json& pattern = member(part, "pattern");
  if (pattern.is_string()) return from_text(pattern.get<std::string>());
  if (!pattern.is_object()) throw std::runtime_error("the pattern of a " + type_of(part) + " is not an object");
  if (const json& text = member(pattern, "String"); !text.is_null()) return from_text(text_of(text, "a pattern"));
  return from_oniguruma(text_of(member(pattern, "Regex"), "a pattern"));
}

std::string replaced(const std::string& text, const Regex& pattern, const std::string& content) {
  std::string result;
  size_t at = 0;
  pattern.for_each(text, [&](Regex::Match match) {
    result.append(text, at, match.begin - at).append(content);
    at = match.end;
  });
  return result.append(text, at);
}
