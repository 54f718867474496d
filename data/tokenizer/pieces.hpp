#pragma once
// SentencePiece's byte-pair encoding with scores (Kudo & Richardson 2018, arXiv 1808.06226), as in Llama 2. Spaces are
// parts of pieces, and encoding puts one before the text ("dummy prefix"). Text starts as its characters. Encoding
// merges the pair of neighbors that makes the piece with the highest score, leftmost first, until no pair makes a
// piece. A character that is not a piece becomes its UTF-8 bytes ("byte fallback").
//
// Any bytes can be encoded, and decoding restores them, with one exception: U+2581, which stands for a space in
// SentencePiece's files, becomes a space. Bytes that are not UTF-8 become byte tokens; SentencePiece replaces them by
// U+FFFD.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pair_table.hpp"

constexpr const char* kSpaceText = "\u2581";  // a space in SentencePiece's files

enum class PieceType { normal, unknown, control, byte };

struct Piece {
  std::string text;  // as in SentencePiece's files: "▁the", with U+2581 for a space; "<s>"; "<0x41>" for a byte
  float score = 0;
  PieceType type = PieceType::normal;
};

struct PieceTables {
  std::vector<Piece> pieces;     // by token number
  bool dummy_prefix = true;
  int begin = -1, end = -1;      // the control tokens around a document, or -1; encode() adds neither
};

class Pieces {
 public:
  // Throws std::runtime_error if a byte has no token, two pieces are the same, or a score is not finite.
  explicit Pieces(PieceTables tables);

  const PieceTables& tables() const { return tables_; }
  int vocabulary() const { return static_cast<int>(tables_.pieces.size()); }
  std::vector<uint32_t> encode(std::string_view text) const;
  // Cuts a text into parts of about `bytes` bytes. Encoding the parts one by one gives the tokens of the whole text.
  // With a dummy prefix, the space between two parts belongs to neither, because the prefix replaces it.
  std::vector<std::string_view> cut(std::string_view text, size_t bytes) const;
  // Decodes the beginning of a document: removes the dummy prefix.
  std::string decode(const std::vector<uint32_t>& tokens) const;
  uint32_t token_of_byte(uint32_t byte) const;  // the token that stands for this one byte
  // Returns the bytes of one token: none for a control token, " ⁇ " for the unknown token.
  const std::string& bytes_of(uint32_t token) const { return bytes_[token]; }

 private:
  class Words;

  void add_characters();
  void add_merges();
  size_t end_of_word(std::string_view text, size_t start) const;
  void encode_word(std::string_view word, std::vector<uint32_t>& symbols) const;

  PieceTables tables_;
  std::vector<std::string> bytes_;                            // bytes of each token
  std::vector<uint32_t> rank_;                                // rank of each token: 0 has the highest score
  uint32_t token_of_byte_[256];
  std::unordered_map<uint32_t, uint32_t> symbol_of_;          // code point → token, or a symbol after the tokens
  std::vector<std::string> other_symbols_;                    // characters of pieces that are not pieces themselves
  PairTable merged_;                                          // pairs of symbols → token
  bool spaces_begin_words_ = true;                            // no piece has a space after another character
};
