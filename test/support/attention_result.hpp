#pragma once
// Runs attention forward and backward.

#include <vector>

#include "check.hpp"
#include "layers/attention/attention.hpp"

struct AttentionResult {
  std::vector<float> out, lse, dqkv, dsinks;
  std::vector<float> all() const { return joined({out, lse, dqkv, dsinks}); }
};

inline AttentionResult run(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                           const Dropout& dropout = {}) {
  AttentionResult r{garbage(dout.size()), garbage(s.B * s.n_head * s.T), garbage(qkv.size()),
                    std::vector<float>(s.sinks ? s.n_head : 0)};
  attention_forward(r.out.data(), r.lse.data(), qkv.data(), s, dropout, 2);
  attention_backward(r.dqkv.data(), dout.data(), r.out.data(), r.lse.data(), qkv.data(), s, dropout, 2);
  if (s.sinks) sinks_backward(r.dsinks.data(), dout.data(), r.out.data(), r.lse.data(), s);
  return r;
}
