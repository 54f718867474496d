#pragma once
// A unigram language model (Kudo 2018, arXiv 1804.10959, section 3.2), as in T5 and XLM-R. Each piece has a score, its
// logarithmic probability. A word becomes the pieces whose scores have the largest sum (Viterbi). A character that is
// no piece has the lowest score of all pieces, less 10.

#include <string>
#include <vector>

#include "prefix_tree.hpp"
#include "word_model.hpp"

constexpr double kUnknownPenalty = 10;

struct UnigramPiece {
  std::string text;
  double score;
  uint32_t token;
  bool special = false;
};

class Unigram : public WordModel {
 public:
  // Rounding decides between segmentations of the same score. `tokenizers` adds up in double, SentencePiece in float.
  enum class Sums { in_double, in_float };

  Unigram(const std::vector<UnigramPiece>& pieces, double lowest_score, Sums sums);

  // Neighboring characters without a token are one part.
  std::vector<WordPart> split(std::string_view word, bool special) const override;

 private:
  double rounded(double sum) const { return sums_ == Sums::in_float ? static_cast<float>(sum) : sum; }

  struct Score {
    double score;
    uint32_t token;
    bool special;
  };
  std::vector<Score> scores_;
  PrefixTree tree_;  // texts of pieces → index in scores_
  double unknown_score_;
  Sums sums_;
};
