#pragma once
// SentencePiece's byte-pair encoding with scores, as in Llama 2. Text starts as its characters and user-defined pieces.
// The pair of neighbors that makes the piece with the highest score is merged first, the leftmost of equal ones, until
// no pair makes a piece. User-defined pieces do not merge. An unused piece falls apart again into what made it, and one
// of a single character has no token.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pair_table.hpp"
#include "piece_tables.hpp"
#include "prefix_tree.hpp"
#include "word_model.hpp"

class PieceMerges : public WordModel {
 public:
  // `texts` are those of the pieces, with ' ' for U+2581, by token. They must outlive the constructor only.
  PieceMerges(const PieceTables& tables, const std::vector<std::string>& texts);

  // Each character without a token is a part.
  std::vector<WordPart> split(std::string_view word, bool special) const override;

 private:
  // Symbols are tokens, then characters that are not pieces themselves but parts of some. A character that is in no
  // piece is the number of all symbols plus its size in bytes.
  using Pair = std::pair<uint32_t, uint32_t>;
  using MadeOf = std::unordered_map<uint32_t, Pair>;

  void add_characters(const PieceTables& tables, const std::vector<std::string>& texts);
  void add_merges(const PieceTables& tables, const std::vector<std::string>& texts);
  std::vector<uint32_t> symbols_of(std::string_view word) const;
  void append(uint32_t symbol, const MadeOf& made_of, std::vector<WordPart>& parts) const;

  struct Symbol {
    size_t size;    // bytes
    bool is_token;  // else characters that are not pieces, or an unused piece
    uint32_t rank;  // 0 has the highest score
  };
  std::vector<Symbol> symbols_;
  std::unordered_map<uint32_t, uint32_t> symbol_of_;  // code point → symbol
  PairTable merged_;                                  // pairs of symbols → symbol
  PrefixTree user_defined_;
};
