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

// Returns a role's or content's text.
std::string text_in(const json& message, const char* field) {
  const std::string* text = field_of(message, field);
  if (!text) fail("a message has no \"" + std::string(field) + "\"");
  return *text;
}

std::vector<Turn> turns_of(const json& messages, const std::string& field) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant"};
  if (!messages.is_array()) fail("\"" + one_line(field) + "\" is not a list");
  std::vector<Turn> turns;
  for (const json& message : messages) {
    if (!message.is_object()) fail("a message is not a JSON object");
    turns.push_back({text_in(message, "role"), text_in(message, "content")});
    if (std::find(std::begin(kRoles), std::end(kRoles), turns.back().role) == std::end(kRoles))
      fail("the role " + in_quotes(turns.back().role) + " is not system, user or assistant");
  }
  return turns;
}

// The parts of a conversation. The end of the document ends the last answer.
std::vector<ChatPart> parts_of(const std::vector<Turn>& turns, const ChatTemplate& chat) {
  std::vector<ChatPart> parts = chat.parts_of(turns);
  if (!parts.empty() && is_document_end(parts.back().token)) parts.pop_back();
  return parts;
}

// The parts of a line's document.
struct LineParts {
  std::vector<ChatPart> parts;
  bool is_chat = false, has_prompt = false;
};

LineParts parts_of(const json& object, const JsonFields& o) {
  if (const auto found = object.find(o.messages_field); found != object.end()) {
    const ChatTemplate& usual = o.usual_chat ? *o.usual_chat : usual_chat_template(nullptr);
    return {parts_of(turns_of(*found, o.messages_field), o.chat ? *o.chat : usual), true, false};
  }
  if (const std::string* text = field_of(object, o.text_field)) return {{{.text = *text, .counts = true}}};
  const std::string *prompt = field_of(object, o.prompt_field), *completion = field_of(object, o.completion_field);
  if (prompt && completion && o.chat)
    return {parts_of({{"user", *prompt}, {"assistant", *completion}}, *o.chat), true, true};
  if (prompt && completion) return {{{.text = *prompt}, {.text = *completion, .counts = true}}, false, true};
  if (prompt) fail("there is no \"" + o.completion_field + "\": name it with --completion-field");
  if (completion) fail("there is no \"" + o.prompt_field + "\": name it with --prompt-field");
  if (object.contains(o.source_field) && object.contains(o.target_field))
    fail("it is a pair of \"" + o.source_field + "\" and \"" + o.target_field +
         "\": learn it with --objective pairs, or with --prompt-field " + o.source_field + " --completion-field " +
         o.target_field);
  fail("there is no \"" + o.text_field + "\", no \"" + o.messages_field + "\", and no \"" + o.prompt_field +
       "\" with a \"" + o.completion_field + "\": name the fields with --text-field, --messages-field, or " +
       "--prompt-field and --completion-field");
}

// Appends the texts of one line.
void append_line(std::string& text, JsonLines& lines, const json& object, const JsonFields& fields, size_t number) {
  const auto [parts, is_chat, has_prompt] = parts_of(object, fields);
  if (!append_parts(text, lines.spans, parts, {is_chat, fields.learn == LearnedPart::all, number}))
    fail("there is no text to learn");
  lines.prompts |= has_prompt;
  lines.messages |= is_chat && !has_prompt;
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

bool append_parts(std::string& text, std::vector<TextSpan>& spans, const std::vector<ChatPart>& parts,
                  const PartsOf& document) {
  bool is_first = true, after_text = false, any_counts = false;
  for (const ChatPart& part : parts) {
    if (part.text.empty() && !part.token) continue;
    const bool counts = part.counts || document.all_count;
    spans.push_back({.begin = text.size(),
                     .end = text.size() + part.text.size(),
                     .is_first = is_first,
                     .counts = counts,
                     .line = document.line,
                     .joins = document.is_chat && after_text && !part.token,
                     .token = part.token});
    text += part.text;
    is_first = false;
    after_text = !part.token;
    any_counts = any_counts || counts;
  }
  return any_counts;
}

JsonLines append_json_lines(std::string& text, std::string_view json, const std::string& name,
                            const JsonFields& fields) {
  JsonLines lines;
  for_each_json_line(json, name, [&](const nlohmann::json& object, size_t number) {
    append_line(text, lines, object, fields, number);
  });
  return lines;
}
