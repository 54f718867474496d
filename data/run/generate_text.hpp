#pragma once
// Text from a trained model.

#include <functional>
#include <string>

#include "layers/model/generate.hpp"
#include "data/text/tokenizer.hpp"

struct Generation {
  int length = 500;   // tokens
  std::string stop;   // the text ends before this; "": only after `length` tokens
  Sampling sampling;
  uint64_t number = 0;  // samples with different numbers are drawn independently
};

// Feeds the prompt, then draws tokens; each piece of text goes to `write` as soon as it cannot be a part of `stop`, and
// `beyond` is called once, when the context is full and its older half is forgotten. An empty prompt is a new line, or
// for a vocabulary without one its first character.
void generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                   const std::function<void(const std::string&)>& write, const std::function<void()>& beyond);

// The text a run shows of itself: `length` tokens at temperature 0.8.
// It ends before `stop`; samples with different numbers are drawn independently.
std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed,
                      const std::string& stop = "", uint64_t number = 0);
