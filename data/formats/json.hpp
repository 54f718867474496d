#pragma once
// Small JSON files of other programs.

#include <string>

#include <nlohmann/json.hpp>

// Parses a whole file. Throws std::runtime_error in one line that names the file if it cannot be read, is larger than
// `most` bytes, is no JSON, or nests its values more than 32 deep.
nlohmann::json read_json(const std::string& path, size_t most);

// The double with the same shortest digits, as people write it: 1e-5f becomes 1e-5.
double shortest(float x);
