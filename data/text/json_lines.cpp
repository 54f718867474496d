#include "json_lines.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

// Returns the text of a field, or null if there is none.
const std::string* field_of(const json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end()) return nullptr;
  if (!found->is_string()) fail("\"" + one_line(name) + "\" is not a text");
  return found->get_ptr<const std::string*>();
}

// The texts of a line, and whether they are learned.
struct LinePart {
  const std::string* text;
  bool counts;
};

std::vector<LinePart> parts_of(const json& object, const JsonFields& o) {
  if (const std::string* text = field_of(object, o.text_field)) return {{text, true}};
  const std::string *prompt = field_of(object, o.prompt_field), *completion = field_of(object, o.completion_field);
  if (prompt && completion) return {{prompt, o.learn == LearnedPart::all}, {completion, true}};
  if (prompt) fail("there is no \"" + o.completion_field + "\": name it with --completion-field");
  if (completion) fail("there is no \"" + o.prompt_field + "\": name it with --prompt-field");
  fail("there is no \"" + o.text_field + "\", and no \"" + o.prompt_field + "\" with a \"" + o.completion_field +
       "\": name the fields with --text-field, or --prompt-field and --completion-field");
}

// Appends the texts of one line. Parts without text are left out.
void append_line(std::string& text, std::vector<TextSpan>& spans, const json& object, const JsonFields& fields,
                 size_t line) {
  if (!object.is_object()) fail("it is not a JSON object");
  bool is_first = true, counts = false;
  for (const auto& [part, learned] : parts_of(object, fields)) {
    if (part->empty()) continue;
    spans.push_back({text.size(), text.size() + part->size(), is_first, learned, line});
    text += *part;
    is_first = false;
    counts = counts || learned;
  }
  if (!counts) fail("there is no text to learn");
}

}  // namespace

bool is_json_lines_name(std::string_view path) { return path.ends_with(".jsonl") || path.ends_with(".ndjson"); }

bool is_json_lines(std::string_view text) {
  for (int i = 0; i < 2; ++i) {
    const size_t end = text.find('\n');
    if (!text.starts_with('{') || end == text.npos) return false;
    try {
      if (!parse_json(text.substr(0, end)).is_object()) return false;
    } catch (const std::runtime_error&) {
      return false;
    }
    text.remove_prefix(end + 1);
  }
  return true;
}

std::vector<TextSpan> append_json_lines(std::string& text, std::string_view json, const std::string& name,
                                        const JsonFields& fields) {
  std::vector<TextSpan> spans;
  for (size_t number = 1; !json.empty(); ++number) {
    const std::string_view line = json.substr(0, json.find('\n'));
    json.remove_prefix(std::min(json.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      append_line(text, spans, parse_json(line), fields, number);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(one_line(name) + ", line " + std::to_string(number) + ": " + one_line(error.what()));
    }
  }
  return spans;
}
