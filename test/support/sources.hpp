#pragma once
// The input of an encoder, and what each query of a batch reads of it.

#include <algorithm>
#include <vector>

#include "check.hpp"
#include "layers/model/model.hpp"

struct Sources {
  int B, T, S;
  std::vector<int> tokens, begins, from, to;

  // The sources of a row, without padding.
  std::vector<int> row(int b) const {
    const auto first = tokens.begin() + b * S;
    return {first, first + *std::max_element(to.begin() + b * T, to.begin() + (b + 1) * T)};
  }
  EncoderInput input() const { return {tokens.data(), S, begins.data(), from.data(), to.data()}; }
};

// Rows of one source each, for T target tokens each. tokens (B,S), where padding comes after a source of this length.
inline Sources one_source_each(std::vector<int> tokens, const std::vector<int>& lengths, int T) {
  const int B = static_cast<int>(lengths.size()), S = static_cast<int>(tokens.size()) / B;
  Sources s{B, T, S, std::move(tokens), std::vector<int>(B * S), std::vector<int>(B * T), std::vector<int>(B * T)};
  for (int b = 0; b < B; ++b) {
    std::fill(s.begins.begin() + b * S + lengths[b], s.begins.begin() + (b + 1) * S, lengths[b]);
    std::fill_n(s.to.begin() + b * T, T, lengths[b]);
  }
  return s;
}

// B rows of S source tokens for T target tokens each. Row b has b + 1 sources, of several lengths, one after another,
// and then padding, which no target sees. Each target reads the sources in their order.
inline Sources random_sources(int B, int T, int S, int vocab_size, int seed = 7) {
  Sources s{B, T, S, random_ints(B * S, seed, vocab_size), std::vector<int>(B * S), std::vector<int>(B * T),
            std::vector<int>(B * T)};
  for (int b = 0; b < B; ++b) {
    const int sources = std::min(b + 1, std::min(T, S)), used = std::max(sources, S - 1 - b % 2);
    const auto begin_of = [&](int source) { return source * used / sources; };
    for (int i = 0; i < sources; ++i)
      std::fill(&s.begins[b * S] + begin_of(i), &s.begins[b * S] + S, begin_of(i));
    std::fill(s.begins.begin() + b * S + used, s.begins.begin() + (b + 1) * S, used);
    for (int t = 0; t < T; ++t) {
      const int source = t * sources / T;
      s.from[b * T + t] = begin_of(source);
      s.to[b * T + t] = begin_of(source + 1);
    }
  }
  return s;
}
