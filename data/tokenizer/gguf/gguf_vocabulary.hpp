#pragma once
// Reads the tokenizer in the keys of a GGUF file, as llama.cpp does (ggml-org/llama.cpp, src/llama-vocab.cpp).

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizer/tokenizer.hpp"

// Throws std::runtime_error for keys of a wrong kind, and UnsupportedPart for a tokenizer that we do not have. Messages
// name the file, `path`.
Tokenizer tokenizer_in_gguf(const std::string& path, const nlohmann::json& keys);

// The same for a file, of which it reads only the keys.
Tokenizer read_gguf_tokenizer(const std::string& path);
