#pragma once
// Rows that several commands have.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "data/text/documents.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "setting_table.hpp"

// --include and --exclude are for folders.
template <class Options>
bool reads_folders(const Options& o) {
  std::vector<std::string> paths = o.data;
  if constexpr (requires { o.val_data; }) paths.insert(paths.end(), o.val_data.begin(), o.val_data.end());
  return paths.empty() || std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
#if defined(__wasm__)  // no files, and no functions for them
    return path.empty();
#else
    std::error_code unknown;
    return std::filesystem::is_directory(path, unknown);
#endif
  });
}
template <class Options>
const Condition<Options> kFolders = {reads_folders<Options>, nullptr,
                                     "on files that are named: it chooses in folders", true};

template <class Options>
void describe_text(SettingTable<Options>& t, bool required) {
  t.list("data", &Options::data, "FILE...", "text files, folders, or - for standard input",
         {.common = true, .required = required, .text = true, .input = true, .may_change = true});
  t.list("include", &Options::include, "PATTERN...", "files to read in folders: '*.md' '*.txt'", {.text = true},
         {kFolders<Options>});
  t.list("exclude", &Options::exclude, "PATTERN...", "files and subfolders to skip in folders: '*.json' drafts",
         {.text = true}, {kFolders<Options>});
}

// How names of special tokens in a text are read.
template <class Options>
void describe_special(SettingTable<Options>& t, const Traits& traits = {}) {
  t.choice("special-tokens", kSpecialNames, &Options::finds_special,
           "names of special tokens in text (default: the tokenizer's way)", traits);
}

template <class Options>
void describe_files(SettingTable<Options>& t, bool required) {
  describe_text(t, required);
  t.choice("unknown", kUnknowns, &Options::unknown, "handling of characters outside the vocabulary",
           {.text = true});
  describe_special(t, {.text = true});
}

template <class Options, class Place>
SettingOf<Options>& describe_documents(SettingTable<Options>& t, Place place) {
  auto& s = t.text("documents", place, "NAME",
                   "what a document is, or what divides two: '<|endoftext|>' (default: file)",
                   {.common = true, .free = true, .text = true});
  s.choices = {std::begin(kDocuments), std::end(kDocuments)};
  s.shown = "";
  return s;
}

template <class Options>
void describe_field(SettingTable<Options>& t, const std::string& name, FieldName JsonFields::*field,
                    const std::string& help) {
  auto& s = t.text(name, [field](auto& o) -> auto& { return (o.*field).given; }, "NAME", help, {.text = true});
  s.value = [field](const Options& o) { return (o.*field).given.empty() ? "" : toml((o.*field).given); };
  s.shown = (Options().*field).usual;
  s.open_by_default = true;
}

// How JSON lines are read.
template <class Options>
void describe_json_lines(SettingTable<Options>& t) {
  describe_field(t, "text-field", &JsonFields::text_field, "field of JSON lines with a text");
  describe_field(t, "prompt-field", &JsonFields::prompt_field, "field of JSON lines with a prompt");
  describe_field(t, "completion-field", &JsonFields::completion_field,
                 "field of JSON lines with what follows the prompt");
  describe_field(t, "messages-field", &JsonFields::messages_field, "field of JSON lines with a conversation");
  t.choice("loss", kLearnedParts, &Options::learn, "tokens of prompts and completions that count", {.text = true});
  const auto set = [](Options& o, const std::string& text) { o.chat = &find_chat_template(text); };
  const auto value = [](const Options& o) { return o.chat ? toml(std::string(o.chat->name)) : ""; };
  auto& chat = t.computed("chat-template", "NAME", "how a conversation is written", {.text = true},
                          {}, set, value);
  chat.choices = names_of(chat_templates());
  chat.shown = chat.choices[0];
}

// How JSON lines with pairs are read.
template <class Options>
void describe_pairs(SettingTable<Options>& t, const std::vector<Condition<Options>>& needs = {}) {
  t.text("source-field", &Options::source_field, "NAME", "field of JSON lines with the source of a pair",
         {.text = true}, needs);
  t.text("target-field", &Options::target_field, "NAME", "field of JSON lines with the target of a pair",
         {.text = true}, needs);
}

template <class Options>
void describe_separator(SettingTable<Options>& t) {
  auto& s = t.text("document-separator", &Options::separator, "TOKEN",
                   "special token between documents (default: the tokenizer's own)", {.text = true});
  s.value = [](const Options& o) { return o.separator.empty() ? "" : toml(o.separator); };
  s.shown = "";
  s.open_by_default = s.value({}).empty();
}

template <class Options>
void describe_tokenizer(SettingTable<Options>& t) {
  auto& s = t.named("tokenizer", &Options::tokenizer, {"byte", "char", "bpe:VOCABULARY"},
                    "tokenizer, or a tokenizer file", {.common = true, .files = true, .text = true});
  s.set = [](Options& o, const std::string& text) {
    vocabulary_of_bpe(text);  // refuses numbers that it cannot be
    o.tokenizer = text;
  };
  // An open tokenizer is written as it is for text. Before a run writes it, tokenizer_of() decides it.
  s.value = [](const Options& o) { return toml(o.tokenizer.empty() ? std::string("byte") : o.tokenizer); };
  s.shown = Options().tokenizer.empty() ? "byte" : Options().tokenizer;
}

template <class Options>
void describe_threads(SettingTable<Options>& t) {
  t.number("threads", &Options::threads, 0, 4096, "threads (0: OMP_NUM_THREADS or all allowed processors)",
           {.common = true, .machine = true, .may_change = true});
}
