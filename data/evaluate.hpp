#pragma once
// The loss of a model on the validation windows of a dataset.

#include "../layers/model.hpp"
#include "dataset.hpp"

// Mean loss in nats per token, by batches of B rows of the model's context. At most `batches` of them, spread
// evenly over the windows; 0: all.
double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches);

struct EvalOptions;
void run_eval(const EvalOptions& options);
