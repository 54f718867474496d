#pragma once
// Writes and reads character tokenizers as a tokenizer.json for Hugging Face's tokenizers. Each code point is a word of
// a WordLevel model. A character without a token is an error there, as it is here.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

// The last tokens are special tokens of these names. If it `begins`, the first of them comes before each text.
nlohmann::json word_level(const std::vector<uint32_t>& alphabet, const std::vector<std::string>& special, bool begins);

bool is_word_level(const nlohmann::json& file);

// Returns the names of the special tokens of such a file.
std::vector<std::string> specials_of(const nlohmann::json& file);

// Returns the alphabet of such a file. Throws std::runtime_error, without a file name, for any other WordLevel
// tokenizer.
std::vector<uint32_t> alphabet_of(const nlohmann::json& file);
