#pragma once
// All parameters of a model, or all gradients: numbers in the layout of the product's table of tensors.

#include "layers/model/model.hpp"
#include "branch.hpp"

namespace textbook {

template <class Number>
struct Parameters {
  const ::Model& model;
  bool training;
  std::vector<Number> numbers;

  // The numbers here of the tensor that the product's model has at w; null for null.
  Number* at(const float* w) { return w ? &numbers[w - model.weights.get()] : nullptr; }

  Norm<Number> norm(const ::Norm& n) {
    return {n.kind, n.eps, at(n.gain), at(n.bias), n.unit_offset, at(n.alpha), at(n.shift),
            at(n.running_mean), at(n.running_var), training};
  }
  Branch<Number> branch(const ::Branch& b) {
    return {norm(b.norm_in), norm(b.norm_out), norm(b.norm_sum), {at(b.gain.weight), b.gain.single}, b.skip, b.in_scale};
  }
};

}  // namespace textbook
