#pragma once
// The default corpus: short English stories that the program generates from a grammar.
//
// A story chooses names, things and places once and says them again later, so a model that remembers predicts better
// than one that does not. The grammars are unambiguous (each story has one derivation) and every choice has a known
// probability, so -log P of each story is known exactly. Its mean is the floor: no model's mean loss can fall below it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "grammar.hpp"

// Every rule of a grammar is a prefix code: no text of one entry begins with a text of another. So the text decides
// each choice, and no story has two derivations. test_corpus.cpp proves that, and the length of the longest story.
struct NamedGrammar {
  const char* name;
  const char* help;
  size_t longest;      // bytes of the longest story, including its newline
  const char* source;  // in the format of grammar.hpp
};

// "stories": 200 bytes and 18 nats per story; people, things and places are named up to five times.
// "tales": 126 bytes and 20 nats per tale; few names return, so that a small model learns them in minutes.
extern const NamedGrammar kStoryGrammars[2];

// Returns a grammar of kStoryGrammars by its name. Throws std::invalid_argument for other names.
const Grammar& story_grammar(std::string_view name = "stories");

struct Story {
  std::string text;  // one line of ASCII, at most 256 bytes including its '\n'
  double nats;       // -log P(text)
};

// Tells one story. A pure function: the same seed, index and grammar give the same story.
Story tell_story(uint64_t seed, uint64_t index, const Grammar& grammar = story_grammar());

// Returns -log P of any text, with or without its '\n', or nothing if no grammar can produce it.
std::optional<double> story_nats(std::string_view text);

struct CorpusSummary {
  size_t stories = 0;
  size_t bytes = 0;
  double nats = 0;  // sum over the stories; nats / bytes is the floor of a byte-level model
};

// Tells the story of an index. A pure function.
using StoryTeller = std::function<Story(uint64_t index)>;
StoryTeller teller_of(uint64_t seed, Grammar grammar = story_grammar());

// Calls `use` for each of a series of distinct whole stories, at most `bytes` bytes in total.
CorpusSummary tell_stories(size_t bytes, const StoryTeller& tell, const std::function<void(const Story&)>& use);

// Counts how many lines of a text `grammar` can produce; if it is null, the grammar of stories or that of tales.
struct StoryCheck {
  size_t lines = 0, stories = 0;   // nonempty lines; lines that a grammar can produce
  size_t distinct = 0, known = 0;  // distinct lines; lines that `known` contains, too
  double nats = 0;                 // sum of -log P over the stories
  size_t first_wrong = 0;          // the first line that is not a story, counted from 1; 0 if all are
  std::string readable, wrong;     // that line's longest prefix that a grammar can produce, and its rest
};
StoryCheck check_stories(std::string_view text, std::string_view known, const Grammar* grammar = nullptr);

// What a grammar makes of a line.
struct LineReading {
  std::optional<double> nats = {};      // nothing if it cannot produce all of it
  std::string readable = {}, wrong = {};  // as in StoryCheck
};

// Checks lines of any kind. Two lines are the same if key_of() returns the same text.
StoryCheck check_lines(std::string_view text, std::string_view known,
                       const std::function<std::string(std::string_view)>& key_of,
                       const std::function<LineReading(std::string_view)>& read);
