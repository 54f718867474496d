#pragma once
// Unicode's normalization form C (Unicode Standard Annex 15): a letter and its marks become one character if there is
// one, and other marks get a fixed order. Without it, texts that look the same may have different tokens.

#include <string>
#include <string_view>

// The normal form of a text. Bytes that are not UTF-8 stay as they are; the text between them is normalized by itself.
// You may cut a text before any character below U+0300: the normal forms of the parts are that of the whole.
std::string nfc(std::string_view text);
