#pragma once
// Tokenizers in the files of other programs that we cannot read.

#include <functional>
#include <string>

#include "data/tokenizer/tokenizer.hpp"

// Returns read(). If that throws UnsupportedPart, prints a note and returns a tokenizer without text: the model can
// still read token files. It keeps the text of `file`, unless the name is "".
Tokenizer read_or_keep(const std::function<Tokenizer()>& read, int vocabulary, const std::string& file);

// Does the same for a model that came without a tokenizer. `why` says which file is lacking.
Tokenizer no_tokenizer(const std::string& why, int vocabulary);
