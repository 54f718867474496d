#pragma once
// A made-up town: people, and a grammar that tells facts about them, so that it is known what is true. Where somebody
// lives, what they do, keep and like to eat is drawn once from the seed. A line tells a person's four facts, each in a
// sentence. Their order, their words and the place of the name vary, because a model that has read facts in one form
// alone cannot answer questions about them (Allen-Zhu & Li 2023, arXiv 2309.14316). A question asks for one fact.

#include <cstdint>
#include <string>

#include "grammar.hpp"

inline constexpr const char* kTown = "town";  // its name among the grammars of `corpus`
inline constexpr int kTownPeople = 200;

Grammar town_grammar(uint64_t seed);

// Questions about the facts, and their answers, as JSON lines.
struct TownQuestions {
  std::string asked;     // about four in five of the people: {"messages": ...}, of one question or two
  std::string held_out;  // about the others: {"prompt": ..., "completion": ...}
};
TownQuestions town_questions(uint64_t seed);
