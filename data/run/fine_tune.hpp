#pragma once
// Fine-tuning: the tensors that train, their learning rates, and weights from a model whose norms differ.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "layers/model/model.hpp"

// Applies --train-only, --freeze and --norm-lr to a table of tensors. Returns a line about what trains, "" if all does.
// Throws std::invalid_argument if a pattern is not a regular expression or matches no tensor, or if nothing is left.
std::string choose_trained(std::vector<TensorSpec>& table, const TrainOptions& options);

// Copies the weights of another model by name. The tensors of norms may differ: those of `from` that fit nothing are
// dropped, those of `model` that are missing keep their values. Returns a line about them, "" if there are none. Throws
// std::runtime_error, which names `path`, if another tensor differs.
std::string copy_weights(Model& model, const Model& from, const std::string& path);
