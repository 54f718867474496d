#pragma once
// Tokenizers as GGUF files hold them and llama.cpp reads them (ggml-org/llama.cpp, src/llama-vocab.cpp).
//
//   ours      model   how llama.cpp gets the same tokens
//   bytes     gpt2    byte-level BPE with one merge, of two zero bytes, whose result is no token: it wants one at least
//   chars     rwkv    the longest token that the text goes on with. The tokens are the characters in UTF-8. No token
//                     ends a text, unlike gpt2's model, which takes number 11 if none is named
//   bpe       gpt2    byte-level BPE, split as GPT-2 does
//
// A text has tokens of its own only: no first and no last one is added.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/tokenizer.hpp"

struct GgufTokenizer {
  std::string model, pre;           // tokenizer.ggml.model and .pre, which is left out if it is ""
  std::vector<std::string> tokens;  // as the file writes them
  std::vector<int32_t> types;
  std::vector<std::string> merges;             // "left right", by rank
  std::optional<uint32_t> first, end;          // tokens that begin and end a text
};

// `vocabulary` is the model's, which may be larger: the tokens beyond are unused. Throws std::invalid_argument if
// llama.cpp would find other tokens.
GgufTokenizer gguf_tokenizer(const Tokenizer& tokenizer, int vocabulary);
