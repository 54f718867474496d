#pragma once
// Files of tokens, mapped into memory, so that training starts at once on files larger than memory.
//
//   llm.c     256 int32: magic 20240520 and version 1 (16-bit tokens), or 20240801 and 7 (32-bit tokens), the number of
//             tokens, zeros; then the tokens (karpathy/llm.c, dev/data/data_common.py)
//   nanoGPT   16-bit tokens without a header, in a file NAME.bin
// All numbers are little-endian.

#include <functional>
#include <string>
#include <vector>

#include "tokens.hpp"

// Token files, if `paths` name some: files, globs, or a folder. Of a folder, files with the word val, valid or
// validation in their names are left out or, with `validation`, are the only ones. Empty: the paths name something
// else, such as text. `raw`: a file NAME.bin without llm.c's header counts too. Throws std::runtime_error for token
// files among others.
std::vector<std::string> find_token_files(const std::vector<std::string>& paths, bool raw, bool validation = false);

// True for a regular file that begins like one of llm.c.
bool has_token_header(const std::string& path);

// Hashes of a mapped file: of its size and of samples of its content, and of the whole of it as it is at the call.
struct TokenFileHash {
  uint64_t sampled;
  std::function<uint64_t()> whole;
};

// Maps a file and appends its tokens. Throws std::runtime_error if its size does not fit its header.
TokenFileHash append_token_file(Tokens& tokens, const std::string& path);

// Writes a file of llm.c, with 32-bit tokens if `wide`. Throws std::runtime_error; an older file survives then.
void write_token_file(const std::string& path, const std::vector<uint32_t>& tokens, bool wide);
