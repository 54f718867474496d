#pragma once
// JSON, parsed and written. Callers leave both to this file because nlohmann's parser takes seconds to compile.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

// Throws std::runtime_error, which names no file, if `text` is not JSON or nests its values more than `deepest` deep.
nlohmann::json parse_json(std::string_view text, int deepest = 32);

// Parses a whole file. Throws std::runtime_error in one line that names the file if it cannot be read, is larger than
// `most` bytes, is no JSON, or nests its values more than 32 deep.
nlohmann::json read_json(const std::string& path, size_t most);

// The whole number from `least` to `most` that a value is, or nothing. Compare values of files this way alone:
// nlohmann's comparison with an int reads 2^63 as a negative number, and its conversion to an int cuts large numbers.
std::optional<int64_t> integer_between(const nlohmann::json& value, int64_t least, int64_t most);

// As text, on one line or indented by so many spaces. Throws nlohmann::json::type_error for strings that are not UTF-8.
std::string to_text(const nlohmann::json& value, int indent = -1);
std::string to_text(const nlohmann::ordered_json& value, int indent = -1);

// As text on one line, in ASCII. Bytes that are not UTF-8 become U+FFFD.
std::string to_ascii(const nlohmann::ordered_json& value);

// The double with the same shortest digits, as people write it: 1e-5f becomes 1e-5.
double shortest(float x);
