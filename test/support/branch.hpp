#pragma once
// A residual branch around any F, in the steps of layers/residual/residual.hpp. layers/model/block.cpp does the same.

#include "check.hpp"
#include "layers/residual/residual.hpp"

// The sums that a branch reads if it attends over depth: random numbers, with gradients of 0.
inline void add_sums(StreamsScratch& scratch, std::vector<std::vector<float>>& sums, const Config& config, int N) {
  if (!is_attnres(stream_rule(config))) return;
  for (int j = 0; j < finished_sums(config, config.branches() * config.n_layer); ++j) {
    sums.push_back(random_floats(size_t(N) * config.channels, 100 + j));
    std::fill_n(scratch.depth.d + size_t(j) * N * config.channels, size_t(N) * config.channels, 0.f);
  }
  for (const std::vector<float>& v : sums) scratch.depth.v.push_back(v.data());
}

inline BranchSaved declare_saved(Layout& layout, const Config& config, int layer, int N, int inner_width) {
  const StreamsSaved streams = declare_streams_saved(layout, config, "b", N);
  BranchSaved saved = declare_branch_saved(layout, config, "b", layer, N, inner_width);
  saved.streams = streams;
  return saved;
}

// x → u
inline const float* enter(const BranchSaved& saved, const StreamsScratch& scratch, const float* x, const Branch& p,
                          const StreamRows& rows) {
  return branch_in(saved, streams_read(saved.streams, scratch, x, p.streams, rows), p, rows);
}

// saved.f → saved.y; normed (N,C) is scratch.
inline void leave(const BranchSaved& saved, const StreamsScratch& scratch, float* normed, const float* x,
                  const Branch& p, const StreamRows& rows) {
  const float* o = branch_out(normed, saved, saved.f, p, rows);
  streams_write(saved.y, saved.before_sum(), scratch, branch_skip(saved, x, p, rows), o, p.streams, rows);
  branch_sum(saved, nullptr, p, rows);
}

// d holds dy and then ds. Returns df: d, or the buffer `df` (N,C).
inline const float* leave_backward(float* d, float* df, const Branch& g, const StreamsScratch& scratch, const float* x,
                                   const BranchSaved& saved, const Branch& p, const StreamRows& rows) {
  branch_sum_backward(d, nullptr, g, saved, p, rows);
  const float* d_out = streams_write_backward(d, df, scratch, x, saved.f, saved.streams, p.streams, rows);
  return branch_out_backward(df, g, d_out, saved, p, rows);
}

// d holds ds and then dx; du is overwritten.
inline void enter_backward(float* d, const Branch& g, const StreamsScratch& scratch, float* du, const float* x,
                           const BranchSaved& saved, const Branch& p, const StreamRows& rows) {
  branch_in_backward(du, g, saved.streams.h_or(x), saved, p, rows);
  if (p.skip_gain.present()) return branch_skip_backward(d, g, du, x, p, rows);
  streams_read_backward(d, g.streams, scratch, du, x, saved.streams, p.streams, rows);
}
