#pragma once
// What a model of masked tokens predicts for them.

#include <string>
#include <vector>

#include "data/text/dataset.hpp"
#include "layers/model/model.hpp"

struct Guess {
  int token;
  double probability;
};

// A masked place, and its likeliest tokens, the likeliest first.
struct FilledMask {
  int place;
  std::vector<Guess> guesses;
};

// Returns the tokens of a prompt, in which the tokenizer's mask_name() stands for one token, with the tokens around a
// document if there are any. Throws std::runtime_error if no token is masked, or if there are more than the context.
std::vector<int> masked_prompt(const Tokenizer& tokenizer, const std::string& prompt, const DocumentTokens& around,
                               Unknown unknown, int context);

// Predicts each token of `tokens` that is `mask`. `activations` are for as many tokens.
std::vector<FilledMask> fill_masks(const Model& model, const Activations& activations, const std::vector<int>& tokens,
                                   int mask, int guesses = 5);

// Returns the text of these tokens with the likeliest guess in the place of each mask.
std::string filled_text(const Tokenizer& tokenizer, std::vector<int> tokens, const std::vector<FilledMask>& masks);

// Masks the beginning of the validation text, or of the text for training. Returns it as the model reads it, and on the
// next line as the model fills it.
std::string filled_sample(const Model& model, const Activations& activations, const Dataset& data);
