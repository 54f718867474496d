#pragma once
// The default corpus: short English stories from a grammar, made by the program itself.
//
// Who is named, what was found, where it lay and who gave it to whom is chosen once and said again later, so
// a model that remembers predicts better than one that does not. The grammar is unambiguous (each story has
// one derivation) and every choice has a known probability, so -log P of each story is exactly known: the
// floor below which no model's mean loss can fall.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar.hpp"

struct Story {
  std::string text;  // one line of ASCII, at most 256 bytes with the '\n' that ends it
  double nats;       // -log P(text)
};

struct CorpusSummary {
  size_t stories = 0;
  size_t bytes = 0;
  double nats = 0;  // sum over the stories; nats / bytes is the floor of a byte-level model
};

// "stories" or "tales" (story_grammars.hpp). Throws std::invalid_argument for other names.
const Grammar& story_grammar(std::string_view name = "stories");

// A pure function: the same seed, index and grammar tell the same story.
Story tell_story(uint64_t seed, uint64_t index, const Grammar& grammar = story_grammar());

// -log P of any text, with or without its '\n'; nothing if it is no story of either grammar.
std::optional<double> story_nats(std::string_view text);

// Whole stories, no two alike, at most `bytes` bytes, into `path`, and the -log P of each into `path`.nats.
// Throws std::runtime_error, and leaves nothing half-written, if that cannot be done.
CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed,
                           const Grammar& grammar = story_grammar());

// The numbers beside a text of that many bytes and stories, one per story; empty if there is no such file.
// Throws std::runtime_error if the file belongs to another text.
std::vector<double> read_nats(const std::string& text_path, size_t text_bytes, size_t stories);

// How well a text keeps to the grammar, line by line.
struct StoryCheck {
  size_t lines = 0, stories = 0;   // lines that are not empty; those the grammar can produce
  size_t distinct = 0, known = 0;  // of the lines: different ones, and those that `known` has too
  double nats = 0;                 // sum of -log P over the stories
  size_t first_wrong = 0;          // line number, from 1, of the first that is no story; 0 if all are
  std::string readable, wrong;     // of that line: what the grammar can say, and the rest
};
StoryCheck check_stories(std::string_view text, std::string_view known);
