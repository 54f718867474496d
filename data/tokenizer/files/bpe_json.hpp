#pragma once
// Converts byte-pair encodings to and from the text of a tokenizer.json.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/tokenizer/bpe.hpp"

// Convert to and from the text of a tokenizer.json, which Hugging Face's tokenizers read. A text that was read comes
// back byte for byte. Errors do not name a file.
std::string to_json(const Bpe& bpe);
Bpe bpe_from_json(const std::string& text);
Bpe bpe_from_json(const nlohmann::json& file, std::string text);  // `file` is what the text says

// Reads the vocabulary and the merges of GPT-2's two files.
Bpe bpe_from_gpt2(const nlohmann::json& vocabulary, const std::string& merges);

// Return the text of the file with other tokens before and after a text (null: none), and with more special tokens.
std::string json_with_around(const std::string& text, const SpecialToken* begin, const SpecialToken* end = nullptr);
std::string json_with_special(const JsonParts& parts, const std::vector<SpecialToken>& special);

// The post_processor of a tokenizer.json that puts special tokens before and after a text; null without both.
nlohmann::ordered_json template_with(const SpecialToken* begin, const SpecialToken* end = nullptr);
