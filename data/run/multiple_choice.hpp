#pragma once
// Measures how many multiple-choice questions, or minimal pairs, a model gets right.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/text/readers/json_questions.hpp"
#include "layers/model/model.hpp"

// The points that a model gets for the questions of a category. A question is a point if its right choice has the
// lowest loss. Choices with equal losses share it: a tie of a pair is half a point.
struct Score {
  std::string category;
  int64_t questions = 0;
  double by_sum = 0, by_length = 0;  // by the sum of a completion's losses (acc), divided by its length (acc_norm)
  double uniform = 0;                // of a model to which all tokens are equally likely: the shortest choice wins

  double share(double Score::*points) const { return this->*points / static_cast<double>(questions); }
};

struct Interval {
  double low, high;
};

// Returns Wilson's 95 % interval of a share of n (Wilson 1927, J. Am. Stat. Assoc. 22, 209).
Interval wilson(double share, int64_t n);

// Returns the sum of all scores, and the mean of their shares by sum.
Score total_of(const std::vector<Score>& scores);
double mean_of(const std::vector<Score>& scores);

// Says how a model's questions become tokens. A sentence begins as a document does, and a text as a prompt of `sample`.
QuestionTokens question_tokens(const Tokenizer& tokenizer, const DocumentOptions& documents, Unknown unknown);

// Returns a note if no token begins a document, and choices of a question differ in their first token, or "".
std::string note_on_first_tokens(const std::vector<Question>& questions);

// Returns the most tokens that the model reads for one completion.
int longest_of(const std::vector<Question>& questions);

// Reads files of questions. Throws std::runtime_error that names the first question that is longer than the context or
// has a token beyond the vocabulary, and std::invalid_argument if the model does not predict the next token.
using ReadQuestions = std::vector<Question>(const std::string& path, const QuestionTokens& how);
std::vector<Question> read_all(const std::vector<std::string>& files, ReadQuestions* read, const QuestionTokens& how,
                               const Config& config);

// Returns the sum of the losses of each completion, in the order of the questions. Evaluates B at a time; `activations`
// are for B sequences of the longest one. Calls go_on(completions done, total) before each batch; if it returns false,
// the result is empty. Throws std::runtime_error if a loss is not finite.
std::vector<double> losses_of(const Model& model, const Activations& activations,
                              const std::vector<Question>& questions, int B,
                              const std::function<bool(int64_t done, int64_t total)>& go_on = {});

// Returns a score for each category, in the order of the questions.
std::vector<Score> scores_of(const std::vector<Question>& questions, const std::vector<double>& losses);

// Measures the losses with a progress line, and returns the scores. Ctrl-C stops it; then the result is empty.
std::vector<Score> measure_with_progress(const Model& model, const Activations& activations,
                                         const std::vector<Question>& questions, int B);
