#pragma once
// What SentencePiece does to a text before it looks for pieces.

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizer/pipeline/chars_map.hpp"
#include "prefix_tree.hpp"

struct PieceNormalizer {
  bool dummy_prefix = false;               // a space comes before the text
  bool removes_spaces = false;             // at both ends of the text, and all but one between words
  bool replaces_bytes = false;             // U+FFFD for bytes that are not UTF-8
  std::shared_ptr<const CharsMap> rules = {};  // null: characters stay as they are
  PrefixTree kept = PrefixTree();          // texts that no rule changes

  // Returns the normalized text, with ' ' for U+2581.
  std::string operator()(std::string_view text) const;
  // True if you may cut the text before the space text[at], leave that space out if there is a dummy prefix, and
  // normalize the two parts one by one.
  bool may_cut(std::string_view text, size_t at) const;

 private:
  struct Step {
    size_t length;             // of the text that is replaced
    std::string_view written;
  };
  Step step_at(std::string_view text) const;
};
