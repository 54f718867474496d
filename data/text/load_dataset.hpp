#pragma once
// Datasets from text files and token files: reading, encoding, and the split into training and validation.

#include <string>
#include <vector>

#include "dataset.hpp"
#include "split.hpp"
#include "text_files.hpp"

// Which text to read, and how to split and draw it.
struct TextOptions : TextFiles, SplitOptions {
  std::vector<std::string> val_data;  // the validation text; empty: a part of `data`
  std::string tokenizer = "byte";     // or char, bpe:VOCABULARY, or a tokenizer file
  std::string separator;              // the special token before each file; "": none
};

// Reads and splits the text. A split by --val-fraction falls anywhere, but "spread" prefers the starts of lines. In a
// generated corpus with its floor beside it, a split falls at the story boundary before that, and windows are stories.
// Uses `tokenizer`, that of a checkpoint, or makes a new one if it is null. Token files (token_files.hpp) are mapped.
// Throws std::runtime_error for missing, empty and too short data, saying how many tokens are needed.
Dataset load_dataset(const TextOptions& options, const Tokenizer* tokenizer, int context);

// The tokenizer that new token files need: --tokenizer, or else the file beside them. For a text it is --tokenizer.
std::string tokenizer_of(const TextOptions& options);

// Reads a whole text as validation, for `eval`. `separator`: the token before each file, or -1.
Dataset load_for_evaluation(const TextFiles& files, const Tokenizer& tokenizer, int context, int separator = -1);
