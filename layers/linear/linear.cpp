#include "linear.hpp"

#include <cmath>

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"

namespace {

bool lists(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

// Returns the joint name of matrices with the same input.
std::string joined_name(const std::vector<LinearPart>& parts) {
  if (parts.size() == 1) return parts[0].name;
  return parts.size() == 3 ? "qkv" : "gate_up";
}

std::vector<Lora> declare_lora(Layout& layout, const Config& config, const std::string& prefix,
                               const std::vector<LinearPart>& parts, int in) {
  std::vector<Lora> adapters;
  if (config.lora_rank == 0) return adapters;
  const int r = config.lora_rank;
  // PEFT's a has this variance, too.
  const Start start{0, 1 / std::sqrt(3 * static_cast<float>(in))};
  const auto add = [&](const std::string& name, int begin, int out) {
    float* a = layout.take(name + ".lora_a", Role::adapter, {r, in}, start);
    float* b = layout.take(name + ".lora_b", Role::adapter, {out, r});
    adapters.push_back({a, b, begin, out, r, config.lora_alpha / static_cast<float>(r)});
  };
  const std::string joined = joined_name(parts);
  int rows = 0;
  bool any = false;
  for (const LinearPart& part : parts) {
    const bool adapts = lists(config.lora_on, part.name);
    if (adapts && !lists(config.lora_shared, joined)) add(prefix + "." + part.name, rows, part.out);
    rows += part.out;
    any = any || adapts;
  }
  if (any && lists(config.lora_shared, joined)) add(prefix + "." + joined, 0, rows);
  return adapters;
}

}  // namespace

Linear declare_linear(Layout& layout, const Config& config, const std::string& prefix,
                      const std::vector<LinearPart>& parts, int in) {
  std::vector<TensorSpec> weights, biases;
  for (const LinearPart& part : parts) {
    const std::string name = prefix + "." + part.name;
    const Start start = weight_start(config, part.role, part.out, in, prefix, part.growth);
    weights.push_back({name + ".weight", part.role, {part.out, in}, start});
    biases.push_back({name + ".bias", part.role, {part.out}, {}});
  }
  Linear p;
  p.matmul = config.matmul;
  const Matrix weight = layout.take_matrix(std::move(weights));
  p.weight = weight.data;
  p.numbers = weight.numbers;
  if (has_bias(config, parts[0].role)) p.bias = layout.take_joined(std::move(biases));
  p.lora = declare_lora(layout, config, prefix, parts, in);
  return p;
}

void linear_forward(float* y, const float* x, const Linear& p, const LinearShape& shape) {
  const auto [N, I, O] = shape;
  gemm_nt(y, x, p.weight, N, O, I, {.bias = p.bias, .matmul = p.matmul, .b = p.numbers});
}

void linear_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p,
                     const LinearShape& shape) {
  const int N = shape.N, I = shape.I, O = shape.O;
  parallel_together(size_t(N) * I * O, [&] {
    if (g.weight)  // y = x wᵀ: dw[o,i] = Σₙ dy[n,o] x[n,i]
      gemm_tn(g.weight, dy, x, O, I, N, {.accumulate = true, .matmul = p.matmul});
    if (g.bias) add_column_sums(g.bias, dy, N, O);  // y += b:   db[o] = Σₙ dy[n,o]
    // y = x wᵀ: dx[n,i] = Σₒ dy[n,o] w[o,i]
    gemm_nn(dx, dy, p.weight, N, I, O, {.matmul = p.matmul, .b = p.numbers});
  });
}
