#pragma once
// Tokenizers of characters as a tokenizer.json, which Hugging Face's tokenizers read: each code point is a word of a
// WordLevel model. A text with a character that has no token is an error there, as it is here.

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

nlohmann::json word_level(const std::vector<uint32_t>& alphabet);

bool is_word_level(const nlohmann::json& file);

// The alphabet of such a file. Throws std::runtime_error, which names no file, for another WordLevel tokenizer.
std::vector<uint32_t> alphabet_of(const nlohmann::json& file);
