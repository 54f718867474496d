#pragma once
// A model of a tokenizer that splits a word into tokens by other rules than merges.

#include <cstdint>
#include <string_view>
#include <vector>

#include "pair_table.hpp"

// A part of a word.
struct WordPart {
  size_t begin, end;  // bytes
  uint32_t token;     // kAbsent: these characters have no token
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Returns the parts of a word, in order. Without `special`, the names of special tokens are ordinary text.
  virtual std::vector<WordPart> split(std::string_view word, bool special) const = 0;
};
