#pragma once
// Reads and writes byte-level BPE tokenizers: Hugging Face's tokenizer.json, and GPT-2's encoder.json with its
// vocab.bpe.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "bpe.hpp"

// Reads a tokenizer.json, or an encoder.json (also called vocab.json) with a vocab.bpe or merges.txt in the same
// folder. Throws std::runtime_error "FILE: ..." for a damaged file. Also throws for a normalizer, pre-tokenizer or
// other part that we do not have, and names it: the tokens would differ.
Bpe read_bpe(const std::string& path);

// Convert to and from the text of a tokenizer.json, which Hugging Face's tokenizers read. Errors do not name a file.
std::string to_json(const Bpe& bpe);
Bpe bpe_from_json(const std::string& text);

// The post_processor of a tokenizer.json that puts a special token before a text.
nlohmann::ordered_json template_with(const SpecialToken& begin);

// Returns bytes as these files write them: each byte as its own printable character.
std::string printable(const std::string& bytes);
