#pragma once
// The cases for judging attention, forward and backward.

#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {

struct AttentionCase {
  const char* title;
  size_t B, T, H, KV, D;
  bool dropout = false;
  textbook::Scoring scoring = {};

  size_t width() const { return (H + 2 * KV) * D; }
  Doubles qkv() const { return numbers(B * T * width(), 1); }
  Doubles multiplier() const {  // dropout's, or ones
    Doubles m = numbers(B * H * T * T, 2);
    for (double& x : m) x = !dropout ? 1 : x < -.8 ? 0 : 1.25;
    return m;
  }
  size_t at(size_t b, size_t t, size_t head) const { return (b * T + t) * width() + head * D; }  // in qkv
  std::vector<Factor> factors() const { return {{"√D", std::sqrt(double(D))}, {"D", double(D)}, {"2", 2}}; }
};

const AttentionCase attention_cases[] = {
    {"one sequence, one head · B=1 T=3 H=1 D=2", 1, 3, 1, 1, 2},
    {"two sequences, two heads · B=2 T=4 H=2 D=3", 2, 4, 2, 2, 3},
    {"4 query heads read 2 heads of k and v · B=1 T=3 H=4 KV=2 D=2", 1, 3, 4, 2, 2},
    {"with dropout · B=1 T=3 H=2 D=2", 1, 3, 2, 2, 2, true},
    {"with a scale of 0.8 and a window of 2 · B=1 T=4 H=2 D=2", 1, 4, 2, 2, 2, false, {.scale = .8, .window = 2}},
    {"with a cap and slopes · B=1 T=4 H=4 KV=2 D=2", 1, 4, 4, 2, 2, false,
     {.cap = 1.5, .slopes = {.5, .25, .125, .0625}}},
    {"bidirectional, with slopes · B=1 T=4 H=2 D=2", 1, 4, 2, 2, 2, false,
     {.slopes = {.5, .25}, .causal = false}}};

}  // namespace exercise
