#pragma once
// Tokenizers in files: as checkpoints hold them, and in the formats of other programs.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tokenizer.hpp"

// The tokenizer as checkpoints hold it, and back. Throws std::runtime_error, which does not name a file.
nlohmann::json to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(const nlohmann::json& stored);

// Reads a tokenizer file, or the one in a folder: tokenizer.json, encoder.json or vocab.json with their merges,
// SentencePiece's tokenizer.model, llama2.c's tokenizer.bin, or llm.c's gpt2_tokenizer.bin.
// If the folder has a tokenizer.model beside a tokenizer.json that is refused, reads it and prints a note. `file`
// becomes the file that was read. Throws std::runtime_error naming the file.
Tokenizer read_tokenizer(const std::string& path, std::string* file = nullptr);

// "byte", "char", "bpe" or "pieces".
std::string name_of_kind(Tokenizer::Kind kind);

// 4096 for "bpe:4096"; 0 for other names. Throws std::invalid_argument if the number is missing or out of range.
int vocabulary_of_bpe(const std::string& name);

// True unless it is byte, char or bpe:N.
bool names_file(const std::string& tokenizer);
