#pragma once
// Frequent mistakes in the backward pass of attention, and the gradients that each gives for one query. Attention and
// cross attention differ only in which keys a query sees and in where the tensors are.

#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {

enum class Slip {
  unscaled, usual_scale, scaled_twice, uncapped, no_sum, plain_mean, bracket, undropped, undropped_dP, dropped_p,
  dropped_dS, last_dq, last_dk, last_dv, modulo, quotient, keys, past_only, not_itself, unmoved
};

struct AttentionMistake {
  Slip slip;
  const char* text;
};

const char* const kGroup = "query head h reads k and v of head h / (H / KV)";

// If two give the same dq and dk, the more specific one comes first.
const AttentionMistake attention_mistakes[] = {
    {Slip::unscaled, "the scale s of the scores is missing"},
    {Slip::usual_scale, "the scale is not 1/√D here: score_slope has it"},
    {Slip::scaled_twice, "s occurs twice: score_slope has it"},
    {Slip::uncapped, "the slope of the cap is missing"},
    {Slip::no_sum, "every P[i,j] falls when another S[i,j'] grows: - Σⱼ P·dP is missing"},
    {Slip::plain_mean, "what is taken from dP is its mean weighted by P, not the plain one"},
    {Slip::bracket, "P stands before the bracket: it multiplies Σⱼ P·dP, too"},
    {Slip::undropped_dP, "dropout's multiplier is missing in dP"},
    {Slip::undropped, "dropout's multiplier is missing"},
    {Slip::dropped_p, "softmax_backward wants P as the softmax gave it, without the multiplier"},
    {Slip::dropped_dS, "the multiplier is there once more, on dS: it is in dP already"},
    {Slip::last_dq, "only what the last key gives is left: each adds its share (+=)"},
    {Slip::last_dk, "only what the last query gives is left: each adds its share (+=)"},
    {Slip::last_dv, "only what the last query gives is left: each adds its share (+=)"},
    {Slip::modulo, kGroup},
    {Slip::quotient, kGroup},
    {Slip::keys, "k instead of v, in dP"}};

// The head of k and v that query head h of H is taken to read.
inline size_t head_read(Slip slip, size_t h, size_t H, size_t KV) {
  return slip == Slip::modulo ? h % KV : slip == Slip::quotient ? h / KV : h / (H / KV);
}

// One query and one head of it: P and the multiplier of keys [0, end), and where their numbers are in kv.
struct Query {
  size_t D, end;
  const double *P, *multiplier, *dout, *q, *kv;
  std::function<size_t(size_t j)> k_at, v_at;
  textbook::Scoring scoring;
  size_t first = 0;  // the first key that it sees
};

// Adds the query's gradients, with the mistake, to dq (D) and to dkv, which has the layout of kv.
inline void add_slipped(double* dq, double* dkv, Slip slip, Query query) {
  const auto& [D, end, P, multiplier, dout, q, kv, k_at, v_at, scoring, first] = query;  // references
  if (slip == Slip::unscaled) query.scoring.scale = 1;
  if (slip == Slip::usual_scale) query.scoring.scale = 0;
  if (slip == Slip::uncapped) query.scoring.cap = 0;
  Doubles dP(end), p(end);
  for (size_t j = 0; j < end; ++j) {
    const double m = slip == Slip::undropped ? 1 : multiplier[j], weight = m * P[j];
    p[j] = slip == Slip::dropped_p ? weight : P[j];
    dP[j] = textbook::dot(dout, &kv[slip == Slip::keys ? k_at(j) : v_at(j)], D);
    if (slip != Slip::undropped_dP) dP[j] *= m;
    double* dv = &dkv[v_at(j)];
    for (size_t d = 0; d < D; ++d) dv[d] = (slip == Slip::last_dv ? 0 : dv[d]) + weight * dout[d];
  }
  if (slip == Slip::unmoved) dP.insert(dP.begin(), first, 0.);
  double sum = 0;
  for (size_t j = 0; j < end && slip != Slip::no_sum; ++j)
    sum += slip == Slip::plain_mean ? dP[j] / static_cast<double>(end) : p[j] * dP[j];
  for (size_t j = 0; j < end; ++j) {
    const double* k = &kv[k_at(j)];
    double dS = slip == Slip::bracket ? p[j] * dP[j] - sum : p[j] * (dP[j] - sum);
    dS *= textbook::score_slope(q, k, D, scoring);
    if (slip == Slip::scaled_twice) dS *= scoring.factor(D);
    if (slip == Slip::dropped_dS) dS *= multiplier[j];
    double* dk = &dkv[k_at(j)];
    for (size_t d = 0; d < D; ++d) {
      dq[d] = (slip == Slip::last_dq ? 0 : dq[d]) + dS * k[d];
      dk[d] = (slip == Slip::last_dk ? 0 : dk[d]) + dS * q[d];
    }
  }
}

}  // namespace exercise
