#pragma once
// Minimal pairs of known truth: a story, and the same story with one word (or place) that the grammar cannot produce
// there.

#include <cstdint>
#include <string>
#include <vector>

#include "corpus.hpp"

// The two sentences differ in one word that repeats an earlier choice, or agrees with it: a verb with its object, an
// animal with its food. P(good) > 0 and P(bad) = 0, as Grammar::read() confirms.
struct MinimalPair {
  std::string good, bad;
  std::string category;  // the rule of the choice and the column: "thing_did", or "name" for the word itself
};

// Returns two pairs made of one story, or none if another word would be right, too. The second is the first with two
// entries exchanged: (kite flew, kite threw) and (ball threw, ball flew). A model that ignores the context prefers the
// same word in both, so it gets exactly one of them right. A pure function of its arguments. tell_story() tells other
// stories with the same seed; a few may be equal by chance.
std::vector<MinimalPair> make_pairs(uint64_t seed, uint64_t index, const Grammar& grammar);

// Writes `count` pairs, rounded up to an even number, as JSON lines with BLiMP's fields, and returns their number.
// `name` is the grammar's.
int64_t write_pairs(const std::string& path, int64_t count, uint64_t seed, const std::string& name,
                    const Grammar& grammar);
