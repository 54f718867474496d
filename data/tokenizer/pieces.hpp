#pragma once
// SentencePiece's byte-pair encoding with scores (Kudo & Richardson 2018, arXiv 1808.06226), as Llama 2 has it. A space
// is part of a piece, and one is put before the text ("dummy prefix"). Text starts as its characters. Then the pair of
// neighbors that makes the piece with the highest score is merged, leftmost of equals, until no pair makes a piece. A
// character that is no piece becomes its UTF-8 bytes ("byte fallback").
//
// Any bytes can be encoded, and decoding gives them back, with one exception: U+2581, by which SentencePiece's files
// spell a space, becomes a space. Bytes that are not UTF-8 become byte tokens; SentencePiece replaces them by U+FFFD.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pair_table.hpp"

constexpr const char* kSpaceText = "\u2581";  // a space in the files of SentencePiece

enum class PieceType { normal, unknown, control, byte };

struct Piece {
  std::string text;  // as in SentencePiece's files: "▁the", with U+2581 for a space; "<s>"; "<0x41>" for a byte
  float score = 0;
  PieceType type = PieceType::normal;
};

struct PieceTables {
  std::vector<Piece> pieces;     // by token number
  bool dummy_prefix = true;
  int begin = -1, end = -1;      // the control tokens around a document; -1: none. encode() adds neither
};

class Pieces {
 public:
  // Throws std::runtime_error if a byte has no token, two pieces are the same, or a score is not finite.
  explicit Pieces(PieceTables tables);

  const PieceTables& tables() const { return tables_; }
  int vocabulary() const { return static_cast<int>(tables_.pieces.size()); }
  std::vector<uint32_t> encode(std::string_view text) const;
  // Cuts a text into parts of about `bytes` bytes that have the same tokens, part by part, as the whole text. A dummy
  // prefix takes the place of the space before a part, which is in no part then.
  std::vector<std::string_view> cut(std::string_view text, size_t bytes) const;
  // The text of tokens that begin a document: without the dummy prefix.
  std::string decode(const std::vector<uint32_t>& tokens) const;
  uint32_t token_of_byte(uint32_t byte) const;  // of a byte by itself
  // The bytes of one token: none of a control token, " ⁇ " of the unknown one.
  const std::string& bytes_of(uint32_t token) const { return bytes_[token]; }

 private:
  class Words;

  void add_characters();
  void add_merges();
  size_t end_of_word(std::string_view text, size_t start) const;
  void merge(std::vector<uint32_t>& symbols) const;
  void encode_word(std::string_view word, std::vector<uint32_t>& symbols) const;

  PieceTables tables_;
  std::vector<std::string> bytes_;                            // of each token
  std::vector<uint32_t> rank_;                                // of each token: 0 has the highest score
  uint32_t token_of_byte_[256];
  std::unordered_map<uint32_t, uint32_t> symbol_of_;          // code point → token, or a symbol behind the tokens
  std::vector<std::string> other_symbols_;                    // characters of pieces that are no pieces themselves
  PairTable merged_;                                          // pairs of symbols → token
  bool spaces_begin_words_ = true;                            // no piece has a space behind another character
};
