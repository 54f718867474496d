#pragma once
// One norm of any kind, with random parameters, for tests of norms.

#include "check.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/model/resolve.hpp"
#include "layers/norm/norm.hpp"

inline Config norm_config(NormKind kind, bool bias = false, float eps = 1e-5f, bool unit_offset = false) {
  Config c;
  c.norm = kind, c.norm_eps = eps, c.norm_bias = bias, c.norm_unit_offset = unit_offset;
  c.vocab_size = c.channels = c.n_head = 1, c.gated_norm_rank = 3;
  return resolve(c);
}

struct NormLayer {
  Config config;
  int N, C;
  std::vector<TensorSpec> table = {};
  Buffer weights, gradients, kept;
  Norm p = {}, g = {};
  NormSaved saved = {};

  NormLayer(const Config& c, int rows, int width) : config(c), N(rows), C(width) {
    const auto lay = [&](Buffer& buffer, auto declare) {
      Layout measure;
      declare(measure);
      buffer = allocate(measure.size());
      Layout layout(buffer.get());
      declare(layout);
      return layout.table();
    };
    table = lay(weights, [&](Layout& layout) { p = declare_norm(layout, config, "norm", C); });
    lay(gradients, [&](Layout& layout) { g = declare_norm(layout, config, "norm", C); });
    lay(kept, [&](Layout& layout) { saved = declare_norm_saved(layout, config, "norm", N, C); });
    for (const TensorSpec& spec : table) {  // random numbers around their start values
      const float mean = spec.start.mean, deviation = mean != 0 ? .3f * mean : .2f;
      set(spec, random_floats(spec.size(), 10 + spec.offset, mean, deviation));
    }
    for (int c = 0; p.running_var && c < C; ++c) p.running_var[c] = std::fabs(p.running_var[c]) + .1f;
  }

  const TensorSpec& row(const std::string& name) const {
    for (const TensorSpec& spec : table)
      if (spec.name == "norm." + name) return spec;
    throw std::out_of_range(name);
  }
  void set(const TensorSpec& spec, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), &weights[spec.offset]);
  }
  std::span<const float> weight(const TensorSpec& spec) const { return {&weights[spec.offset], spec.size()}; }
  std::span<const float> gradient(const TensorSpec& spec) const { return {&gradients[spec.offset], spec.size()}; }
  size_t size() const { return size_t(N) * C; }

  std::vector<float> forward(const std::vector<float>& x, bool training = true) {
    std::vector<float> y = garbage(size());
    CHECK(norm_forward(y.data(), saved, x.data(), p, N, C, training) == y.data());
    return y;
  }
  std::vector<float> backward(const std::vector<float>& dy, const std::vector<float>& x) {
    std::vector<float> dx = garbage(size());
    CHECK(norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C) == dx.data());
    return dx;
  }
  // Everything that a forward and a backward pass compute, running statistics included.
  std::vector<float> all() {
    const std::vector<float> x = random_floats(size(), 1, .5f), dy = random_floats(size(), 2);
    const std::vector<float> y = forward(x), dx = backward(dy, x);
    const std::vector<float> other = forward(x, false);
    std::vector<float> sums, state;
    for (const TensorSpec& spec : table)
      for (size_t i = 0; i < spec.size(); ++i)
        sums.push_back(gradient(spec)[i]), state.push_back(weight(spec)[i]);
    return joined({y, dx, other, sums, state});
  }
};
