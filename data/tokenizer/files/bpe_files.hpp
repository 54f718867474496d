#pragma once
// Reads the files of byte-pair encodings: Hugging Face's tokenizer.json, and GPT-2's encoder.json with its vocab.bpe.

#include <string>

#include "bpe_json.hpp"

// Reads a tokenizer.json, or an encoder.json (also called vocab.json) with a vocab.bpe or merges.txt in the same
// folder. Throws std::runtime_error "FILE: ..." for a damaged file. Also throws for a normalizer, pre-tokenizer or
// other part that we do not have, and names it: the tokens would differ.
Bpe read_bpe(const std::string& path);
