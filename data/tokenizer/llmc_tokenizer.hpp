#pragma once
// llm.c's gpt2_tokenizer.bin (karpathy/llm.c: write_tokenizer in train_gpt2.py, llmc/tokenizer.h). Little-endian:
//   u32[256]  20240328, version, number of tokens, in version 2 the token that ends a text (version 1: 50256)
//   u8 length, bytes   for each token
//
// The file has no merges, as llm.c only decodes. They follow from the tokens: in GPT-2's vocabulary, as in every one
// whose merges are numbered by rank, a token is the merge of the two that its bytes become under the merges before it.

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer.hpp"

bool is_llmc_tokenizer(std::string_view bytes);

// A byte tokenizer if the tokens are the 256 bytes in order, characters if they are characters in order, else BPE.
// Throws std::runtime_error, which does not name a file, if the file is damaged or the tokens are no such merges.
Tokenizer tokenizer_from_llmc(std::string_view bytes);
Tokenizer read_llmc_tokenizer(const std::string& path);  // errors name the file

// Throws std::invalid_argument if reading the file would not give this tokenizer again.
std::string to_llmc(const Tokenizer& tokenizer);

// The merges of tokens whose numbers are their ranks. `special` are tokens that no merge makes. Throws
// std::runtime_error if there is another such token.
std::vector<Merge> merges_of_ranks(const std::vector<std::string>& tokens, const std::vector<SpecialToken>& special);
