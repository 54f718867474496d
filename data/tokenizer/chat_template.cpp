#include "chat_template.hpp"

#include <cctype>
#include <stdexcept>
#include <utility>

#include "layers/config/enum_names.hpp"

namespace {

constexpr const char* kChatmlJinja =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr const char* kPlainJinja =
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}"
    "{% elif message['role'] == 'system' %}{{ 'System: ' + message['content'] + '\\n' }}"
    "{% else %}{{ 'User: ' + message['content'] + '\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

constexpr ChatTemplate kTemplates[] = {
    {.name = "chatml", .turn_begin = "<|im_start|>", .turn_end = "<|im_end|>", .capital = false, .role_end = "\n",
     .content_begin = "", .jinja = kChatmlJinja},
    {.name = "plain", .turn_begin = "", .turn_end = "", .capital = true, .role_end = ":", .content_begin = " ",
     .jinja = kPlainJinja}};

std::string shown_role(const ChatTemplate& chat, std::string role) {
  if (chat.capital && !role.empty()) role[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(role[0])));
  return role;
}

// The parts before the content.
std::vector<ChatPart> begin_of(const ChatTemplate& chat, const std::string& role) {
  std::vector<ChatPart> parts;
  if (*chat.turn_begin) parts.push_back({.token = chat.turn_begin});
  parts.push_back({.text = shown_role(chat, role) + chat.role_end});
  return parts;
}

void add_turn(std::vector<ChatPart>& parts, const ChatTemplate& chat, const Turn& turn) {
  const bool answer = turn.role == "assistant", counts = answer && turn.learned, ends_turns = *chat.turn_end;
  for (ChatPart& part : begin_of(chat, turn.role)) parts.push_back(std::move(part));
  parts.push_back({.text = chat.content_begin + turn.content, .counts = counts});
  if (ends_turns || answer) parts.push_back({.token = ends_turns ? chat.turn_end : kDocumentEnd, .counts = counts});
  if (ends_turns || !answer) parts.push_back({.text = "\n"});
}

bool has_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  try {
    require_tokens(chat, tokenizer);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

std::vector<ChatPart> ChatTemplate::parts_of(const std::vector<Turn>& turns) const {
  std::vector<ChatPart> parts;
  for (const Turn& turn : turns) add_turn(parts, *this, turn);
  return parts;
}

std::vector<ChatPart> ChatTemplate::answer_begin() const { return begin_of(*this, "assistant"); }

std::vector<std::string> ChatTemplate::special_names() const {
  if (!*turn_begin) return {};
  return {turn_begin, turn_end};
}

std::span<const ChatTemplate> chat_templates() { return kTemplates; }

const ChatTemplate& find_chat_template(const std::string& name) {
  return row_named(kTemplates, "chat template", name);
}

const ChatTemplate& usual_chat_template(const Tokenizer* tokenizer) {
  for (const ChatTemplate& row : kTemplates)
    if (!tokenizer || has_tokens(row, *tokenizer)) return row;
  return kTemplates[0];
}

void require_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  for (const std::string& name : chat.special_names()) try {
      tokenizer.special(name);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(std::string("--chat-template ") + chat.name + ": " + error.what() +
                               "; use --chat-template plain, or train a new model with this one from the start");
    }
}

int answer_end(const ChatTemplate* chat, const Tokenizer& tokenizer) {
  return chat ? tokenizer.special(chat->turn_end) : -1;
}

std::string jinja_of(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  return std::string(tokenizer.begin() >= 0 ? "{{ bos_token }}" : "") + chat.jinja;
}

const ChatTemplate* template_of_jinja(const std::string& jinja, const Tokenizer& tokenizer) {
  for (const ChatTemplate& row : kTemplates)
    if (has_tokens(row, tokenizer) && jinja == jinja_of(row, tokenizer)) return &row;
  return nullptr;
}
