#pragma once
// Lines of made-up words with a heavy tail, of known entropy. Small models learn the frequent words; larger models and
// longer texts still gain from the rare ones, so that losses fall as power laws for longer than on stories.
//
//   vala: paje juni sene ziti kopo mibo da ri.
//
// The first word names one of 8 topics. Eight words follow, each from the topic's list or from the list that all topics
// share, with probability 1/2 each. The word of rank r in a list has probability proportional to r^(-5/4)
// (Zipf 1949, "Human Behavior and the Principle of Least Effort"; a power law of the loss then follows: Hutter 2021,
// arXiv 2102.04074). No word is in two lists, so a line has one derivation.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "corpus.hpp"

inline constexpr const char* kLexicon = "lexicon";  // its name among the grammars of `corpus`

struct LexiconSize {
  size_t topics = 8, words = 8;             // of a line
  size_t shared = 10000, of_a_topic = 2000;  // words in the lists
  size_t longest = 63;                      // bytes of the longest line, including its newline
};
inline constexpr LexiconSize kLexiconSize{};

// Tells a line, as tell_story() does.
Story tell_lexicon_line(uint64_t seed, uint64_t index);

// Returns -log P of a line without its newline, or where it goes wrong.
LineReading read_lexicon_line(std::string_view line);

// Counts the lines of a text that have this form, as check_stories() counts stories.
StoryCheck check_lexicon(std::string_view text, std::string_view known);

// The mean of -log P of a line in nats, exact: every line has the same number of choices.
double lexicon_entropy();
