#pragma once
// SentencePiece's tokenizers (Kudo & Richardson 2018, arXiv 1808.06226). Spaces are parts of pieces. Encoding may put
// one before the text ("dummy prefix"), leave out others, and replace characters (piece_normalizer.hpp). Then it splits
// the text by merges (piece_merges.hpp), as in Llama 2, or by a unigram language model (unigram.hpp), as in T5.
// A character that is not a piece becomes its UTF-8 bytes ("byte fallback"). Without pieces for bytes, it becomes the
// unknown token, one for neighboring characters.
//
// With byte fallback, any bytes can be encoded, and decoding restores them if the text is not normalized, with one
// exception: U+2581, which stands for a space in SentencePiece's files, becomes a space. Bytes that are not UTF-8
// become byte tokens; SentencePiece replaces them by U+FFFD.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pair_table.hpp"
#include "piece_normalizer.hpp"
#include "piece_tables.hpp"
#include "word_model.hpp"

class Pieces {
 public:
  // Throws std::runtime_error if a byte has no token in spite of byte fallback, nothing stands for unknown characters,
  // two pieces are the same, or a score is not finite.
  explicit Pieces(PieceTables tables);

  const PieceTables& tables() const { return tables_; }
  int vocabulary() const { return static_cast<int>(tables_.pieces.size()); }
  std::vector<uint32_t> encode(std::string_view text) const;
  // Cuts a text into parts of about `bytes` bytes. Encoding the parts one by one gives the tokens of the whole text.
  // With a dummy prefix, the space between two parts belongs to neither, because the prefix replaces it. With a unigram
  // model, another segmentation of the same score may be found.
  std::vector<std::string_view> cut(std::string_view text, size_t bytes) const;
  // Decodes the beginning of a document: leaves out the dummy prefix, or all spaces there if encode() does.
  std::string decode(const std::vector<uint32_t>& tokens) const;
  uint32_t token_of_byte(uint32_t byte) const;  // the token that stands for this one byte, or kAbsent
  // Returns the bytes of one token: none for a control token, " ⁇ " for the unknown token.
  const std::string& bytes_of(uint32_t token) const { return bytes_[token]; }

 private:
  class Words;

  void add_pieces();
  void check_fallback() const;
  void find_word_starts();
  size_t end_of_word(std::string_view text, size_t start) const;
  void append_unknown(std::string_view characters, std::vector<uint32_t>& tokens) const;
  void encode_word(std::string_view word, std::vector<uint32_t>& tokens) const;
  std::vector<uint32_t> encode_normalized(std::string_view text, bool prefix) const;

  PieceTables tables_;
  std::vector<std::string> bytes_;     // bytes of each token
  uint32_t token_of_byte_[256];        // byte fallback; kAbsent without it
  uint32_t token_of_ascii_[128];       // pieces of one character, or kAbsent
  uint32_t unknown_ = kAbsent;
  std::shared_ptr<const WordModel> model_;
  PieceNormalizer normalizer_;
  bool spaces_begin_words_ = true;     // no piece has a space after another character
};
