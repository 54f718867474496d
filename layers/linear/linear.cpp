#include "linear.hpp"

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/reductions.hpp"

Linear declare_linear(Layout& layout, const Config& config, const std::string& prefix,
                      const std::vector<LinearPart>& parts, int in) {
  std::vector<TensorSpec> weights, biases;
  for (const LinearPart& part : parts) {
    const std::string name = prefix + "." + part.name;
    weights.push_back({name + ".weight", part.role, {part.out, in}, weight_start(config, part.role, part.out, in)});
    biases.push_back({name + ".bias", part.role, {part.out}, {}});
  }
  Linear p;
  p.matmul = config.matmul;
  p.weight = layout.take_joined(std::move(weights));
  if (has_bias(config, parts[0].role)) p.bias = layout.take_joined(std::move(biases));
  return p;
}

void linear_forward(float* y, const float* x, const Linear& p, int N, int I, int O) {
  gemm_nt(y, x, p.weight, N, O, I, {.bias = p.bias, .matmul = p.matmul});
}

void linear_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p, int N, int I,
                     int O) {
  if (g.weight)  // y = x wᵀ: dw[o,i] = Σₙ dy[n,o] x[n,i]
    gemm_tn(g.weight, dy, x, O, I, N, {.accumulate = true, .matmul = p.matmul});
  if (g.bias) add_column_sums(g.bias, dy, N, O);  // y += b:   db[o] = Σₙ dy[n,o]
  gemm_nn(dx, dy, p.weight, N, I, O, {.matmul = p.matmul});  // y = x wᵀ: dx[n,i] = Σₒ dy[n,o] w[o,i]
}
