#pragma once
// A block: attention and feed-forward layer, each in its residual branch, one after the other or side by side.

#include "block_attention.hpp"
#include "block_feed_forward.hpp"
#include "block_parallel.hpp"

namespace textbook {

template <class Number>
struct Block {
  Pass<Number>& pass;
  const ::Block& block;
  int layer;
  size_t N = pass.sizes.N, C = pass.sizes.C;
  bool parallel = pass.config.block != BlockForm::sequential;
  Attention<Number> attention = {pass, block, layer};
  FeedForward<Number> ffn = {pass, block, layer};
  BranchSaved<Number> saved1 = {}, saved2 = {};
  std::vector<Number> middle = std::vector<Number>(N * C), discarded = std::vector<Number>(C);

  Block(Pass<Number>& in_pass, const ::Block& parameters, int l) : pass(in_pass), block(parameters), layer(l) {}

  void forward(Number* y, const Number* x) {
    const auto [p1, p2] = branches(pass.p);
    if (parallel) return parallel_forward(y, saved1, saved2, x, p1, p2, attention, ffn, N, C);
    branch_forward(middle.data(), saved1, x, p1, attention, N, C);
    branch_forward(y, saved2, middle.data(), p2, ffn, N, C);
  }
  void backward(Number* dx, const Number* dy, const Number* x) {
    const auto [p1, p2] = branches(pass.p);
    const auto [g1, g2] = branches(pass.g);
    if (parallel) return parallel_backward(dx, g1, g2, dy, x, saved1, saved2, p1, p2, attention, ffn, N, C);
    std::vector<Number> dmiddle(N * C);
    branch_backward(dmiddle.data(), g2, dy, middle.data(), saved2, p2, ffn, N, C);
    branch_backward(dx, g1, dmiddle.data(), x, saved1, p1, attention, N, C);
  }

  // Where both have one norm, only the first moves what BatchNorm keeps running.
  std::pair<Branch<Number>, Branch<Number>> branches(Parameters<Number>& of) {
    Branch<Number> first = of.branch(block.attention), second = of.branch(block.ffn);
    const bool shared = pass.config.block == BlockForm::parallel_shared;
    if (shared) second.norm_in = first.norm_in, second.in_scale = first.in_scale;
    if (shared && of.training) second.norm_in.running_mean = second.norm_in.running_var = discarded.data();
    return {first, second};
  }
};

}  // namespace textbook
