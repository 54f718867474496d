#pragma once
// GPT-2's alphabet: each byte as a printable character. The 68 bytes that are not printable become U+0100 to U+0143.

#include <string>
#include <string_view>
#include <vector>

// Returns the 256 single bytes as tokens, in GPT-2's order: "!" to "~", bytes 161 to 172 and 174 to 255, then the rest.
std::vector<std::string> byte_tokens();

// Returns bytes as tokenizer files write them.
std::string printable(std::string_view bytes);

// Returns the bytes that the characters stand for, or the text itself if one of them stands for no byte.
std::string from_printable(std::string_view text);
