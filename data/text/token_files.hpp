#pragma once
// Token files. They are mapped into memory, so that training starts at once even if they are larger than memory.
//
//   llm.c     256 int32: magic 20240520 and version 1 (16-bit tokens), or 20240801 and 7 (32-bit tokens), the number of
//             tokens, zeros; then the tokens (karpathy/llm.c, dev/data/data_common.py)
//   nanoGPT   16-bit tokens without a header, in a file NAME.bin
// All numbers are little-endian.

#include <functional>
#include <string>
#include <vector>

#include "tokens.hpp"

// Returns the token files that `paths` name as files, globs or a folder; none if they name something else, such as
// text. In a folder, leaves out files with the word val, valid or validation in their names, or with `validation`
// returns only those. If `raw`, a file NAME.bin without llm.c's header counts, too. Throws std::runtime_error if token
// files are mixed with others.
std::vector<std::string> find_token_files(const std::vector<std::string>& paths, bool raw, bool validation = false);

// True for a regular file that begins like a token file of llm.c.
bool has_token_header(const std::string& path);

// Hashes of a mapped file: `sampled` covers its size and samples of its content; whole() covers the content at the
// call.
struct TokenFileHash {
  uint64_t sampled;
  std::function<uint64_t()> whole;
};

// Maps a file and appends its tokens. Throws std::runtime_error if its size does not fit its header.
TokenFileHash append_token_file(Tokens& tokens, const std::string& path);

// Writes a token file in llm.c's format, with 32-bit tokens if `wide`. Throws std::runtime_error, and then keeps an
// older file.
void write_token_file(const std::string& path, const std::vector<uint32_t>& tokens, bool wide);
