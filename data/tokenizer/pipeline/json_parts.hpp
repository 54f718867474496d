#pragma once
// Reads the parts of a tokenizer.json: its normalizer, pre_tokenizer, post_processor and decoder. Each of them is null,
// an object with a type, or a Sequence of such objects.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "regex.hpp"

// Returns the type of a part, on one line.
std::string type_of(const nlohmann::json& part);

// Describes a part of a tokenizer.json for an error message: "Sequence [Digits, ByteLevel]".
std::string description_of(const nlohmann::json& part);

// Returns the parts of a Sequence, or the part alone, or none for null. Throws std::runtime_error if it is no object;
// `what` names it: "normalizer".
std::vector<nlohmann::json> parts_in(const nlohmann::json& part, const std::string& what);

// Throws UnsupportedPart "WHAT is not supported".
[[noreturn]] void lack(const std::string& what);

// The members of an object in a tokenizer.json. Null if it is absent.
const nlohmann::json& member(const nlohmann::json& j, const char* name);
std::string text_of(const nlohmann::json& j, const std::string& what);
bool flag_of(const nlohmann::json& part, const char* name, bool otherwise);

// The pattern of a Split or a Replace: {"Regex": "..."} or {"String": "..."}.
Regex pattern_of(const nlohmann::json& part);

// Returns the text with `content` in place of each match.
std::string replaced(const std::string& text, const Regex& pattern, const std::string& content);
