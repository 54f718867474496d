#pragma once
// Fine-tuning: copies weights from a model whose norms may differ.

#include <string>

#include "layers/model/model.hpp"

// Copies the weights of another model by name. The tensors of norms may differ: drops norms that only `from` has, and
// keeps the values of norms (and adapters) that only `model` has. Returns a line about norms, or "". Throws
// std::runtime_error that names `path` if another tensor differs.
std::string copy_weights(Model& model, const Model& from, const std::string& path);
