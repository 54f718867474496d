#pragma once
// Generates text token by token, with a key/value cache.

#include <cstdint>
#include <vector>

#include "model.hpp"

// Filters on the next token, applied in this order, as in transformers.
struct Sampling {
  // Divides positive and multiplies negative logits of tokens in the model's context (Keskar et al. 2019, arXiv
  // 1909.05858, as in transformers). 1 means no penalty.
  float repeat_penalty = 1;
  float temperature = 1;  // divides the logits; 0 takes the most likely token
  int top_k = 0;          // only the k likeliest tokens; 0 takes all (Fan et al. 2018, arXiv 1805.04833)
  float top_p = 1;        // only the fewest tokens that hold this probability (Holtzman et al. 2020, arXiv 1904.09751)
  float min_p = 0;        // only tokens with this share of the largest probability (Nguyen et al. 2024, 2407.01082)
  uint64_t seed = 1;
};

// Draws a token from logits (V); `counter` numbers the draws of a run. `seen` are the penalized tokens.
int sample_token(const float* logits, int V, const Sampling& sampling, uint64_t counter,
                 const std::vector<int>& seen = {});

// Feeds tokens to a model and returns the logits of the next one. Within the context they equal the logits of the full
// forward pass of as many tokens. When the context is full, drops the older half and reads the newer half again.
//
// split() continues one sequence as several in parallel, so that a step reads the weights once for all of them. A
// sequence's logits are bit-identical for any other sequences in the step.
class Generator {
 public:
  // `tokens` is the total number of tokens that a sequence will be fed. Allocates for these, or for the context if that
  // is shorter, and for `sequences` sequences, at most kMostSequences. Uses `activations` instead of its own if given;
  // they must have a row for each token of the context and for each sequence.
  // A model with an encoder needs a `source`, whose tokens the activations must have rows for, too.
  Generator(const Model& model, int64_t tokens, int sequences = 1, const Activations* activations = nullptr,
            const std::vector<int>& source = {});
  Generator(const Generator&) = delete;

  const float* feed(const std::vector<int>& tokens);  // one sequence, at least one token; returns logits (V)
  const float* split(int sequences);                  // copies the one sequence; returns logits (sequences,V)
  const float* step(const std::vector<int>& tokens);  // one token per sequence; returns logits (sequences,V)
  void keep(const std::vector<int>& sequences);       // drops all others; pass them in ascending order
  void fork(const std::vector<int>& parents);         // sequence b goes on from parents[b], also several from one
  const std::vector<int>& seen(int sequence = 0) const { return seen_[sequence]; }  // the tokens that the model sees
  bool beyond_context() const { return beyond_; }                                   // true once tokens were dropped

 private:
  const float* read(const std::vector<int>& tokens, int T);
  bool must_read_again() const;
  const float* read_again();
  void copy_cache(int to, int from);

  const Model& model_;
  ModelCache cache_;
  Activations own_;
  const Activations& activations_;
  std::vector<std::vector<int>> seen_;  // for each sequence, the tokens in the cache, equally many
  bool beyond_ = false;
};

// Returns how many sequences should advance together: as many as wanted, but at most kMostSequences, and only as many
// as have keys and values of a gigabyte.
inline constexpr int kMostSequences = 64;
int sequences_together(const Config& config, int64_t tokens, int64_t wanted);
