#pragma once
// Fine-tuning: copies weights from a model whose norms may differ, and chooses what the user leaves open.

#include <string>

#include "data/options/options.hpp"
#include "layers/model/model.hpp"

// Copies the weights of another model by name. The tensors of norms may differ: drops norms that only `from` has, and
// keeps the values of norms (and adapters) that only `model` has. A shorter context takes the first of the learned
// positions. Returns a line about norms, or "". Throws std::runtime_error that names `path` if another tensor differs.
std::string copy_weights(Model& model, const Model& from, const std::string& path);

// Fills the weights of a model from a checkpoint as copy_weights() does. Reads them directly into the model if no norm
// differs. Merges adapters that the model does not have.
std::string start_from(Model& model, const std::string& checkpoint);

// Returns the peak learning rate for fine-tuning a model of this width, or its adapters if it has any. README.md has
// the measurements behind it.
double fine_tuning_rate(const Config& config);

// Returns the longest context with which a run's steps take at most half of this memory: the model's, or a half, a
// quarter, ... of it; 0 stands for an unknown amount. The run's Config is resolved.
int fitting_context(const TrainOptions& options, size_t memory);
