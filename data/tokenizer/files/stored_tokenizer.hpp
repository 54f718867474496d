#pragma once
// Stores tokenizers in checkpoints, and reads them from files of other programs.

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizer/tokenizer.hpp"

// Convert a tokenizer to what a checkpoint stores, and back. Throws std::runtime_error without a file name.
nlohmann::json to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(const nlohmann::json& stored);

// Names of tokenizer files: in the folder of a model, and next to token files. Of several, the first one is read.
// encoder.json and vocab.json come with merges, and tokenizer.model is SentencePiece's or tiktoken's.
inline constexpr const char* kTokenizerFiles[] = {"tokenizer.json",  "encoder.json",  "vocab.json",
                                                  "tokenizer.model", "spiece.model",  "tokenizer.bin",
                                                  "gpt2_tokenizer.bin", "vocab.txt"};
inline constexpr const char* kBesideTokens[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin"};

// Returns the path of the first of `names` in a folder; "" if it has none.
std::string first_file(const std::string& folder, std::span<const char* const> names);

// Reads a tokenizer file, the one in a folder, or the one in a GGUF file.
// If the folder's tokenizer.json is refused and it also has a tokenizer.model, reads that and prints a note. `file`
// receives the path that was read. Throws std::runtime_error that names the file.
Tokenizer read_tokenizer(const std::string& path, std::string* file = nullptr);

// "byte", "char", "bpe" or "pieces".
std::string name_of_kind(Tokenizer::Kind kind);

// 4096 for "bpe:4096"; 0 for other names. Throws std::invalid_argument if the number is missing or out of range.
int vocabulary_of_bpe(const std::string& name);

// True unless it is byte, char, bpe:N or "".
bool names_file(const std::string& tokenizer);
