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
  int separator = -1;   // the token before each document: an empty prompt becomes it, and the text ends before it
  std::function<bool()> stopped = {};  // asked after every token: true ends the text
  const Activations* activations = nullptr;  // to use, of a whole context; null: the generator allocates its own
  bool within_context = false;  // the text ends when the context is full
  bool by_line = false;         // the model has learned single lines: each begins with an empty context
};

// Why a text ended, and its tokens, without those of the prompt.
struct Generated {
  const char* end = "length";  // or "stop", "separator", "context", "interrupted"
  std::vector<int> tokens;
  bool beyond_context = false;  // the context was full, and its older half was forgotten
};

// Called with the texts of samples as they come. Samples are numbered from 0.
struct Listener {
  std::function<void(int sample, const std::string& piece)> write;  // as soon as it cannot be part of `stop`
  std::function<void(int sample, const Generated& result)> end;
};

// Feeds the prompt, then draws tokens, for `count` samples numbered from how.number on. As many as memory allows
// advance together, so that the weights are read once a step; each has the text that it would have alone. An empty
// prompt without a separator becomes a newline, or the first character of a vocabulary that has no newline. A separator
// that the tokenizer puts before texts comes before the prompt, and the text also ends before the tokenizer's end.
void generate_texts(const Model& model, const Tokenizer& tokenizer, const std::string& prompt, const Generation& how,
                    int count, const Listener& listener);

// One sample.
Generated generate_text(const Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                        const Generation& how, const std::function<void(const std::string&)>& write);

// A sample without a prompt, at temperature 0.8, that ends when the context is full. `activations`: see Generation.
std::string sample_of(const Model& model, const Tokenizer& tokenizer, int length, uint64_t seed,
                      const std::string& stop = "", uint64_t number = 0, int separator = -1,
                      const Activations* activations = nullptr);
