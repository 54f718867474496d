#pragma once
// The pre-tokenizers of llama.cpp that we have ("tokenizer.ggml.pre"). They split text into words before byte-pair
// encoding.
// The published tokenizers have these regular expressions. llama.cpp writes them in its own way (llm_tokenizer_bpe in
// src/llama-vocab.cpp).

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

struct PreTokenizer {
  std::vector<const char*> names;
  std::vector<std::string> splits;  // regular expressions, used in turn; matches and what is between them are words
  bool words_first = false;         // a word that is a token is taken without merging
  bool begins = false;              // a token begins each text, unless the file says otherwise
};

// Returns the row with this name, or null.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

// Returns the row that splits text as this pre_tokenizer of a tokenizer.json does, or null.
const PreTokenizer* find_pre_tokenizer(const nlohmann::json& pre_tokenizer, bool words_first);
