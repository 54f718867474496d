#pragma once
// Splits text into words before byte-pair encoding. Tokens never cross the ends of words.
//
//   gpt2     's 't 're 've 'm 'll 'd, letters, digits or other characters with at most one space before them, and runs
//            of white space
//   llama3   the same in any case, letters with any one character before them, at most three digits, and line ends
//            with what is before them
//   qwen2    as llama3, with each digit by itself

#include <functional>
#include <string>
#include <string_view>
#include <vector>

enum class Split { gpt2, llama3, qwen2 };

// The regular expression of a split, as tokenizer.json has it.
std::string regex_of(Split split);

// Calls with_word(word) for each word, in order. The words together are the text. Bytes that are not UTF-8 are words
// of their own.
void split_words(Split split, std::string_view text, const std::function<void(std::string_view)>& with_word);

// Cuts a text into pieces of about `bytes` bytes that have the same words, piece by piece, as the whole text.
std::vector<std::string_view> cut_between_words(Split split, std::string_view text, size_t bytes);
