#pragma once
// Tokenizers as GGUF files store them and llama.cpp reads them (ggml-org/llama.cpp, src/llama-vocab.cpp).
//
//   ours      model   how llama.cpp gets the same tokens
//   bytes     gpt2    byte-level BPE. llama.cpp requires a merge, so the file has one that never applies: it joins two
//                     zero bytes, and its result is not a token
//   chars     rwkv    the longest token that matches is the next character. No token ends a text; in model gpt2,
//                     token 11 would
//   bpe       gpt2    byte-level BPE, split as a row of pre_tokenizers.cpp says
//   pieces    llama   SentencePiece's BPE with scores
//
// llama.cpp puts begin() of the tokenizer before a text, if there is one, and no token after a text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"

enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };  // llama_token_type

struct GgufTokenizer {
  std::string model, pre;           // tokenizer.ggml.model and .pre, which is omitted if ""
  std::vector<std::string> tokens;  // spelled as in the file
  std::vector<int32_t> types;
  std::vector<std::string> merges;              // "left right", by rank
  std::vector<float> scores;                    // for pieces
  std::optional<uint32_t> first, end, unknown;  // tokens that begin a text, end it, or replace unknown characters
  bool add_first = false;                       // put `first` before a text
  std::optional<bool> dummy_prefix;             // put a space before a text
};

// `vocabulary` is the model's, which may be larger than the tokenizer's; the extra tokens are unused. Throws
// std::invalid_argument if llama.cpp would find other tokens.
GgufTokenizer gguf_tokenizer(const Tokenizer& tokenizer, int vocabulary);
