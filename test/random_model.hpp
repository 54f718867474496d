#pragma once
// Models with random numbers in every tensor, and their tensors by name.

#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "check.hpp"
#include "layers/model/model.hpp"

inline Model random_model(const Config& config) {
  Model model(config, false);
  const std::vector<float> values = random_floats(model.floats, 3);
  for (const TensorSpec& spec : model.table)
    std::copy_n(values.begin() + spec.offset, spec.size(), model.weights.get() + spec.offset);
  return model;
}

inline const float* tensor_of(const Model& model, const std::string& name) {
  for (const TensorSpec& spec : model.table)
    if (spec.name == name) return model.weights.get() + spec.offset;
  FAIL("no tensor " << name);
  return nullptr;
}
