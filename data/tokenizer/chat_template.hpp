#pragma once
// Chat templates: how the turns of a conversation become text and special tokens.
//
//   chatml   <|im_start|>user                     OpenAI's ChatML, as Qwen and SmolLM have it
//            Who quacks?<|im_end|>
//            <|im_start|>assistant
//            Emma.<|im_end|>
//
//   plain    User: Who quacks?                    text alone; the token that ends a document ends an answer, too
//            Assistant: Emma.

#include <span>
#include <string>
#include <vector>

#include "tokenizer.hpp"

struct Turn {
  std::string role;     // system, user or assistant
  std::string content;
  bool learned = true;  // if the assistant says it
};

// A part of a conversation: a text, or a special token.
struct ChatPart {
  std::string text = {};
  const char* token = nullptr;  // its name, or kDocumentEnd; null for a text
  bool counts = false;          // the assistant says it
};

inline constexpr const char* kDocumentEnd = "";  // stands for the token that ends a document

// Compares the text, because each file may have a "" of its own.
inline bool is_document_end(const char* token) { return token && *token == '\0'; }

struct ChatTemplate {
  const char* name;
  const char *turn_begin, *turn_end;  // special tokens around each turn. "": the document's end, after an answer
  bool capital;                       // "User", not "user"
  const char* role_end;               // what follows the role
  const char* content_begin;          // what comes before the content, and counts with it
  const char* jinja;                  // the same template in Jinja, after the token that begins a text

  std::vector<ChatPart> parts_of(const std::vector<Turn>& turns) const;
  std::vector<ChatPart> answer_begin() const;  // the parts of an assistant's turn before its content
  std::vector<std::string> special_names() const;
};

std::span<const ChatTemplate> chat_templates();

// Throws std::invalid_argument for an unknown name.
const ChatTemplate& find_chat_template(const std::string& name);

// Returns the template for conversations if the user names none: chatml, or plain if the tokenizer lacks its tokens.
// Null stands for a new tokenizer, which gets them.
const ChatTemplate& usual_chat_template(const Tokenizer* tokenizer);

// Throws std::runtime_error if the tokenizer lacks a special token of the template.
void require_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer);

// Returns the token that ends an answer before its document ends; -1 if there is none, or no template.
int answer_end(const ChatTemplate* chat, const Tokenizer& tokenizer);

// Returns the template in Jinja, as transformers and llama.cpp read it. A conversation begins with the tokenizer's
// begin() if it has one.
std::string jinja_of(const ChatTemplate& chat, const Tokenizer& tokenizer);

// Returns the template that jinja_of() writes so for this tokenizer, or null.
const ChatTemplate* template_of_jinja(const std::string& jinja, const Tokenizer& tokenizer);
