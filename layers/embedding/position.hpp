#pragma once
// Positional encodings. (ALiBi's slopes and T5's biases act in attention.)
//
//   learned   x (B,T,C)   weight (context,C)
//     forward   x[b,t,:] += weight[t,:]
//     backward  dweight[t,:] += Σ_b dx[b,t,:]                    dx passes on unchanged
//
//   sinusoidal  the same with a fixed weight: column 2i is sin(t·10000^(-2i/C)), column 2i + 1 the cosine of the same
//     angle, interleaved as in the paper (Vaswani et al. 2017, arXiv 1706.03762, §3.5; some programs put all sines
//     first).
//
//   RoPE  (Su et al. 2021, arXiv 2104.09864), in place on the heads of q and k. It rotates the first R numbers of each
//   head (R = D, or fewer: GPT-NeoX, Black et al. 2022, arXiv 2204.06745) in pairs (i, i + R/2), as in Hugging Face's
//   transformers, by the angle t·θ^(-2i/R):
//     forward   (a, b) ← (a·cos − b·sin, a·sin + b·cos)
//     backward  the inverse rotation: (da, db) ← (da·cos + db·sin, db·cos − da·sin)
//
//   A context longer than the original one, for which the frequencies f = θ^(-2i/R) were trained, has them stretched by
//   a factor s. A pair makes n = f·original/2π turns in the original context:
//     linear    f/s  (Chen et al. 2023, arXiv 2306.15595)
//     yarn      f/s for the pairs that make fewer than `slow` turns, f for those that make more than `fast`, and
//               between these two pairs a mixture that is linear in i. The result is multiplied by `magnitude`, which
//               is 0.1·ln s + 1  (Peng et al. 2023, arXiv 2309.00071, §3.2 and 3.4). If `truncate`, the two are
//               rounded to whole pairs
//     llama3    the same, with a mixture that is linear in n, and without a magnitude  (Llama 3.1, by transformers)
//     dynamic   f up to the original context; beyond it programs differ, and train_gpt does not go there
//     longrope  f divided by a factor of its own for each pair, from one list for examples up to the original context
//               and from another for longer ones. The magnitude of both is √(1 + ln s/ln original)  (Ding et al. 2024,
//               arXiv 2402.13753; as Phi-3 has it)
//   saves     nothing
//
// t is the position of a token in its example. A row holds one example, or several side by side (Positions::begins).

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "layers/config/config.hpp"
#include "layers/kernels/buffer.hpp"

// The positions of B·T tokens.
struct Positions {
  int B, T;
  int first = 0;                // position of a row's first token: 0 in training, larger in generation token by token
  const int* begins = nullptr;  // (B,T) see Batch (layers/model/model.hpp)

  int of(int n) const { return first + n % T - (begins ? begins[n] : 0); }
  std::vector<int> example_lengths() const;  // (B,T) of each token's example, what comes before the row included
};

// Adds positions to x. `weight` holds learned positions or the sinusoids.
void position_forward(float* x, const float* weight, const Positions& positions, int C);
void learned_position_backward(float* dweight, const float* dx, const Positions& positions, int C);

// Returns the sinusoids (context, C), which replace a learned weight.
Buffer sinusoids(int context, int C);

// What decides the angles of RoPE.
struct RopeAngles {
  double theta;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, original = 0, slow = 0, fast = 0, magnitude = 1;
  bool truncate = true;              // yarn fades between whole pairs
  std::vector<double> factors = {};  // longrope: of each pair

  RopeAngles(double theta) : theta(theta) {}
  // Of a resolved Config. `longer`: for examples longer than the original context.
  explicit RopeAngles(const Config& config, bool longer = false);
};

// The numbers of a list such as 1,1.05,2. Throws std::invalid_argument if it is none, or if a number is not positive.
std::vector<double> rope_factors(const std::string& list);

// Returns the R/2 angles between two positions.
std::vector<double> rope_frequencies(int R, const RopeAngles& angles);

// The cosines and sines for every position and pair, (context, R/2) each, times the magnitude.
struct RopeTable {
  Buffer cosine, sine;
  int half = 0;  // R/2
  std::unique_ptr<RopeTable> longer;  // longrope: the table for examples longer than `original`
  int original = 0;
  RopeTable() = default;
  RopeTable(int context, int R, const RopeAngles& angles);
};

// The tables of a model; empty if it has none.
struct RopeTables {
  RopeTable all, local;  // `local` is for the layers with a window, if they have a base of their own
  RopeTables() = default;
  explicit RopeTables(const Config& config);
  // Returns the layer's table, or null if RoPE leaves this layer out.
  const RopeTable* of(const Config& config, int layer) const;
};

// x has B·T rows with stride `stride`. Each starts with `heads` heads of D floats (q and k in a joined qkv).
void rope_forward(float* x, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride);
void rope_backward(float* dx, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride);

// ALiBi's slopes (H): 2^(-8/H), 2^(-16/H), ... if H is a power of two (Press et al. 2021, arXiv 2108.12409, §3). For
// other H, as in the paper's code and BLOOM: the slopes of the power of two below H, then every second slope of twice
// that power.
Buffer alibi_slopes(int n_head);

// T5's biases (Raffel et al. 2020, arXiv 1910.10683, §2.1), which attention adds to its scores (attention.hpp): one for
// each head and bucket of distances d = i − j from a query i to a key j. The model learns table (buckets,H).
//   n buckets, if attention is causal: d = 0, ..., n/2 − 1 have one each. From e = n/2 on, d has the bucket
//   e + ⌊(n − e)·log(d/e)/log(distance/e)⌋, at most n − 1.
//   If it is bidirectional, keys before the query have half of them by the same rule, and keys after it the other half.
struct RelativeBias {
  const float* zero = nullptr;   // (H,span) the bias of distance 0 in the first head; null: the model has no biases
  const int* buckets = nullptr;  // (span) likewise the bucket of distance 0
  size_t span = 0;
  int count = 0;  // of buckets

  bool present() const { return zero != nullptr; }
  const float* of(int h) const { return zero + h * span; }  // [d] is the bias of distance d
};

// The distances that have a bucket of their own.
int exact_buckets(const Config& config);

// The bucket of each distance in rows of up to `context` tokens, and of the distances after them that attention reads
// because its tiles are whole.
class RelativeBuckets {
 public:
  RelativeBuckets() = default;
  explicit RelativeBuckets(const Config& config);  // empty unless the model has relative positions

  // `biases` (H,size()) is what fill() writes.
  RelativeBias bias(const float* biases) const;
  // Writes the biases of the distances that T queries and keys have after `past` keys.
  void fill(float* biases, const float* table, int H, int past, int T) const;
  static size_t size(const Config& config);  // 0 if the model has none

 private:
  std::vector<int> bucket_;
  int zero_ = 0, count_ = 0;  // the place of distance 0
};

// What a model's position adds to scores.
struct PositionBiases {
  const float* slopes = nullptr;  // (H) ALiBi's
  RelativeBias relative = {};
};
