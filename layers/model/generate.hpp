#pragma once
// Text from a model, token by token, with a key/value cache.

#include <cstdint>
#include <vector>

#include "model.hpp"

// Applied in this order, which is that of transformers.
struct Sampling {
  // The logits of tokens in the model's context are divided by it (Keskar et al. 2019, arXiv 1909.05858), or multiplied
  // if they are negative, as transformers does; 1: no penalty.
  float repeat_penalty = 1;
  float temperature = 1;  // logits are divided by it; 0: always the most likely token
  int top_k = 0;          // only the k likeliest tokens; 0: all (Fan et al. 2018, arXiv 1805.04833)
  float top_p = 1;        // only the fewest tokens that hold this probability (Holtzman et al. 2020, arXiv 1904.09751)
  float min_p = 0;        // only tokens with this share of the largest probability (Nguyen et al. 2024, 2407.01082)
  uint64_t seed = 1;
};

// Draws a token from logits (V); `counter` numbers the draws of a run. `seen`: the tokens that are penalized.
int sample_token(const float* logits, int V, const Sampling& sampling, uint64_t counter,
                 const std::vector<int>& seen = {});

// Feeds tokens to a model and returns the logits of the next one. Within the context they equal those of the full
// forward pass. When the context is full, the older half is dropped and the newer half is read again.
class Generator {
 public:
  // `tokens`: how many tokens it will be fed in all. Allocates for these, or for the context if that is shorter.
  Generator(const Model& model, int64_t tokens);

  const float* feed(const std::vector<int>& tokens);  // at least one; returns logits (V)
  const std::vector<int>& seen() const { return seen_; }  // the tokens that the model sees
  bool beyond_context() const { return beyond_; }         // true once tokens were dropped

 private:
  const Model& model_;
  ModelCache cache_;
  Activations activations_;
  std::vector<int> seen_;  // the tokens the cache holds
  bool beyond_ = false;
};
