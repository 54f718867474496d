#pragma once
// The grammars of the stories that `train_gpt corpus` writes, in the format of grammar.hpp.
//
// Every rule is a prefix code: nothing one of its entries can say begins with what another can say. So the text decides
// each choice, and no story has two derivations. test_corpus.cpp proves that, and the length of the longest story.

#include <cstddef>

struct NamedGrammar {
  const char* name;
  const char* help;
  size_t longest;  // bytes of the longest story, with the newline that ends it
  const char* source;
};

// "stories": 200 bytes and 18 nats per story; people, things and places are named up to five times.
// "tales": 126 bytes and 20 nats per tale; few names return, so that a small model learns them in minutes.
extern const NamedGrammar kStoryGrammars[2];
