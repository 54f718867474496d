#pragma once
// Shared by the parts of the benchmark.

#include <string>
#include <vector>

#include "data/host/peak.hpp"
#include "layers/model/model.hpp"
#include "measure.hpp"
#include "report.hpp"

struct Bench {
  Report& report;
  Clockwork clock;
  bool quick = false;
  std::vector<int> widths;                // channels of the norms; empty: two common sizes
  double flops_fp32 = 0, flops_bf16 = 0;  // measured peaks
  Bandwidth bandwidth{};

  double flops(Matmul matmul) const { return matmul == Matmul::bf16 ? flops_bf16 : flops_fp32; }
};

// The precisions to measure: bf16 only if the processor has it.
std::vector<Matmul> matmuls();

// Adds seconds, speed in units of 1e9 and the share of a ceiling. `work` is in operations or bytes.
void add_speed(Json& row, const Times& times, double work, double ceiling);
// Adds the peer's speed as `key` and the speedup of ours as `ratio`. Adds nothing if the peer has no times.
void add_peer(Json& row, const Times& ours, const Times& theirs, double work, const char* key, const char* ratio);

Buffer random_floats(size_t n, float deviation = 1);
std::vector<int> random_tokens(size_t n, int V);
void random_weights(Model& model);  // like initialize(), with uniform numbers because they are faster

void bench_experts(Bench& bench);
void bench_gemm(Bench& bench);
void bench_norms(Bench& bench);
void bench_layers(Bench& bench);
void bench_packed(Bench& bench);
void bench_sampling(Bench& bench);
void bench_steps(Bench& bench);
void bench_tokenizers(Bench& bench);
