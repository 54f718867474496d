#pragma once
// The sub-command tokenize: writes a text as token files of llm.c, with its tokenizer.json beside them.

#include "data/options/options.hpp"

void run_tokenize(const TokenizeOptions& options);
