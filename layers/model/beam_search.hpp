#pragma once
// Beam search: keeps the likeliest beginnings of a text, and returns the likeliest text.

#include <functional>
#include <vector>

#include "generate.hpp"

struct BeamSearch {
  int beams = 4;
  int length = 100;                             // most tokens of a text, with the one that ends it
  int vocabulary = 0;                           // only tokens below this
  std::function<bool(int token)> ends = {};     // true for a token that ends a text
  std::function<bool()> stopped = {};           // called before every token; true ends the search
};

// A text without its prompt, and its log-probability.
struct Found {
  std::vector<int> tokens = {};  // with the one that ends it
  double log_p = 0;
  bool ended = false;  // false: it became too long

  double score() const { return log_p / static_cast<double>(tokens.size()); }
};

// Returns the text of the highest score, the mean log-probability of its tokens (Wu et al. 2016, arXiv 1609.08144, §7,
// with the length penalty of transformers, at 1). As in transformers, a text may end only as one of the `beams`
// likeliest candidates, and beginnings of `length` tokens compete with texts that have ended. The generator must be for
// `beams` sequences. The search stops once no beginning can still win at its present length.
Found beam_search(Generator& generator, const std::vector<int>& prompt, int V, const BeamSearch& search);
