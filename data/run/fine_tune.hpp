#pragma once
// Fine-tuning: weights from a model whose norms differ.

#include <string>

#include "layers/model/model.hpp"

// Copies the weights of another model by name. The tensors of norms may differ: those of `from` that fit nothing are
// dropped, those of `model` that are missing keep their values, as adapters do. Returns a line about norms, or "".
// Throws std::runtime_error, which names `path`, if another tensor differs.
std::string copy_weights(Model& model, const Model& from, const std::string& path);
