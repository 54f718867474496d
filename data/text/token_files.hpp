#pragma once
// Token files. They are mapped into memory, so that training starts at once even if they are larger than memory.
//
//   llm.c     256 int32: magic 20240520 and version 1 (16-bit tokens), or 20240801 and 7 (32-bit tokens), the number of
//             tokens, zeros; then the tokens (karpathy/llm.c, dev/data/data_common.py)
//   nanoGPT   16-bit tokens without a header, in a file NAME.bin
// All numbers are little-endian. Next to a file NAME.bin there may be a mask NAME.mask: a byte for each token, 1 if it
// counts as a target, else 0.

#include <functional>
#include <string>
#include <vector>

#include "tokens.hpp"

// Returns the token files that `paths` name as files, globs or a folder; none if they name something else, such as
// text. In a folder, leaves out files with the word val, valid or validation in their names, or with `validation`
// returns only those. If `raw`, a file NAME.bin without llm.c's header counts, too. Throws std::runtime_error if token
// files are mixed with others.
std::vector<std::string> find_token_files(const std::vector<std::string>& paths, bool raw, bool validation = false);

// Returns a note if a number is missing among the `files` that are in folders of `paths` (train_000001.bin between
// train_000000.bin and train_000002.bin), and one if some of the files have masks and others have none.
std::vector<std::string> notes_on_token_files(const std::vector<std::string>& paths,
                                              const std::vector<std::string>& files);

// True for a regular file that begins like a token file of llm.c.
bool has_token_header(const std::string& path);

// Hashes of a mapped file: `sampled` covers its size and samples of its content; whole() covers the content at the
// call.
struct TokenFileHash {
  uint64_t sampled;
  std::function<uint64_t()> whole;
};

// Maps a file and appends its tokens, and its mask to `counted` if both are there. If only some of the files have
// masks, all tokens of the others count. Throws std::runtime_error if a size does not fit.
TokenFileHash append_token_file(Tokens& tokens, const std::string& path, Tokens* counted = nullptr);

// True if a token file has a mask. is_mask() is true for such a mask.
bool has_mask(const std::string& path);
bool is_mask(const std::string& path);

// Writes a token file in llm.c's format, with 32-bit tokens if `wide`. Throws std::runtime_error, and then keeps an
// older file. write_mask() writes the mask of the file at `path`.
void write_mask(const std::string& path, const std::vector<uint8_t>& counted);
void write_token_file(const std::string& path, const std::vector<uint32_t>& tokens, bool wide);
