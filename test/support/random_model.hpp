#pragma once
// Models with random numbers in every tensor, and their tensors by name.

#include <algorithm>
#include <cmath>
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

// Gains 1 ± .3, biases ± .1, and matrices and alphas large enough that attention is far from uniform. An alpha of ½
// would halve the input of DyT and Derf: after several of them, the values of all keys are nearly the same, and the
// gradients of queries and keys are little more than rounding errors. The skip path's factor enlarges the input of
// norm_sum, and would saturate them; Admin's gains are near 1. A gate of GPAS of .7 halves the stream. Factors of a
// warm-up are near .7, too.
inline void randomize(Model& model) {
  for (const TensorSpec& spec : model.table) {
    const bool matrix = spec.shape.size() > 1, scale = spec.name.ends_with(".scale.gain");  // a scale may start at 0
    const bool alpha = spec.name.ends_with(".alpha"),
               gate = spec.name.ends_with(".gpas.gate") || spec.name.ends_with(".branch_warmup");
    const float reads = spec.name.ends_with(".norm_sum.alpha") ? float(*model.config.skip_scale) : 1;
    const float mean = matrix ? 0 : scale ? 1 : alpha ? .8f / reads : gate ? .7f : spec.start.mean;
    const float vector = mean != 0 ? .3f * mean : .1f;
    const float deviation = matrix ? std::sqrt(2.f / (spec.shape[0] + spec.shape[1])) : vector;
    const bool mixes = spec.role == Role::streams && !matrix;  // some start at .01
    std::vector<float> w = random_floats(spec.size(), spec.offset + 1, mean, mixes ? .3f : deviation);
    for (size_t i = 0; i < w.size(); ++i) w[i] += spec.start.is_one(i);
    if (!spec.trained && mean > 0)  // a variance
      for (float& v : w) v = std::fabs(v) + .1f;
    std::copy(w.begin(), w.end(), model.weights.get() + spec.offset);
  }
}
