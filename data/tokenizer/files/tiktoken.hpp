#pragma once
// Reads files of tiktoken, such as Llama 3's tokenizer.model: a line for each token, with its bytes in base64 and its
// rank. Encoding merges the pair of neighbors that makes the token with the lowest rank, leftmost first.
//
// A file does not say how text is split into words, and which special tokens there are. The number of its ranks tells
// which published encoding it is. Each encoding is a row of a table in tiktoken.cpp.

#include <string>
#include <string_view>

#include "data/tokenizer/tokenizer.hpp"

// True if the file begins with a line such as "IQ== 0".
bool is_tiktoken(std::string_view bytes);

// Returns the tokenizer of a file's text. `name` receives the name of its encoding, with its special tokens. Throws
// std::runtime_error, without a file name, for a damaged file and for an unknown encoding.
Tokenizer tokenizer_from_tiktoken(std::string_view bytes, std::string* name = nullptr);

// Prints a note with the encoding. Throws std::runtime_error that names the file.
Tokenizer read_tiktoken(const std::string& path);
