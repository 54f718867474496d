#pragma once
// Measures a model's accuracy on multiple-choice questions.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/text/multiple_choice.hpp"
#include "layers/model/model.hpp"

// Counts questions whose right completion has the lowest loss: by the sum over its tokens (acc), or the mean
// (acc_norm).
struct Accuracy {
  int64_t questions = 0, by_sum = 0, by_mean = 0;
  double acc() const { return static_cast<double>(by_sum) / static_cast<double>(questions); }
  double acc_norm() const { return static_cast<double>(by_mean) / static_cast<double>(questions); }
};

// Throws std::runtime_error that names the first question that is longer than the context or has a token beyond the
// vocabulary.
void check_questions(const std::vector<Question>& questions, const std::string& path, const Config& config);

// Evaluates B completions at a time; `activations` are for B sequences of the model's context. Calls go_on(completions
// done, total) before each batch. If that returns false, the result has no questions.
Accuracy measure_accuracy(const Model& model, const Activations& activations, const std::vector<Question>& questions,
                          int B, const std::function<bool(int64_t done, int64_t total)>& go_on);
