#pragma once
// Masked language modeling (BERT: Devlin et al. 2019, arXiv 1810.04805, §3.1): some tokens of a window are hidden, and
// these are the targets. The choice depends only on a key, so a resumed run makes the same one.

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"

struct Masking {
  double fraction = 0;  // of the tokens that are not special
  int token = -1;       // that replaces a hidden one; -1: no masking, the targets are the next tokens
  std::vector<bool> special = {};  // for each token

  bool on() const { return token >= 0; }
};

constexpr const char* kMaskName = "[MASK]";  // of a new tokenizer

// The name of the tokenizer's token for hidden tokens, [MASK] or <mask>; "" if it has none.
std::string mask_name(const Tokenizer& tokenizer);

// For each token, whether it is special.
std::vector<bool> special_tokens(const Tokenizer& tokenizer);

// Returns the masking with a tokenizer that has such a token.
Masking masking_with(const Tokenizer& tokenizer, double fraction);

// How many of n tokens become targets: n·fraction rounded, but at least one.
int masked_among(int n, double fraction);

// Hides tokens and makes them the targets; all other targets stay as they are. Of the hidden tokens, 80 % are replaced
// by the mask, 10 % by any token that is not special, and 10 % stay.
void mask_tokens(std::span<int> tokens, std::span<int> targets, const Masking& masking, uint64_t key);
