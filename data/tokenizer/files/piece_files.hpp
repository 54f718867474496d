#pragma once
// Reads and writes SentencePiece tokenizers: reads SentencePiece's own .model, reads and writes llama2.c's
// tokenizer.bin.

#include <string>
#include <string_view>

#include "data/tokenizer/models/pieces.hpp"

// Reads either format. Throws std::runtime_error "FILE: ..." for a damaged file. Also throws for an algorithm or a
// setting that we do not have, and names it: the tokens would differ.
Pieces read_pieces(const std::string& path);

// A SentencePiece .model (sentencepiece_model.proto). Errors do not name a file.
bool is_sentencepiece_model(std::string_view bytes);
Pieces pieces_from_model(std::string_view bytes);

// llama2.c's tokenizer.bin (its tokenizer.py), which has no magic number:
//   u32 length of the longest piece, in bytes
//   f32 score, u32 length, bytes   for each piece, with ' ' for U+2581
// Tokens 0, 1 and 2 are <unk>, "\n<s>\n" and "\n</s>\n", and 3 to 258 are <0x00> to <0xFF>.
Pieces pieces_from_llama2c(std::string_view bytes);
// Throws std::invalid_argument if these tokens have other numbers, or if a text becomes tokens in another way.
std::string to_llama2c(const Pieces& pieces);
