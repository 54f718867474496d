#pragma once
// Reads BERT's vocab.txt, with one token on each line.

#include <string>

#include "data/tokenizer/tokenizer.hpp"

// How BERT's tokenizer treats text, as in tokenizer_config.json.
struct BertOptions {
  bool lowers_case = true;
  bool strips_accents = true;
  bool splits_cjk = true;
};

// Returns the tokenizer of a file's text. Throws std::runtime_error, without a file name, if it is not BERT's.
Tokenizer tokenizer_from_bert(const std::string& lines, const BertOptions& options);

// Takes the options from the tokenizer_config.json next to the file. Without one, a note says that text becomes lower
// case, unless a token has a capital letter. Throws std::runtime_error that names the file.
Tokenizer read_bert(const std::string& path);
