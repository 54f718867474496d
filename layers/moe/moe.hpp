#pragma once
// The mixture of experts (Shazeer et al. 2017, arXiv 1701.06538): E feed-forward layers, k of which each token uses,
// and S shared ones that every token uses (DeepSeekMoE: Dai et al. 2024, arXiv 2401.06066).
//   u (N,C)   expert i: FFN_i(u) = down_i(activation(up_i(u)))   p (N,k): see router.hpp
//   forward   f[n] = Σ over the chosen i of p_i FFN_i(u[n]) + Σ over the shared i of FFN_i(u[n])
//   backward  rows of expert i: dy = p·df    dm = dy down_i    t = dm·m + dy·bias of down_i = p ∂L/∂p
//   saves     the router's decisions, and up and activation of the R = N·(k + S) rows, sorted by expert
//
// Each expert takes all its tokens, in their order, through one matrix product. No token is dropped. f and du add their
// parts in the order of the experts, so they are bit-identical for any number of threads.

#include "layers/sublayer/sublayer.hpp"
#include "router.hpp"

// Parameters, or their gradients.
struct Expert {
  Linear up, down;  // up is gate|up if the activation is gated
};
struct Moe {
  Router router;
  std::vector<Expert> experts;  // E, then the shared ones

  bool present() const { return !experts.empty(); }
};

// Declare the experts' matrices into and out of the hidden layer.
void declare_moe_in(Moe& p, Layout& layout, const Config& config, const std::string& name);
void declare_moe_out(Moe& p, Layout& layout, const Config& config, const std::string& name);

// Returns R, the rows that all experts together compute.
int expert_rows(const Config& config, int N);

// up (R,F), or (R,2F) if gated: each expert's products with its rows of u.
void moe_up_forward(float* up, const RouterSaved& saved, const float* u, const Moe& p, const BlockContext& c);
// m (R,F) → f (N,C)
void moe_down_forward(float* f, const RouterSaved& saved, const float* m, const Moe& p, const BlockContext& c);
// Writes dm, and t for the router.
void moe_down_backward(float* dm, const Moe& g, const float* df, const float* m, const RouterSaved& saved, const Moe& p,
                       const BlockContext& c);
// Writes du: the router's part plus all experts' parts.
void moe_up_backward(float* du, const Moe& g, const float* dup, const float* u, const RouterSaved& saved, const Moe& p,
                     const BlockContext& c);
