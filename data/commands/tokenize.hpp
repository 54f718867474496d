#pragma once
// The sub-command tokenize: writes a text as llm.c's token files, and its tokenizer.json next to them.

#include "data/options/options.hpp"

void run_tokenize(const TokenizeOptions& options);
