#include "cost.hpp"

#include "layers/model/model.hpp"
#include "layers/model/size.hpp"
#include "layers/streams/stream_ends.hpp"

namespace {

size_t part_index(Role role) {
  size_t row = static_cast<size_t>(role);
  while (!*kRoles[row].part) --row;
  return row;
}

// True if each token is multiplied with the matrix. Streams are counted by themselves.
bool has_product(const TensorSpec& spec, const Config& config) {
  const bool multiplies = spec.layer != kOutside || is_outer_matrix(spec.role);
  return multiplies && spec.shape.size() == 2 && spec.role != Role::streams && !is_idle(spec, config);
}

// The matrices of a part in one block. Those with the same input are one product.
struct Product {
  double out = 0, in = 0;
  double share = 1;  // share of the rows; experts take theirs through products of their own

  void add(const TensorSpec& spec, const Config& config) {
    if (expert_of(spec) > 0 || spec.part.starts_with("ffn.shared.")) return;  // expert 0 stands for all
    if (expert_of(spec) == 0) share = static_cast<double>(config.experts_per_token) / config.experts;
    out += spec.shape[0];
    in = spec.shape[1];
  }
  // x, W (O,I) and y move once: 2·N·O·I operations on 4·(N·I + O·I + N·O) bytes.
  double intensity(double N) const { return out > 0 ? .5 / (1 / in + 1 / out + 1 / (share * N)) : 0; }
};

void add_matrices(std::vector<PartCost>& parts, const Config& config, double N) {
  Product products[std::size(kRoles)];
  Layout layout;
  declare_model(layout, config);
  for (const TensorSpec& spec : layout.table()) {
    if (!spec.trained) continue;
    const size_t row = part_index(spec.role);
    parts[row].parameters += static_cast<double>(spec.size());
    if (!has_product(spec, config)) continue;
    const bool gate = spec.role == Role::norm_gate;
    parts[row].multiply_adds += (gate ? rows_of_gate(spec, config) : 1) * static_cast<double>(spec.size());
    if (gate) products[row] = {static_cast<double>(spec.shape[0]), static_cast<double>(spec.shape[1])};  // either one
    else if (spec.layer == 0 && spec.role != Role::adapter) products[row].add(spec, config);
  }
  const double C = config.channels, E = config.embedding_channels, V = config.vocab_size;
  parts[part_index(Role::classifier)].multiply_adds += V * E;  // tied or not
  products[part_index(Role::classifier)] = {V, E};
  if (config.projects()) products[part_index(Role::projection)] = {C, E};  // (C,E) and (E,C) are alike
  if (config.head_transform) products[part_index(Role::transform)] = {C, C};
  for (size_t row = 0; row < parts.size(); ++row) parts[row].intensity = products[row].intensity(N);
}

void add_activations(std::vector<PartCost>& parts, const Config& config, int B) {
  Layout layout;
  declare_activations(layout, config, B, config.context, true);
  for (const TensorSpec& spec : layout.table()) parts[part_index(spec.role)].floats += static_cast<double>(spec.size());
  for (PartCost& part : parts) part.floats /= static_cast<double>(B) * config.context;
}

// Streams are mixed with K coefficients: K·C products of a branch that moves (3·S + 2)·C numbers. Attention over depth
// has 3·K·C products of a branch that reads K sums and writes one.
void add_streams(PartCost& part, const Config& config) {
  for (const Config& stack : stack_configs(config)) {
    if (multiply_adds_of_mixing(stack) == 0) continue;
    const double S = stream_count(stack), sums = sums_read(stack), K = streams_of(stack).coefficients();
    part.multiply_adds += stack.branches() * stack.n_layer * multiply_adds_of_streams(stack);
    part.multiply_adds += multiply_adds_of_end(stack);
    part.intensity = is_attnres(stream_rule(stack)) ? .5 * 3 * sums / (sums + 1) : .5 * K / (3 * S + 2);
  }
}

// q·k and P·v, which have no matrices of their own. They move q, k, v and the output.
void add_attention(PartCost& part, const Config& config) {
  const double width = static_cast<double>(config.n_head) * config.head_dim;
  double keys = 0, layers = 0;  // in all of attention and cross attention together
  for (const Config& stack : stack_configs(config)) {
    for (int l = 0; l < stack.n_layer; ++l) keys += keys_seen(stack, l);
    if (stack.crosses()) keys += static_cast<double>(stack.n_layer) * stack.context;
    layers += stack.n_layer * (stack.branches() - 1);
  }
  part.multiply_adds = 2 * width * keys;
  part.intensity = width * keys / layers / (config.qkv_width() + width);
}

}  // namespace

std::vector<PartCost> cost_of_parts(const Config& config, int B) {
  std::vector<PartCost> parts;
  for (const RoleRow& row : kRoles) parts.push_back({row.role, row.part});
  add_activations(parts, config, B);
  add_matrices(parts, config, static_cast<double>(B) * config.context);
  add_streams(parts[part_index(Role::streams)], config);
  add_attention(parts[part_index(Role::attention)], config);
  return parts;
}
