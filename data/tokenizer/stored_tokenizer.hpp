#pragma once
// Stores tokenizers in checkpoints, and reads them from files of other programs.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tokenizer.hpp"

// Convert a tokenizer to what a checkpoint stores, and back. Throws std::runtime_error without a file name.
nlohmann::json to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(const nlohmann::json& stored);

// Reads a tokenizer file, or the one in a folder: tokenizer.json, encoder.json or vocab.json with their merges,
// SentencePiece's or tiktoken's tokenizer.model, SentencePiece's spiece.model, llama2.c's tokenizer.bin, llm.c's
// gpt2_tokenizer.bin, or BERT's vocab.txt; or the one in a GGUF file.
// If the folder's tokenizer.json is refused and it also has a tokenizer.model, reads that and prints a note. `file`
// receives the path that was read. Throws std::runtime_error that names the file.
Tokenizer read_tokenizer(const std::string& path, std::string* file = nullptr);

// "byte", "char", "bpe" or "pieces".
std::string name_of_kind(Tokenizer::Kind kind);

// 4096 for "bpe:4096"; 0 for other names. Throws std::invalid_argument if the number is missing or out of range.
int vocabulary_of_bpe(const std::string& name);

// True unless it is byte, char, bpe:N or "".
bool names_file(const std::string& tokenizer);
