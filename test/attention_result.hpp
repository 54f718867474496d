#pragma once
// Runs attention forward and backward.

#include <vector>

#include "check.hpp"
#include "layers/attention/attention.hpp"

struct AttentionResult {
  std::vector<float> out, lse, dqkv;
  std::vector<float> all() const { return joined({out, lse, dqkv}); }
};

inline AttentionResult run(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                           const Dropout& dropout = {}) {
  AttentionResult r{garbage(dout.size()), garbage(s.B * s.n_head * s.T), garbage(qkv.size())};
  attention_forward(r.out.data(), r.lse.data(), qkv.data(), s, dropout, 2);
  attention_backward(r.dqkv.data(), dout.data(), r.out.data(), r.lse.data(), qkv.data(), s, dropout, 2);
  return r;
}
