#pragma once
// Unicode's normalization form C (Unicode Standard Annex 15): a letter and its marks become one character if there is
// one, and other marks get a fixed order. Without it, texts that look the same may have different tokens.

#include <string>
#include <string_view>

// Returns the normal form of a text. Bytes that are not UTF-8 stay as they are, and separate parts that are normalized
// on their own. You may cut a text before any character below U+0300: the parts' normal forms, joined, are the whole's.
std::string nfc(std::string_view text);
