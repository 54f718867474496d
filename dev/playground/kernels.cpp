#include "kernels.hpp"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "layers/attention/attention.hpp"
#include "layers/config/placements.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/feed_forward/activation.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/simd.hpp"
#include "layers/model/model.hpp"
#include "layers/norm/norm.hpp"
#include "layers/training/run_optimizer.hpp"

namespace {

// Uniform in [-1, 1). Normal numbers would take a logarithm and a cosine of the C library.
void fill(float* x, size_t n, const char* name) {
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(2 * rng::uniform(rng::word(name), i) - 1);
}
std::vector<float> numbers(size_t n, const char* name) {
  std::vector<float> x(n);
  fill(x.data(), n, name);
  return x;
}

class Hashes {
 public:
  std::string lines;

  void add(const std::string& name, bool libm, const float* x, size_t n) {
    uint64_t hash = rng::word("");
    const auto* bytes = reinterpret_cast<const unsigned char*>(x);
    for (size_t i = 0; i < n * sizeof(float); ++i) hash = rng::word_byte(hash, bytes[i]);
    char line[160];
    std::snprintf(line, sizeof line, "%-28s %s %016llx\n", name.c_str(), libm ? "libm " : "exact",
                  static_cast<unsigned long long>(hash));
    lines += line;
  }
  void add(const std::string& name, bool libm, const std::vector<float>& x) { add(name, libm, x.data(), x.size()); }
};

Config small_config() {
  Config config;
  config.n_layer = 2, config.channels = 48, config.n_head = 4, config.context = 32, config.vocab_size = 65;
  config.position = Position::none;  // tables of positions are sines and cosines of the C library
  return config;
}

void add_products(Hashes& hashes) {
  const struct {
    const char* name;
    decltype(&gemm_nt) product;
  } products[] = {{"gemm_nt", gemm_nt}, {"gemm_nn", gemm_nn}, {"gemm_tn", gemm_tn}};
  const struct {
    int M, N, K;
  } sizes[] = {{1, 256, 64}, {33, 47, 65}, {128, 384, 128}, {256, 65, 300}};
  for (const auto& [name, product] : products)
    for (const auto& [M, N, K] : sizes) {
      std::vector<float> c = numbers(size_t(M) * N, "c"), bias = numbers(N, "bias");
      const std::vector<float> a = numbers(size_t(M) * K, "a"), b = numbers(size_t(N) * K, "b");
      GemmOptions options;
      options.bias = bias.data();
      product(c.data(), a.data(), b.data(), M, N, K, options);
      options = {};
      options.accumulate = true;
      product(c.data(), a.data(), b.data(), M, N, K, options);
      hashes.add(name + (" " + std::to_string(M)) + "x" + std::to_string(N) + "x" + std::to_string(K), false, c);
    }
}

void add_functions(Hashes& hashes) {
  const struct {
    const char* name;
    simd::Vec (*f)(simd::Vec);
  } functions[] = {{"exp", simd::exp},   {"sigmoid", simd::sigmoid}, {"tanh", simd::tanh},
                   {"erf", simd::erf},   {"erfc", simd::erfc},       {"sqrt of |x|", [](simd::Vec x) {
                      return simd::sqrt(simd::abs(x));
                    }}};
  for (const auto& [name, f] : functions) {
    std::vector<float> x = numbers(4096, name);
    for (size_t i = 0; i < x.size(); i += simd::W) simd::store(&x[i], f(simd::load(&x[i]) * 12.f));
    hashes.add(name, false, x);
  }
}

void add_norms(Hashes& hashes) {
  const int N = 37, C = 70;
  for (const auto& row : kNormKinds) {
    Config config = small_config();
    config.norm = row.value;
    config = resolve(config);
    Layout sizes;
    declare_norm(sizes, config, "norm", C);
    std::vector<float> weights = numbers(sizes.size(), "weights"), gradients = numbers(sizes.size(), "gradients");
    Layout on_weights(weights.data()), on_gradients(gradients.data());
    const Norm p = declare_norm(on_weights, config, "norm", C), g = declare_norm(on_gradients, config, "norm", C);
    Layout saved_sizes;
    declare_norm_saved(saved_sizes, config, "norm", N, C);
    std::vector<float> memory(saved_sizes.size());
    Layout on_memory(memory.data());
    const NormSaved saved = declare_norm_saved(on_memory, config, "norm", N, C);
    const std::vector<float> x = numbers(size_t(N) * C, "x"), dy = numbers(size_t(N) * C, "dy");
    std::vector<float> y(x.size()), dx(x.size());
    norm_forward(y.data(), saved, x.data(), p, N, C, true);
    norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C);
    hashes.add(row.name, false, y);
    hashes.add(std::string(row.name) + " dx", false, dx);
    hashes.add(std::string(row.name) + " gradients", false, gradients);
  }
}

void add_activations(Hashes& hashes) {
  const int N = 23, F = 45;
  for (const auto& row : kActivations) {
    const size_t inputs = size_t(N) * F * (is_gated(row.value) ? 2 : 1);
    const std::vector<float> x = numbers(inputs, "x"), dy = numbers(size_t(N) * F, "dy");
    std::vector<float> y(dy.size()), dx(x.size());
    activation_forward(y.data(), x.data(), row.value, N, F);
    activation_backward(dx.data(), dy.data(), x.data(), row.value, N, F);
    hashes.add(row.name, false, y);
    hashes.add(row.name + std::string(" dx"), false, dx);
  }
}

void add_attention(Hashes& hashes) {
  const std::vector<float> slopes = {.5f, .25f, .125f, .0625f};
  AttentionShape plain{2, 150, 4, 2, 16}, capped = plain, windowed = plain, biased = plain;
  capped.cap = 2, windowed.window = 40, biased.slopes = slopes.data();
  const std::vector<std::pair<const char*, AttentionShape>> shapes = {
      {"attention", plain}, {"attention, cap", capped}, {"attention, window", windowed}, {"attention, ALiBi", biased}};
  for (const auto& [name, shape] : shapes) {
    const size_t N = size_t(shape.B) * shape.T;
    const std::vector<float> qkv = numbers(N * shape.qkv_width(), "qkv"), dout = numbers(N * shape.width(), "dout");
    std::vector<float> out(dout.size()), lse(N * shape.n_head), dqkv(qkv.size());
    attention_forward(out.data(), lse.data(), qkv.data(), shape, {}, 0);
    attention_backward(dqkv.data(), dout.data(), out.data(), lse.data(), qkv.data(), shape, {}, 0);
    hashes.add(name, false, out);
    hashes.add(std::string(name) + " lse", true, lse);  // a logarithm
    hashes.add(std::string(name) + " dqkv", true, dqkv);
  }
}

void add_cross_entropy(Hashes& hashes) {
  const int N = 50, V = 65;
  std::vector<float> logits = numbers(size_t(N) * V, "logits"), losses(N), dlogits(logits.size());
  std::vector<int> targets(N);
  for (int n = 0; n < N; ++n) targets[n] = n % V;
  cross_entropy(losses.data(), dlogits.data(), logits.data(), targets.data(), 1.f / N, N, V);
  hashes.add("cross-entropy", true, losses);  // a logarithm
  hashes.add("cross-entropy dlogits", false, dlogits);
}

// A step of each optimizer. AdamW and Adafactor, which Muon uses for vectors, take powers with the C library.
void add_optimizers(Hashes& hashes) {
  for (const RunOptimizer& row : run_optimizers()) {
    Model model(small_config());
    assign_optimizers(model.table, row.rows);
    fill(model.weights.get(), model.floats, "weights");
    fill(model.gradients.get(), model.gradient_floats, "gradients");
    Buffer state = allocate(state_floats(model.table)), scratch = allocate(scratch_floats(model.table));
    OptimizerOptions options;
    for (const Optimizer* optimizer : optimizers_of(model.table))
      optimizer->update({model.weights.get(), state.get(), model.gradients.get(), scratch.get()},
                        tensors_of(model.table, *optimizer), options, {1e-2f, .5f, 1});
    const bool libm = row.rows.front() != &kSgd && row.rows.front() != &kLion;
    hashes.add(row.title, libm, model.weights.get(), model.floats);
  }
}

// Gradients of a whole model under each placement; attention's backward takes a logarithm.
void add_models(Hashes& hashes) {
  for (const Placement& row : placements()) {
    Config config = small_config();
    config.placement = row.name;
    Model model(config);
    fill(model.weights.get(), model.floats, "weights");
    const int B = 2, T = 32;
    const Activations a = allocate_activations(model.config, B, T, true);
    std::vector<int> tokens(size_t(B) * T), targets(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int>(i * 7 % 65);
      targets[i] = (tokens[i] + 7) % 65;
    }
    model_loss_and_gradients(model, a, {tokens.data(), targets.data(), B, T}, 1.f / (B * T), {});
    hashes.add(std::string("model, ") + row.name, true, model.gradients.get(), model.gradient_floats);
  }
}

}  // namespace

std::string kernel_hashes() {
  Hashes hashes;
  for (const auto& add : {add_products, add_functions, add_norms, add_activations, add_attention, add_cross_entropy,
                          add_optimizers, add_models})
    add(hashes);
  return hashes.lines;
}
