#include "unread_options.hpp"

#include <algorithm>

namespace {

bool reads_text(const ReadText& text) { return !text.has_token_files; }
bool has_lines(const ReadText& text) { return text.has_lines; }
bool has_answers(const ReadText& text) { return text.has_answers; }
bool splits(const ReadText& text) { return !text.has_val_token_files; }

// A byte-pair encoding from a file may lack bytes. A new tokenizer has all characters of its text.
bool may_lack_characters(const ReadText& text) {
  const Tokenizer::Kind kind = text.tokenizer.kind();
  return text.has_known_tokenizer && (kind == Tokenizer::Kind::character || kind == Tokenizer::Kind::bpe);
}

bool is_other(const FieldName& field) { return field.name() != field.usual; }

struct Row {
  const char* option;
  bool (*is_set)(const TextOptions&);
  bool (*is_read)(const ReadText&);
  const char* otherwise;
};

constexpr const char *kTokens = "on token files", *kNoJson = "without JSON lines",
                     *kNoAnswers = "without prompts and conversations", *kValFiles = "with token files for validation";

// The first row of an option that is not read gives the reason. A resumed run has values that the text decided, and a
// run from a checkpoint has some of the checkpoint's: neither is reported.
const Row kRows[] = {
    {"unknown", [](const TextOptions& o) { return o.unknown != Unknown::error; }, reads_text, kTokens},
    {"unknown", [](const TextOptions& o) { return o.unknown != Unknown::error; }, may_lack_characters,
     "with a tokenizer that has all characters"},
    {"special-tokens", [](const TextOptions& o) { return o.finds_special.has_value(); }, reads_text, kTokens},
    {"special-tokens", [](const TextOptions& o) { return o.finds_special.value_or(false); },
     [](const ReadText& text) { return text.tokenizer.finds_special(); }, "with a tokenizer that is no tokenizer.json"},
    {"documents", [](const TextOptions& o) { return !o.documents.empty() && o.documents != "file" &&
                                                    o.documents != "line"; },
     [](const ReadText& text) { return text.has_plain || text.has_token_files; },
     "on JSON lines and pairs, each of which is a document"},
    {"sampling", [](const TextOptions& o) { return o.sampling == Draws::shuffle && !o.packing; },
     [](const ReadText& text) { return text.packing == Packing::stream; },
     "on documents, whose rows are shuffled"},
    {"text-field", [](const TextOptions& o) { return is_other(o.text_field); }, has_lines, kNoJson},
    {"prompt-field", [](const TextOptions& o) { return is_other(o.prompt_field); }, has_lines, kNoJson},
    {"completion-field", [](const TextOptions& o) { return is_other(o.completion_field); }, has_lines, kNoJson},
    {"messages-field", [](const TextOptions& o) { return is_other(o.messages_field); }, has_lines, kNoJson},
    {"loss", [](const TextOptions& o) { return o.learn == LearnedPart::all; }, has_answers, kNoAnswers},
    {"chat-template", [](const TextOptions& o) { return o.chat != nullptr; },
     [](const ReadText& text) { return text.has_answers || text.has_token_files || text.has_known_tokenizer; },
     "without prompts and conversations, but for the special tokens of a new tokenizer"},
    {"val-fraction", [](const TextOptions& o) { return o.val_fraction != TextOptions().val_fraction; }, splits,
     kValFiles},
    {"val-split", [](const TextOptions& o) { return o.val_split != ValSplit::tail; }, splits, kValFiles},
};

}  // namespace

std::vector<std::string> unread_options(const TextOptions& options, const ReadText& text) {
  std::vector<std::string> lines;
  const char* last = "";
  for (const Row& row : kRows) {
    if (row.option == std::string(last) || !row.is_set(options) || row.is_read(text)) continue;
    lines.push_back("--" + std::string(row.option) + " has no effect " + row.otherwise);
    last = row.option;
  }
  return lines;
}
