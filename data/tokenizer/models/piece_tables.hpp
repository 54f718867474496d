#pragma once
// What a SentencePiece model says.

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/pipeline/chars_map.hpp"

constexpr const char* kSpaceText = "\u2581";  // a space in SentencePiece's files

// A user-defined piece is one token wherever its text occurs. An unused piece is no token, but merges go through it.
enum class PieceType { normal, unknown, control, byte, user_defined, unused };

struct Piece {
  std::string text;  // as in SentencePiece's files: "▁the", with U+2581 for a space; "<s>"; "<0x41>" for a byte
  float score = 0;
  PieceType type = PieceType::normal;
};

// True for a type whose pieces occur in text.
constexpr bool is_text(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
}

struct PieceTables {
  std::vector<Piece> pieces;     // by token number
  bool dummy_prefix = true;
  int begin = -1, end = -1;      // the control tokens around a document, or -1; encode() adds neither
  bool unigram = false;          // else merges
  bool byte_fallback = true;
  bool removes_spaces = false;   // at both ends of a text, and all but one between words
  std::string unknown_text = " \u2047 ";           // what the unknown token stands for
  std::shared_ptr<const CharsMap> rules = nullptr;  // of normalization; null: characters stay as they are
};
