#pragma once
// The sub-command tokenizer: trains a byte-level BPE tokenizer and writes its tokenizer.json.

#include "data/options/options.hpp"

void run_tokenizer(const TokenizerOptions& options);
