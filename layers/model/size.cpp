#include "size.hpp"

#include <algorithm>
#include <string_view>

#include "model.hpp"
#include "profile.hpp"

namespace {

size_t bytes_of(size_t floats) { return checked_product({floats, sizeof(float)}); }
size_t padding_of(size_t floats) { return floats > 0 ? allocated_bytes(floats) - bytes_of(floats) : 0; }

// Of keys and values, also of a source of as many tokens.
size_t cache_floats(const Config& config, int tokens) {
  const size_t sides = config.crosses() ? 2 : 1;
  return checked_product({sides, size_t(config.n_layer), size_t(tokens), cache_width(config)});
}

}  // namespace

MemoryNeed memory_of_training(const Config& config, int B, const std::vector<TensorSpec>& table, size_t state,
                              size_t scratch) {
  Layout gradients(nullptr, table), activations;
  declare_model(gradients, config);
  declare_activations(activations, config, B, config.context, true);
  const size_t w = buffer_floats(table), g = gradients.size(), a = activations.size();
  const size_t cache = cache_floats(config, std::min(config.context, kSampleTokens));
  MemoryNeed need{bytes_of(w), bytes_of(g), bytes_of(a), bytes_of(state), bytes_of(scratch), bytes_of(cache),
                  padding_of(w) + padding_of(g) + padding_of(a) + padding_of(state) + padding_of(scratch) +
                      padding_of(cache),
                  bytes_of(g) > kMostBestCopy ? 0 : bytes_of(g)};
  const size_t later = need.cache + need.best;
  need.profile = std::max(bytes_of(profile_floats(config, table)), later) - later;
  return need;
}

MemoryNeed memory_of_training(const Config& config, int B) {
  Layout model;
  declare_model(model, config);
  return memory_of_training(config, B, model.table(), 0, 0);
}

MemoryNeed memory_of_inference(const Config& config, int B, int T) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, T, false);
  const size_t w = model.size(), a = activations.size(), cache = cache_floats(config, T);
  MemoryNeed need;
  need.weights = bytes_of(w);
  need.activations = bytes_of(a);
  need.cache = bytes_of(cache);
  need.padding = padding_of(w) + padding_of(a) + padding_of(cache);
  return need;
}

size_t count_parameters(const std::vector<TensorSpec>& table) {
  size_t n = 0;
  for (const TensorSpec& spec : table) n += spec.trained ? spec.size() : 0;
  return n;
}

size_t count_parameters(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  return count_parameters(layout.table());
}

namespace {

// The classifier, and the projections and the transform before it.
double multiply_adds_of_ends(const Config& c) {
  const double E = c.embedding_channels;
  const double C = c.channels;
  return c.vocab_size * E + (c.projects() ? 2 * E * C : 0) + (c.head_transform ? C * C : 0);
}

// Multiply-adds of the gates of norms that `counts` holds for.
template <class F>
double multiply_adds_of_gates(const Config& c, F counts) {
  Layout layout;
  declare_model(layout, c);
  double multiply_adds = 0;
  for (const TensorSpec& spec : layout.table())
    if (spec.role == Role::norm_gate && counts(spec))
      multiply_adds += rows_of_gate(spec, c) * static_cast<double>(spec.size());
  return multiply_adds;
}

// Multiply-adds of a stack's blocks, without the gates of norms.
double multiply_adds_of_blocks(const Config& c) {
  const double C = c.channels, F = c.hidden, width = static_cast<double>(c.n_head) * c.head_dim;
  const double qkv = double(c.qkv_width() + c.gate_width()) * C, o = width * C;
  const double ffn = c.experts_run() * (c.gated() ? 3 : 2) * F * C + c.experts * C;
  const double cross = c.crosses() ? qkv + o + 2 * width * c.context : 0;
  double multiply_adds = c.n_layer * (qkv + o + cross + ffn + c.branches() * multiply_adds_of_streams(c));
  for (int l = 0; l < c.n_layer; ++l) multiply_adds += 2 * width * keys_seen(c, l);  // q·k and P·v
  return multiply_adds;
}

}  // namespace

double rows_of_gate(const TensorSpec& spec, const Config& config) {
  const Config stack = spec.part.starts_with("encoder.") ? encoder_of(config) : config;
  if (spec.part.find(".streams.norm.") != spec.part.npos) return stream_count(stack);
  return spec.part.find("ffn.norm_inner.") != spec.part.npos ? stack.experts_run() : 1;
}

double flops_per_token(const Config& c) {
  double multiply_adds = multiply_adds_of_ends(c) + multiply_adds_of_gates(c, [](const TensorSpec&) { return true; });
  for (const Config& stack : stack_configs(c))
    multiply_adds += multiply_adds_of_blocks(stack) + multiply_adds_of_end(stack);
  return 3 * 2 * multiply_adds;
}

int expert_of(const TensorSpec& spec) {
  constexpr std::string_view kExpert = "ffn.expert.";  // also in an encoder
  const size_t at = spec.part.find(kExpert);
  return at == spec.part.npos ? -1 : std::stoi(spec.part.substr(at + kExpert.size()));
}

bool is_idle(const TensorSpec& spec, const Config& config) { return expert_of(spec) >= config.experts_per_token; }

size_t count_active_parameters(const Config& config, const std::vector<TensorSpec>& table) {
  size_t n = 0;
  for (const TensorSpec& spec : table) n += spec.trained && !is_idle(spec, config) ? spec.size() : 0;
  return n;
}

double flops_per_token(const Config& config, const std::vector<TensorSpec>& table) {
  double frozen = 0;  // multiply-adds
  for (const TensorSpec& spec : table) {
    const bool classifies = spec.role == Role::classifier || (config.tied && spec.name == "embedding.token.weight");
    const bool ends = spec.layer == kOutside && spec.role == Role::streams && multiply_adds_of_end(config) > 0;
    const bool multiplies = spec.layer != kOutside || classifies || is_outer_matrix(spec.role) || ends;
    if (spec.trained || spec.shape.size() != 2 || !multiplies) continue;
    const bool alone = ends || stream_rule(config) == StreamRule::gated;  // a number acts once on a token
    if (spec.role == Role::streams && !alone) frozen += multiply_adds_of_coefficients(config);
    else if (spec.role == Role::norm_gate) frozen += rows_of_gate(spec, config) * static_cast<double>(spec.size());
    else if (!is_idle(spec, config)) frozen += static_cast<double>(spec.size());
  }
  return flops_per_token(config) - 2 * frozen;
}

namespace {

// True if recomputation repeats a norm: all in the blocks, or those that come before matrices.
bool is_run_again(const TensorSpec& spec, const Config& c) {
  if (spec.layer == kOutside || c.recompute == Recompute::full) return spec.layer != kOutside;
  return spec.part.find("norm_out.") == spec.part.npos && spec.part.find("norm_sum.") == spec.part.npos;
}

// Multiply-adds of a stack that recomputation repeats, without the gates of norms.
double multiply_adds_run_again(const Config& c) {
  const double matrix = double(c.experts_run()) * c.hidden * c.channels;
  const double up = (c.gated() ? 2 : 1) * matrix + double(c.experts) * c.channels;
  const double writes = mixes(stream_rule(c)) ? multiply_adds_of_mixing(c) - double(stream_count(c)) * c.channels : 0;
  const double reads = multiply_adds_of_streams(c) - writes;
  if (c.recompute != Recompute::full) return c.n_layer * (up + c.branches() * reads);
  double multiply_adds = multiply_adds_of_blocks(c);
  for (int l = 0; l < c.n_layer; ++l)
    if (!branch_saves_end(c, l, "ffn")) multiply_adds -= matrix;  // down
  return multiply_adds;
}

}  // namespace

double flops_run_again(const Config& c) {
  double multiply_adds = multiply_adds_of_gates(c, [&](const TensorSpec& spec) { return is_run_again(spec, c); });
  for (const Config& stack : stack_configs(c)) multiply_adds += multiply_adds_run_again(stack);
  return c.recompute == Recompute::none ? 0 : 2 * multiply_adds;
}

// Queries see 1, 2, ... keys up to the window, and then always that many. The same on both sides if not causal.
double keys_seen(const Config& config, int layer) {
  const double T = config.context, window = config.window_of(layer), W = window > 0 && window < T ? window : T;
  const double up_to_itself = W * (T - (W - 1) / 2) / T;
  return config.causal() ? up_to_itself : 2 * up_to_itself - 1;
}
