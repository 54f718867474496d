#pragma once
// The router of a mixture of experts: which k of E experts a token uses, and with which weights.
//   u (N,C)   weight (E,C)   l, s (N,E)   chosen, p (N,k)
//   forward   l = u weightᵀ     s = softmax(l)     chosen: the k largest of s + bias, ties to the lower number
//             l = u weightᵀ + another, learned bias     (gpt-oss: OpenAI 2025, arXiv 2508.10925)
//             p_j = s_j / Σ of the chosen s     or p_j = s_j
//             (Mixtral: Jiang et al. 2024, arXiv 2401.04088, §2.1; without the division: OLMoE, arXiv 2409.02060)
//   backward  with t_j = p_j ∂L/∂p_j:   dl_i = [i chosen] t_i − q_i Σ t    q = p of the chosen, 0 for others; or s
//             The choice itself has no gradient: it is piecewise constant.
//   losses    in training, added for each micro-batch of N tokens and each layer. A step takes their mean over its
//             micro-batches, and they count in full however few tokens have targets:
//             balance  E·Σᵢ fᵢ·mean(sᵢ)     fᵢ: share of the N·k choices that are i, a constant in backward
//                      (Switch: Fedus et al. 2021, arXiv 2101.03961, eq. 4, at k = 1)
//             z        mean(lse²)     lse = log Σ exp l     (ST-MoE: Zoph et al. 2022, arXiv 2202.08906, eq. 5)
//   bias      no loss: after each step bias_i ± rate, + for an expert that received less than the mean
//             (Wang et al. 2024, arXiv 2408.15664; DeepSeek-V3, arXiv 2412.19437, §2.1.2, with a sigmoid for s)
//   saves     s, lse (N), chosen and p

#include <vector>

#include "layers/linear/linear.hpp"

// Parameters, or their gradients.
struct Router {
  Linear linear;          // (E,C), and a bias (E) if the model has one; its product is always float
  float* bias = nullptr;  // (E), read only by the choice; not trained by the optimizer
};
Router declare_router(Layout& layout, const Config& config, const std::string& name);
bool is_router_bias(const TensorSpec& spec);

struct RouterSaved {
  float *scores = nullptr, *lse = nullptr;     // (N,E), (N)
  float *chosen = nullptr, *weights = nullptr;  // (N,k); the numbers of experts are exact in float
};
RouterSaved declare_router_saved(Layout& layout, const Config& config, const std::string& name, int N);

void router_forward(const RouterSaved& saved, const float* u, const Router& p, const Config& config, int N);

// d (N,E) holds t at the chosen experts and 0 elsewhere before the call, and dl after it. `scale` is 1 over the
// number of tokens in the step, so that N·scale is the micro-batch's share. The caller computes the gradients of
// `linear` from dl.
void router_backward(float* d, const RouterSaved& saved, const Config& config, float scale, int N);

// Returns how often each expert was chosen (E).
std::vector<int> router_load(const RouterSaved& saved, const Config& config, int N);

// Applies the rule for the bias. load (E): how often each expert was chosen in the whole step.
void update_router_bias(float* bias, const double* load, int E, float rate);
