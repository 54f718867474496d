#pragma once
// Splits text into words before byte-pair encoding. Tokens never cross word boundaries.
//
//   gpt2     A word is one of 's 't 're 've 'm 'll 'd; or letters, digits or other characters, with at most one space
//            before them; or a run of white space.
//   llama3   As gpt2, but 's etc. in upper case, too; any one character may precede letters; at most three digits;
//            line ends belong to the white space or other characters before them.
//   qwen2    As llama3, but each digit is a word.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

enum class Split { gpt2, llama3, qwen2 };

// Returns the regular expression of a split, as tokenizer.json spells it.
std::string regex_of(Split split);

// Calls with_utf8(run) for the longest runs of valid UTF-8, and with_other(run) for the bytes between them, in order.
void for_each_run(std::string_view text, const std::function<void(std::string_view)>& with_utf8,
                  const std::function<void(std::string_view)>& with_other);

// Calls with_word(word) for each word, in order. Joined, the words are the text. A run of bytes that are not UTF-8 is a
// word.
void split_words(Split split, std::string_view text, const std::function<void(std::string_view)>& with_word);

// Cuts a text into pieces of about `bytes` bytes. Splitting the pieces one by one gives the words of the whole text.
std::vector<std::string_view> cut_between_words(Split split, std::string_view text, size_t bytes);
