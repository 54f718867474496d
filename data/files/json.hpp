#pragma once
// Reads and writes JSON. nlohmann's parser and writer take seconds to compile, so other files call these functions.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

// Parses `text`. Throws std::runtime_error, without a file name, if it is not JSON or nests more than `deepest` levels.
// If an object has a key twice, the last one counts, or with `once` it is refused.
nlohmann::json parse_json(std::string_view text, int deepest = 32, bool once = false);

// Parses a whole file. Throws std::runtime_error in one line that names the file if it cannot be read, is larger than
// `most` bytes, is not JSON, or nests more than 32 levels.
nlohmann::json read_json(const std::string& path, size_t most);

// Calls use(object, number) for each line that is not blank, counted from 1. Throws std::runtime_error that names the
// line ("q.jsonl, line 7: ...") if it is not a JSON object, if an object has a key twice, or if `use` throws one.
void for_each_json_line(std::string_view text, const std::string& name,
                        const std::function<void(const nlohmann::json& object, size_t number)>& use);

// Returns the value if it is a whole number from `least` to `most`. Compare numbers from files only this way:
// nlohmann's comparison with an int reads 2^63 as negative, and its conversion to an int truncates large numbers.
std::optional<int64_t> integer_between(const nlohmann::json& value, int64_t least, int64_t most);

// Writes JSON on one line, or indented by `indent` spaces. Throws nlohmann::json::type_error for strings that are not
// UTF-8.
std::string to_text(const nlohmann::json& value, int indent = -1);
std::string to_text(const nlohmann::ordered_json& value, int indent = -1);

// Writes JSON on one line, in ASCII. Bytes that are not UTF-8 become U+FFFD.
std::string to_ascii(const nlohmann::ordered_json& value);

// A text as JSON: a string, or a list of bytes if it is not UTF-8. text_from_json() throws std::invalid_argument if the
// value is a list with anything but bytes, and returns other values as they are written.
nlohmann::json text_to_json(const std::string& text);
std::string text_from_json(const nlohmann::json& value);

// Returns the double that the shortest digits of x denote: 1e-5f becomes 1e-5.
double shortest(float x);
