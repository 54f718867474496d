#pragma once
// SentencePiece's rules of normalization ("precompiled_charsmap"): texts of one or a few characters, and what replaces
// each of them. The file format is
//   u32 size of the tree, in bytes
//   u32 units of the tree, a double array (darts-clone)
//   the replacements, each ended by a zero byte
//
// Unit n of the tree belongs to a node. Its child for a byte b is unit n ^ offset(n) ^ b, whose label is b. If a rule
// ends at the node, unit n ^ offset(n) holds the place of its replacement.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

class CharsMap {
 public:
  struct Rule {
    size_t length;  // bytes of the text that the rule replaces
    std::string_view replacement;
  };

  // Throws std::runtime_error for a damaged map: a tree that leaves the file or has a circle, or a replacement that is
  // not UTF-8.
  explicit CharsMap(std::string bytes);

  // Return the rule with the longest or the shortest text that `text` begins with.
  std::optional<Rule> longest_at(std::string_view text) const;
  std::optional<Rule> shortest_at(std::string_view text) const;

  // True if a rule replaces more than one character, one of which is a space.
  bool joins_spaces() const { return joins_spaces_; }
  const std::string& bytes() const { return bytes_; }

 private:
  uint32_t child_of(uint32_t node, unsigned char byte) const;
  bool ends_rule(uint32_t node) const;
  std::string_view replacement_at(uint32_t node) const;
  void check();

  std::string bytes_;
  std::vector<uint32_t> units_;
  size_t replacements_;  // where they begin in bytes_
  bool joins_spaces_ = false;
};

// Returns the text with the rules applied as `tokenizers` does: to each grapheme cluster below 6 bytes its shortest
// rule, which replaces the whole cluster, or else to each character its own. Takes UTF-8.
std::string replaced_by_cluster(const CharsMap& rules, std::string_view text);
