#pragma once
// Fine-tuning: the tensors that train, their learning rates, and weights from a model whose norms differ.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "layers/model/model.hpp"
#include "layers/model/size.hpp"

// Applies --train-only, --freeze, learning rates and the optimizer to the table of a model. Throws
// std::invalid_argument if a pattern is no regular expression or matches no tensor, or if nothing is left.
void choose_trained(std::vector<TensorSpec>& table, const TrainOptions& options);

// A line about what trains of a model, or "" if all does.
std::string describe_trained(const Model& model);

// The memory of a run in bytes. Throws like choose_trained(), and std::overflow_error.
MemoryNeed memory_of_run(const TrainOptions& options);

// Copies the weights of another model by name. The tensors of norms may differ: those of `from` that fit nothing are
// dropped, those of `model` that are missing keep their values, as adapters do. Returns a line about norms, or "".
// Throws std::runtime_error, which names `path`, if another tensor differs.
std::string copy_weights(Model& model, const Model& from, const std::string& path);
