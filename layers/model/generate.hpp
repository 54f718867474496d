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
//
// A sequence can be split into several that go on side by side: then a step reads the weights once for all of them. The
// logits of a sequence have the same bits whatever goes on beside it.
class Generator {
 public:
  // `tokens`: how many tokens a sequence will be fed in all. Allocates for these, or for the context if that is
  // shorter, and for so many sequences, at most kMostSequences. Uses `activations` instead of its own if given;
  // they must have a row for each token of the context and for each sequence.
  Generator(const Model& model, int64_t tokens, int sequences = 1, const Activations* activations = nullptr);
  Generator(const Generator&) = delete;

  const float* feed(const std::vector<int>& tokens);  // of one sequence; at least one token; returns logits (V)
  const float* split(int sequences);                  // makes so many of the one; returns logits (sequences,V)
  const float* step(const std::vector<int>& tokens);  // one token of each sequence; returns logits (sequences,V)
  void keep(const std::vector<int>& sequences);       // drops all others; in rising order
  const std::vector<int>& seen(int sequence = 0) const { return seen_[sequence]; }  // the tokens that the model sees
  bool beyond_context() const { return beyond_; }                                   // true once tokens were dropped

 private:
  const float* read(const std::vector<int>& tokens, int T);
  const float* read_again();
  void copy_cache(int to, int from);

  const Model& model_;
  ModelCache cache_;
  Activations own_;
  const Activations& activations_;
  std::vector<std::vector<int>> seen_;  // of each sequence, the tokens the cache holds; all are equally many
  bool beyond_ = false;
};

// How many sequences should advance together: as many as are wanted, but no more than kMostSequences, and no more than
// have keys and values of a gigabyte.
inline constexpr int kMostSequences = 64;
int sequences_together(const Config& config, int64_t tokens, int64_t wanted);
