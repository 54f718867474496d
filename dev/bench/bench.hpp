#pragma once
// What the parts of the benchmark share.

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
  std::vector<int> widths;  // of the norms; none: two sizes that are often met
  double flops_fp32 = 0, flops_bf16 = 0;  // the ceilings
  Bandwidth bandwidth{};

  double flops(Matmul matmul) const { return matmul == Matmul::bf16 ? flops_bf16 : flops_fp32; }
};

// What the products of a comparison run in: bf16 only where the processor has it.
std::vector<Matmul> matmuls();

// Adds seconds, speed in units of 1e9 and the share of a ceiling; `work` in operations or bytes.
void add_speed(Json& row, const Times& times, double work, double ceiling);
// Adds the peer's speed under `key` and how many times as fast ours is under `ratio`; nothing where it has no times.
void add_peer(Json& row, const Times& ours, const Times& theirs, double work, const char* key, const char* ratio);

Buffer random_floats(size_t n, float deviation = 1);
std::vector<int> random_tokens(size_t n, int V);
void random_weights(Model& model);  // as far from zero as they would be; faster than initialise()

void bench_gemm(Bench& bench);
void bench_norms(Bench& bench);
void bench_layers(Bench& bench);
void bench_sampling(Bench& bench);
void bench_steps(Bench& bench);
