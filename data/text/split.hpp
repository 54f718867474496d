#pragma once
// Splits text into words, as GPT-2 does before byte-pair encoding: 's 't 're 've 'm 'll 'd, letters, digits or other
// characters with at most one space before them, and runs of white space. Tokens never cross the ends of words.

#include <functional>
#include <string_view>
#include <vector>

// Calls with_word(word) for each word, in order. The words together are the text. Bytes that are not UTF-8 are words
// of their own.
void split_words(std::string_view text, const std::function<void(std::string_view)>& with_word);

// Cuts a text into pieces of about `bytes` bytes that have the same words, piece by piece, as the whole text.
std::vector<std::string_view> cut_between_words(std::string_view text, size_t bytes);
