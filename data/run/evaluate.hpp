#pragma once
// Measures a model's loss on a dataset's validation windows.

#include <functional>

#include "data/text/dataset.hpp"
#include "layers/model/model.hpp"
#include "layers/training/group.hpp"

// Nats. A model this close to the unigram entropy has learned only how often each token occurs.
inline constexpr double kStuckWithin = 0.02;

// The number of batches of B rows in the validation split.
int64_t validation_batches(const Dataset& data, int B);

// The length T of the rows in which the functions below read the validation split: the model's context, or less if no
// row is as long.
int validation_length(const Model& model, const Dataset& data);

// Returns the mean loss in nats per token, in batches of B rows of T tokens. Measures at most `batches` of
// them, spread evenly over the windows; 0 means all. Calls go_on(batches done, total) before each batch; if it returns
// false, the result is NaN. If `group` is given, its ranks share the batches; the result is bit-identical.
double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches,
                const std::function<bool(int64_t done, int64_t total)>& go_on = {}, Group* group = nullptr);

// Does the same with a progress line. Ctrl-C stops it; then the result is NaN, and interrupted() is true.
double evaluate_with_progress(const Model& model, const Activations& activations, const Dataset& data, int B,
                              int64_t batches, Group* group = nullptr);

// Examples of the validation split, such as questions with their answers.
struct Answers {
  int64_t all = 0;
  int64_t exact = 0;  // greedy decoding after the prompt writes exactly the part that counts
  int64_t cut = 0;    // of documents that are longer than the context; not in `all`
};

// Counts them row by row. They are exact if the likeliest token is right at every place that counts.
Answers count_answers(const Model& model, const Activations& activations, const Dataset& data);
