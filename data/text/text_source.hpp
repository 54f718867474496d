#pragma once
// The sources of a dataset: texts or token files, and the tokenizer file next to token files.

#include <string>
#include <vector>

#include "documents.hpp"
#include "text_options.hpp"

// A text and its documents, with -log P of each if it is a generated corpus; or token files.
struct TextSource {
  Text text;
  bool pairs = false;               // each two documents are a pair
  std::vector<TextSpan> documents;  // their parts
  std::vector<double> nats;
  std::vector<std::string> token_files;

  bool empty() const { return text.files.empty() && token_files.empty(); }
  std::string name() const;  // "all/train_000000.bin and 3 more files"
};

// Opens files and folders of texts or of tokens, without those that are `held_out`. If `raw`, a NAME.bin without a
// header holds tokens. Throws std::runtime_error.
TextSource open_source(const std::vector<std::string>& paths, const TextFiles& filter, bool raw,
                       const std::vector<std::string>& held_out = {});

// Opens text or tokens that are measured, not trained on. Adds a note if a folder has token files for validation, which
// are not read.
TextSource open_measured(const std::vector<std::string>& paths, const TextFiles& filter, bool raw);

// Opens the text of --val-data, or the validation token files in the folders of --data. Throws std::runtime_error.
TextSource open_validation(const TextOptions& options, const TextSource& training, bool raw);

// Returns the tokenizer file in a folder, or next to a file, or "".
std::string tokenizer_file_beside(const std::string& path);

// Returns the tokenizer file for token files: the named one, or if none is named, the file next to them, or "".
std::string tokenizer_file_of(const std::string& path, const std::string& tokenizer);

// Returns the tokenizer file for a token file. Throws std::runtime_error if there is none.
std::string require_tokenizer_file(const std::string& file, const std::string& name);

// Throws std::runtime_error: where in the text the tokenizer fails. The advice depends on whether the tokenizer is new
// or a checkpoint's.
[[noreturn]] void fail_token(const Text& text, const NoToken& error, bool new_tokenizer);
