#pragma once
// Files of byte-level BPE tokenizers: Hugging Face's tokenizer.json, and GPT-2's encoder.json with its vocab.bpe.

#include <string>

#include "bpe.hpp"

// Reads a tokenizer.json, or an encoder.json (also called vocab.json) that has vocab.bpe or merges.txt beside it.
// Throws std::runtime_error "FILE: ..." for a damaged file, and for a normalizer, pre-tokenizer or other part that
// would tokenize differently, naming it.
Bpe read_bpe(const std::string& path);

// The text of a tokenizer.json, which Hugging Face's tokenizers read, and back. Errors do not name a file.
std::string to_json(const Bpe& bpe);
Bpe bpe_from_json(const std::string& text);

// Bytes as such files write them: each is a printable character of its own.
std::string printable(const std::string& bytes);
