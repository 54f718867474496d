#pragma once
// Training of byte-level BPE tokenizers.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer.hpp"

// Trains a tokenizer with `vocabulary` tokens, 256 of which are the bytes. Merges the most frequent pair each time;
// ties go to the lowest left token, then the lowest right one. Stops early if no pair is left. `progress(done, total)`
// counts merges. Throws std::invalid_argument for a vocabulary below 256.
Bpe train_bpe(std::string_view text, int vocabulary, const std::function<void(int, int)>& progress = nullptr);

// Does the same, and shows its progress on standard error if it takes long. The last of the tokens are special tokens
// of these names.
Tokenizer train_tokenizer(std::string_view text, int vocabulary, const std::vector<std::string>& special = {});
