#include "json_lines.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

bool has(const json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

// Returns the text of a field, or null if there is none.
const std::string* field_of(const json& object, const std::string& name) {
  if (!has(object, name)) return nullptr;
  const auto found = object.find(name);
  if (!found->is_string()) fail("\"" + one_line(name) + "\" is not a text");
  return found->get_ptr<const std::string*>();
}

// Returns a role's or content's text.
std::string text_in(const json& message, const char* field) {
  const std::string* text = field_of(message, field);
  if (!text) fail("a message has no \"" + std::string(field) + "\"");
  return *text;
}

// An answer with the weight 0 is not learned, as in OpenAI's files for fine-tuning.
bool is_learned(const json& message) {
  if (!has(message, "weight")) return true;
  const json& weight = message.at("weight");
  if (weight != 0 && weight != 1) fail("the \"weight\" of a message is not 0 or 1");
  return weight == 1;
}

std::vector<Turn> turns_of(const json& messages, const std::string& field) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant"};
  if (!messages.is_array()) fail("\"" + one_line(field) + "\" is not a list");
  std::vector<Turn> turns;
  for (const json& message : messages) {
    if (!message.is_object()) fail("a message is not a JSON object");
    turns.push_back({text_in(message, "role"), text_in(message, "content"), is_learned(message)});
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

LineParts conversation_of(const json& object, const JsonFields& o) {
  const ChatTemplate& usual = o.usual_chat ? *o.usual_chat : usual_chat_template(nullptr);
  const std::string& field = o.messages_field.name();
  return {parts_of(turns_of(object.at(field), field), o.chat ? *o.chat : usual), true, false};
}

LineParts text_of(const json& object, const JsonFields& o) {
  return {{{.text = *field_of(object, o.text_field.name()), .counts = true}}};
}

LineParts answer_of(const json& object, const JsonFields& o) {
  const std::string &prompt = *field_of(object, o.prompt_field.name()),
                    &completion = *field_of(object, o.completion_field.name());
  if (o.chat) return {parts_of({{"user", prompt}, {"assistant", completion}}, *o.chat), true, true};
  return {{{.text = prompt}, {.text = completion, .counts = true}}, false, true};
}

// A kind of line: one that has all of these fields. Messages name the first.
struct Form {
  struct Field {
    FieldName JsonFields::*name;
    const char* option;
  };
  std::vector<Field> fields;
  LineParts (*read)(const json&, const JsonFields&);

  bool fits(const json& object, const JsonFields& o) const {
    return std::ranges::all_of(fields, [&](const Field& field) { return has(object, (o.*field.name).name()); });
  }
  bool is_named(const JsonFields& o) const {
    return std::ranges::any_of(fields, [&](const Field& field) { return !(o.*field.name).given.empty(); });
  }
  std::string name(const JsonFields& o) const { return "\"" + (o.*fields[0].name).name() + "\""; }
  std::string option(const JsonFields& o) const {
    return std::string(fields[0].option) + " " + (o.*fields[0].name).name();
  }
};

const Form kForms[] = {
    {{{&JsonFields::text_field, "--text-field"}}, text_of},
    {{{&JsonFields::prompt_field, "--prompt-field"}, {&JsonFields::completion_field, "--completion-field"}}, answer_of},
    {{{&JsonFields::messages_field, "--messages-field"}}, conversation_of}};

// Returns what a line is, or null if it is nothing of this. Throws if it could be two, and the user names not just one.
const Form* form_of_line(const json& object, const JsonFields& o) {
  std::vector<const Form*> fitting, named;
  for (const Form& form : kForms) {
    if (!form.fits(object, o)) continue;
    fitting.push_back(&form);
    if (form.is_named(o)) named.push_back(&form);
  }
  if (named.size() == 1) return named[0];
  if (fitting.size() > 1)
    fail("it has " + fitting[0]->name(o) + " and " + fitting[1]->name(o) + ", and only one can be learned: name it " +
         "with " + fitting[0]->option(o) + " or " + fitting[1]->option(o));
  return fitting.empty() ? nullptr : fitting[0];
}

LineParts parts_of(const json& object, const JsonFields& o) {
  if (const Form* form = form_of_line(object, o)) return form->read(object, o);
  const std::string &prompt = o.prompt_field.name(), &completion = o.completion_field.name();
  if (has(object, prompt)) fail("there is no \"" + completion + "\": name it with --completion-field");
  if (has(object, completion)) fail("there is no \"" + prompt + "\": name it with --prompt-field");
  if (object.contains(o.source_field) && object.contains(o.target_field))
    fail("it is a pair of \"" + o.source_field + "\" and \"" + o.target_field +
         "\": learn it with --objective pairs, or with --prompt-field " + o.source_field + " --completion-field " +
         o.target_field);
  fail("there is no \"" + o.text_field.name() + "\", no \"" + o.messages_field.name() + "\", and no \"" + prompt +
       "\" with a \"" + completion + "\": name the fields with --text-field, --messages-field, or " +
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
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
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
                     .follows = after_text && !part.token,
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
