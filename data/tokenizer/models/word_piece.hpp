#pragma once
// WordPiece (Schuster & Nakajima 2012; Devlin et al. 2018, arXiv 1810.04805), as in BERT. The longest token that begins
// the word comes first, then the longest that continues it, and so on. Tokens inside a word are written with a prefix,
// "##". If this does not reach the end of the word, the whole word has no token.

#include <string>
#include <vector>

#include "prefix_tree.hpp"
#include "word_model.hpp"

class WordPiece : public WordModel {
 public:
  struct Options {
    std::string prefix = "##";
    size_t most_characters = 100;  // a longer word has no token
  };

  // `special` says which of the words are special tokens. Words may be empty.
  WordPiece(const std::vector<std::string>& words, std::vector<bool> special, const Options& options);

  std::vector<WordPart> split(std::string_view word, bool special) const override;

 private:
  PrefixTree first_, later_;  // tokens that begin a word, and those that continue it, without their prefix
  std::vector<bool> special_;
  size_t most_characters_;
};
