#pragma once
// The loss of a model on the validation windows of a dataset.

#include <functional>

#include "data/text/dataset.hpp"
#include "layers/model/model.hpp"
#include "layers/training/group.hpp"

// Batches of B rows in the validation split.
int64_t validation_batches(const Dataset& data, int B);

// Mean loss in nats per token, by batches of B rows of the model's context. Measures at most `batches` of them, spread
// evenly over the windows; 0: all. Calls `go_on` before each batch with the number done and the total; if it returns
// false, the result is NaN. The ranks of `group`, if it is given, share the batches; the result has the same bits.
double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches,
                const std::function<bool(int64_t done, int64_t total)>& go_on = {}, Group* group = nullptr);

// The same with a progress line. Ctrl-C stops it: the result is NaN, and interrupted() is true.
double evaluate_with_progress(const Model& model, const Activations& activations, const Dataset& data, int B,
                              int64_t batches, Group* group = nullptr);
