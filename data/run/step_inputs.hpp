#pragma once
// What the steps of a run train, and with what: the tensors that train, their learning rates and optimizers, the
// batches.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/text/dataset.hpp"
#include "layers/model/size.hpp"
#include "layers/training/step.hpp"

bool is_norm(const TensorSpec& spec);
bool is_vector(const TensorSpec& spec);
bool is_embedding(const TensorSpec& spec);
bool is_head(const TensorSpec& spec);

// Applies --train-only, --freeze, learning rates and the optimizer to the table of a model. Throws
// std::invalid_argument if a pattern is no regular expression or matches no tensor, or if nothing is left.
void choose_trained(std::vector<TensorSpec>& table, const TrainOptions& options);

// The tensors of a run's model, with what trains of them. Throws like choose_trained().
std::vector<TensorSpec> table_of_run(const TrainOptions& options);

// A line about what trains of a model, or "" if all does.
std::string describe_trained(const Config& config, const std::vector<TensorSpec>& table);

// The memory of a run in bytes. Throws like choose_trained(), and std::overflow_error.
MemoryNeed memory_of_run(const TrainOptions& options);

// The model of a run, with the gradients of the tensors that it trains, and the options of its steps.
Model model_to_train(const TrainOptions& options);
StepOptions step_options(const TrainOptions& options);

// The rows of a step, counted from 0, and its micro-batches. These are read now: if a file fails, no step has begun.
StepRows rows_of(const TrainOptions& options, int64_t step);
MicroBatches micro_batches(const Dataset& data, const TrainOptions& options, int64_t step);
