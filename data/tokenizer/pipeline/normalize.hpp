#pragma once
// Unicode's normalization forms (Unicode Standard Annex 15), and lower case. In form C, a letter and its marks become
// one character if there is one, and other marks get a fixed order. Without it, texts that look the same may have
// different tokens. Form D splits characters instead. The forms KC and KD also replace compatible characters, such as
// a ligature.

#include <string>
#include <string_view>

enum class NormalForm { c, d, kc, kd };

// Returns the normal form of a text. Bytes that are not UTF-8 stay as they are, and separate parts that are normalized
// on their own. You may cut a text before any character below U+0300: the parts' normal forms, joined, are the whole's.
std::string normal_form(std::string_view text, NormalForm form);

inline std::string nfc(std::string_view text) { return normal_form(text, NormalForm::c); }

// Returns each character in lower case, whatever surrounds it. Bytes that are not UTF-8 stay.
std::string lower_case(std::string_view text);
