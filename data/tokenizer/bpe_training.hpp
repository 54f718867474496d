#pragma once
// Training of byte-level BPE tokenizers.

#include <functional>
#include <string>
#include <string_view>

#include "bpe.hpp"

// Trains a tokenizer with `vocabulary` tokens, of which 256 are the bytes. Merges the pair that occurs most often, and
// of equally frequent pairs the one with the lowest token numbers, left before right. Stops early if no pair is left.
// `progress(done, total)` counts merges. Throws std::invalid_argument for a vocabulary below 256.
Bpe train_bpe(std::string_view text, int vocabulary, const std::function<void(int, int)>& progress = nullptr);

// The same, with its progress on standard error if it takes long. The last of the tokens is the special token
// `separator`, unless that is "".
Bpe train_bpe_shown(std::string_view text, int vocabulary, const std::string& separator);
