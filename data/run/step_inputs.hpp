#pragma once
// The inputs of a run's steps: the trained tensors with their learning rates and optimizers, and the batches.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/text/dataset.hpp"
#include "layers/model/size.hpp"
#include "layers/training/step.hpp"

// Applies --train-only, --freeze, --frozen-weights, learning rates and the optimizer to a model's table. Throws
// std::invalid_argument if a pattern is not a regular expression or matches no tensor, or if nothing is left to train.
void choose_trained(std::vector<TensorSpec>& table, const TrainOptions& options);

// Returns the table of a run's model after choose_trained(), and throws like it.
std::vector<TensorSpec> table_of_run(const TrainOptions& options);

// Returns a line about which part of a model trains, or "" if all of it does.
std::string describe_trained(const Config& config, const std::vector<TensorSpec>& table);

// Returns the memory of a run in bytes. Throws like choose_trained(), and std::overflow_error.
MemoryNeed memory_of_run(const TrainOptions& options);

// Return a run's model, with gradients for the tensors that it trains, and the options of its steps.
Model model_to_train(const TrainOptions& options);
StepOptions step_options(const TrainOptions& options);

// Return the rows of a step, counted from 0, and its micro-batches. Reads the micro-batches now, so that a file error
// comes before the step.
StepRows step_rows(const TrainOptions& options, int64_t step);
MicroBatches micro_batches(const Dataset& data, const TrainOptions& options, int64_t step);
