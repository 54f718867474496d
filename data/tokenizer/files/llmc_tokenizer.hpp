#pragma once
// llm.c's gpt2_tokenizer.bin (karpathy/llm.c: write_tokenizer in train_gpt2.py, llmc/tokenizer.h). Little-endian:
//   u32[256]  20240328, version, number of tokens, in version 2 the token that ends a text (version 1: 50256)
//   u8 length, bytes   for each token
//
// The file has no merges, because llm.c only decodes. The merges follow from the tokens if they are numbered by rank,
// as in GPT-2's vocabulary: apply all earlier merges to a token's bytes, and the two symbols that remain are its merge.

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"

bool is_llmc_tokenizer(std::string_view bytes);

// Returns a byte tokenizer if the tokens are the 256 bytes in order, a character tokenizer if they are characters in
// ascending order, both also with the token that ends a text as the last; else BPE. Throws std::runtime_error, without
// a file name, if the file is damaged or merges cannot be derived.
Tokenizer tokenizer_from_llmc(std::string_view bytes);
Tokenizer read_llmc_tokenizer(const std::string& path);  // errors name the file

// Throws std::invalid_argument if reading the file would not give this tokenizer again.
std::string to_llmc(const Tokenizer& tokenizer);

// Derives the merges of tokens that are numbered by rank. `special` lists the tokens that no merge makes. Throws
// std::runtime_error if another token is not a merge of two earlier ones.
std::vector<Merge> merges_of_ranks(const std::vector<std::string>& tokens, const std::vector<SpecialToken>& special);
