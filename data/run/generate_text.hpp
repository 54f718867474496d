#pragma once
// Text from a trained model.

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/generate.hpp"

struct Generation {
  int length = 500;  // tokens
  std::string stop;  // the text ends before this; "": only after `length` tokens
  Sampling sampling;
  uint64_t number = 0;  // samples with different numbers are drawn independently
  int separator = -1;   // the token between documents: an empty prompt becomes it, and the text ends before it
};

// Why a text ended, and its tokens, without those of the prompt.
struct Generated {
  const char* end;  // "length", "stop" or "separator"
  std::vector<int> tokens;
};

// Feeds the prompt, then draws tokens. Calls `write` with each piece of text as soon as it cannot be part of `stop`,
// and `beyond` once, when the context is full and its older half is forgotten. An empty prompt without a separator
// becomes a newline, or the first character of a vocabulary that has no newline.
Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write,
                        const std::function<void()>& beyond);

// A sample without a prompt, at temperature 0.8.
std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed,
                      const std::string& stop = "", uint64_t number = 0, int separator = -1);
