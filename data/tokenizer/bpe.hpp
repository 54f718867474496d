#pragma once
// Byte-level byte-pair encoding (Sennrich et al. 2016, over bytes as in GPT-2). Text is split into words (split.hpp).
// Each word starts as its bytes. Encoding merges the pair of neighbors with the lowest rank, leftmost first, until no
// pair has a rank. It can encode any bytes, and decoding restores them, unless the text is normalized first.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pair_table.hpp"
#include "split.hpp"

struct Merge {
  uint32_t left, right, token;  // the token's bytes are left's, then right's
  bool operator==(const Merge&) const = default;
};

// A token with a meaning of its own, such as <|endoftext|>. encode() never finds it in text.
struct SpecialToken {
  uint32_t token;
  std::string name;
  bool operator==(const SpecialToken&) const = default;
};

struct BpeTables {
  std::vector<std::string> tokens;    // the bytes of each token
  std::vector<Merge> merges;          // by rank
  std::vector<SpecialToken> special;
  bool words_first = false;           // a word that is a token is taken without merging ("ignore_merges")
  Split split = Split::gpt2;
  bool nfc = false;                   // normalize the text first (normalize.hpp)
  int begin = -1;                     // the special token that begins a text, or -1; encode() does not add it
};

class Bpe {
 public:
  // Throws std::runtime_error if a byte has no token of its own.
  explicit Bpe(BpeTables tables);
  Bpe(Bpe&&) = default;  // no copy, because sorted_ points into tables_

  const BpeTables& tables() const { return tables_; }
  int vocabulary() const { return static_cast<int>(tables_.tokens.size()); }
  std::vector<uint32_t> encode(std::string_view text) const;
  uint32_t token_of_byte(uint32_t byte) const { return token_of_byte_[byte]; }
  const std::string& bytes_of(uint32_t token) const { return tables_.tokens[token]; }

 private:
  class Words;

  void encode_word(std::string_view word, std::vector<uint32_t>& tokens) const;
  void merge_short(std::vector<uint32_t>& word) const;

  BpeTables tables_;
  uint32_t token_of_byte_[256];
  PairTable rank_of_;
  std::vector<std::pair<std::string_view, uint32_t>> sorted_;  // tokens by their bytes, if words_first
};

// Returns the 256 single bytes as tokens, in GPT-2's order: "!" to "~", bytes 161 to 172 and 174 to 255, then the rest.
std::vector<std::string> byte_tokens();
