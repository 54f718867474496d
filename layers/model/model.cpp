#include "model.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/embedding/embedding.hpp"
#include "layers/feed_forward/activation.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/reductions.hpp"

// ---- tensors ---------------------------------------------------------------------------------------------

namespace {

// A linear layer that other programs read.
void declare_kept(Layout& layout, const std::string& name, int out, int in) {
  layout.take_untrained(name + ".weight", Role::transform, {out, in}, 0);
  layout.take_untrained(name + ".bias", Role::transform, {out}, 0);
}

}  // namespace

ModelTensors declare_model(Layout& layout, const Config& config) {
  const int V = config.vocab_size, C = config.channels, E = config.embedding_channels;
  const Start embedding = weight_start(config, Role::embedding, V, E);
  ModelTensors p;
  p.token = layout.take_matrix({{"embedding.token.weight", Role::embedding, {V, E}, embedding}});
  if (config.projects())
    p.project_in = declare_linear(layout, config, "embedding", {{"project", Role::projection, C}}, E);
  if (config.position == Position::learned)
    p.position = layout.take("embedding.position.weight", Role::embedding, {config.context, C}, embedding);
  if (config.token_types > 0)
    p.types = layout.take("embedding.token_type.weight", Role::embedding, {config.token_types, C}, embedding);
  if (config.embedding_norm) p.embedding_norm = declare_norm(layout, config, "embedding.norm", C);
  for (int l = 0; l < config.n_layer; ++l) p.blocks.push_back(declare_block(layout, config, l));
  if (*config.final_norm) p.final_norm = declare_norm(layout, config, "final_norm", C);
  if (config.head_transform) {
    p.transform = declare_linear(layout, config, "head", {{"transform", Role::transform, C}}, C);
    p.transform_norm = declare_norm(layout, config, "head.norm", C);
  }
  if (config.projects())
    p.project_out = declare_linear(layout, config, "head", {{"project", Role::projection, E}}, C);
  if (!config.tied) p.head = layout.take_matrix({{"head.weight", Role::classifier, {V, E}, embedding}});
  if (config.head_bias) p.head_bias = layout.take("head.bias", Role::classifier, {V});
  if (config.pooler >= Pooler::dense) declare_kept(layout, "pooler", C, C);
  if (config.pooler >= Pooler::next_sentence) declare_kept(layout, "next_sentence", 2, C);
  return p;
}

namespace {

std::vector<TensorSpec> table_of(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  return layout.table();
}

NumberType frozen_numbers(const std::vector<TensorSpec>& table) {
  const auto found = std::ranges::find_if(table, [](const auto& spec) { return spec.numbers != NumberType::fp32; });
  return found == table.end() ? NumberType::fp32 : found->numbers;
}

}  // namespace

Model::Model(const Config& config, bool training) : Model(config, table_of(resolve(config)), training) {}

Model::Model(const Config& c, std::vector<TensorSpec> rows, bool training)
    : config(resolve(c)), table(std::move(rows)), floats(buffer_floats(table)), weights(allocate(floats)) {
  Layout on_weights(weights.get(), table, frozen_numbers(table));
  p = declare_model(on_weights, config);
  if (training) allocate_gradients(*this);
  load.resize(size_t(config.n_layer) * config.experts);
  ropes = RopeTables(config);
  if (config.position == Position::sinusoidal) sinusoids = ::sinusoids(config.context, config.channels);
  if (config.position == Position::alibi) slopes = alibi_slopes(config.n_head);
}

void allocate_gradients(Model& model) {
  Layout layout(nullptr, model.table);
  declare_model(layout, model.config);
  model.gradient_floats = layout.size();
  for (size_t i = 0; i < model.table.size(); ++i) model.table[i].gradient = layout.table()[i].gradient;
  Buffer gradients = allocate(layout.size());
  swap_gradients(model, gradients);
}

void keep_frozen(std::vector<TensorSpec>& table, const Config& config, NumberType numbers) {
  Layout layout(nullptr, table, numbers);
  declare_model(layout, config);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i].offset = layout.table()[i].offset;
    table[i].numbers = layout.table()[i].numbers;
  }
}

void swap_gradients(Model& model, Buffer& gradients) {
  std::swap(model.gradients, gradients);
  Layout layout(model.gradients.get(), model.table);
  model.g = declare_model(layout, model.config);
}

namespace {

void merge(Linear& p, int inputs) {
  if (p.numbers != NumberType::fp32) throw std::logic_error("adapters are added to floats only");
  lora_merge(p.weight, p.lora, inputs);
  p.lora.clear();
}

}  // namespace

Model merged(Model model) {
  const Config& config = model.config;
  for (Block& block : model.p.blocks) {
    merge(block.attention.qkv, config.channels);
    merge(block.attention.o, Attention::inner_width(config));
    merge(block.ffn.up, config.channels);
    merge(block.ffn.down, config.hidden);
  }
  model.config = config.without_lora();
  std::erase_if(model.table, [](const TensorSpec& spec) { return spec.role == Role::adapter; });
  return model;
}

void initialize(Model& model, uint64_t seed) { initialize(model, seed, model.table); }

void initialize(Model& model, uint64_t seed, const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& spec : tensors) {
    const uint64_t key = rng::key({seed, rng::word(spec.name)});
    const Start start = spec.start;
    const auto value = [=](size_t i) {
      if (start.is_one(i)) return 1.f;
      return start.deviation == 0 ? start.mean
                                  : start.mean + start.deviation * static_cast<float>(rng::normal(key, i));
    };
    const size_t size = spec.size();
    constexpr size_t kChunk = 1 << 10, kCost = 100;  // a normal number costs a logarithm, a root and a cosine
    as_numbers(model.weights.get() + spec.offset, spec.numbers, [&]<class Number>(Number* numbers) {
      parallel_for(static_cast<int>((size + kChunk - 1) / kChunk), 1, kCost * kChunk, [&](int begin, int end) {
        for (size_t i = begin * kChunk; i < std::min(size, end * kChunk); ++i) numbers[i] = rounded<Number>(value(i));
      });
    });
  }
}

namespace {

TransformSaved declare_transform_saved(Layout& layout, const Config& config, int N) {
  const std::vector<int> shape = {N, config.channels};
  TransformSaved saved;
  saved.up = layout.take("head.transform", Role::transform, shape);
  saved.active = layout.take("head.activation", Role::activation, shape);
  saved.norm = declare_norm_saved(layout, config, "head.norm", N, config.channels);
  saved.y = layout.take("head.norm", Role::norm, shape);
  return saved;
}

}  // namespace

// B·T and T·C fit into ints, because a larger step would not fit into any machine's memory.
Activations declare_activations(Layout& layout, const Config& config, int B, int T, bool training) {
  const int C = config.channels, E = config.embedding_channels, V = config.vocab_size;
  constexpr size_t kMost = 0x7fffffff;
  const size_t S = static_cast<size_t>(stream_count(config)), widest = static_cast<size_t>(std::max(C, E));
  if (checked_product({S, size_t(B), size_t(T)}) > kMost || checked_product({size_t(T), widest}) > kMost)
    throw std::overflow_error("a batch of " + std::to_string(B) + " x " + std::to_string(T) +
                              " tokens is too large: lower the batch or the context");
  const int N = B * T;
  Activations a;
  if (config.projects()) a.token = layout.take("embedding.token", Role::projection, {N, E});
  a.embedded = layout.take("embedding", Role::embedding, {N, C});
  a.x = a.embedded;
  if (config.embedding_norm) {
    a.embedding_norm = declare_norm_saved(layout, config, "embedding.norm", N, C);
    a.x = layout.take("embedding.norm", Role::norm, {N, C});
  }
  const int wide = static_cast<int>(S) * N;  // rows of all streams
  a.streams = S > 1 ? layout.take("streams", Role::residual, {wide, C}) : a.x;
  for (int l = 0; l < config.n_layer; ++l)
    a.blocks.push_back(declare_block_saved(layout, config, l, B, T, training));
  a.end = declare_streams_end(layout, config, N);
  if (config.head_transform) a.transform = declare_transform_saved(layout, config, N);
  if (config.projects()) a.narrow = layout.take("head.project", Role::projection, {N, E});
  a.losses = layout.take("loss", Role::classifier, {N});
  a.logits = layout.take("scratch.logits", Role::logits, {classifier_rows(N, V), V});
  a.carried = declare_carried(layout, config, a.x, N, training);
  if (training) a.d = layout.take("scratch.gradient", Role::scratch, {wide, C});
  if (training && config.projects()) a.dnarrow = layout.take("scratch.narrow_gradient", Role::scratch, {N, E});
  a.scratch = declare_block_scratch(layout, config, B, T, training);
  a.table = layout.table();
  return a;
}

Activations allocate_activations(const Config& config, int B, int T, bool training) {
  Layout measure;
  declare_activations(measure, config, B, T, training);
  Buffer buffer = allocate(measure.size());
  Layout layout(buffer.get());
  Activations a = declare_activations(layout, config, B, T, training);
  a.buffer = std::move(buffer);
  return a;
}

// ---- forward ---------------------------------------------------------------------------------------------

namespace {

// The context that all blocks of a pass share.
BlockContext block_context(const Model& model, const Activations& a, const Batch& batch, const Dropout& dropout) {
  return {.config = model.config, .ropes = model.ropes, .scratch = a.scratch, .B = batch.B, .T = batch.T,
          .dropout = dropout, .slopes = model.slopes.get(), .carried = a.carried, .begins = batch.begins};
}

// A block's x is the previous block's y.
const float* input_of(const Activations& a, int layer) { return layer == 0 ? a.streams : a.blocks[layer - 1].ffn.y; }

// Writes the embedding of each token (N,C), without its position.
void embed(const Model& model, const Activations& a, const int* tokens, int N) {
  const int C = model.config.channels, E = model.config.embedding_channels;
  const auto [weight, numbers] = model.p.token;
  embedding_forward(a.token ? a.token : a.embedded, tokens, weight, N, E,
                    static_cast<float>(*model.config.embedding_scale), numbers);
  if (a.token) linear_forward(a.embedded, a.token, model.p.project_in, {N, E, C});
}

// Runs everything below the head and returns the end of the stream (N,C).
const float* forward(const Model& model, const Activations& a, const int* tokens, BlockContext context,
                     const ModelCache* cache, int first = 0) {
  const Config& config = model.config;
  const int B = context.B, T = context.T, N = B * T, C = config.channels, past = cache ? cache->past : 0;

  embed(model, a, tokens, N);
  const float* positions = model.p.position ? model.p.position : model.sinusoids.get();
  if (positions) position_forward(a.embedded, positions, {B, T, past, context.begins}, C);
  if (model.p.types) add_to_rows(a.embedded, model.p.types, N, C);  // every token has the first type
  norm_forward(a.x, a.embedding_norm, a.embedded, model.p.embedding_norm, N, C, context.training);
  dropout_apply(a.x, context.dropout, 0, DropoutSite::embedding, B, T, C);
  if (a.streams != a.x) streams_begin(a.streams, a.x, stream_count(config), N, C);

  for (int l = 0; l < config.n_layer; ++l) {
    context.layer = l;
    if (cache) context.cache = {cache->layer(config, l, first), past, cache->T};
    block_forward(a.blocks[l], input_of(a, l), model.p.blocks[l], context);
  }
  return streams_end(a.end, input_of(a, config.n_layer), model.p.final_norm, N, C, context.training);
}

// Returns the classifier's input (N,E) from the end of the stream.
const float* head_input(const Model& model, const Activations& a, const float* h, int N, bool training = false) {
  const Config& c = model.config;
  const int C = c.channels;
  if (c.head_transform) {
    const TransformSaved& t = a.transform;
    linear_forward(t.up, h, model.p.transform, {N, C, C});
    activation_forward(t.active, t.up, c.activation, N, C);
    h = norm_forward(t.y, t.norm, t.active, model.p.transform_norm, N, C, training);
  }
  if (!a.narrow) return h;
  linear_forward(a.narrow, h, model.p.project_out, {N, C, c.embedding_channels});
  return a.narrow;
}

// The classifier's parameters, or their gradients.
Head head_of(const Model& model, const ModelTensors& t) {
  const Config& c = model.config;
  const Matrix& weight = t.head ? t.head : t.token;
  return {{weight.data, t.head_bias, c.matmul, {}, weight.numbers},
          {c.logit_cap, c.z_loss, c.logit_scale, c.label_smoothing}};
}

double sum(const float* x, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) s += static_cast<double>(x[i]);
  return s;
}

}  // namespace

const float* model_features(const Model& model, const Activations& a, const Batch& batch) {
  return forward(model, a, batch.tokens, block_context(model, a, batch, {}), nullptr);
}

void batch_logits(float* logits, const Model& model, const Activations& a, const Batch& batch) {
  const int N = batch.B * batch.T;
  const float* h = head_input(model, a, model_features(model, a, batch), N);
  head_forward(logits, h, head_of(model, model.p), N, model.config.embedding_channels, model.config.vocab_size);
}

double model_loss(const Model& model, const Activations& a, const Batch& batch) {
  const int N = batch.B * batch.T;
  const float* h = head_input(model, a, model_features(model, a, batch), N);
  classifier({a.losses, a.logits}, nullptr, {}, h, head_of(model, model.p), batch.targets, 1,
             {N, model.config.embedding_channels, model.config.vocab_size});
  return sum(a.losses, N);
}

// ---- backward --------------------------------------------------------------------------------------------

namespace {

// Computes the losses, and writes the gradient of the end of the stream, h.
void head_backward(Model& model, const Activations& a, const float* h, const Batch& batch, float scale) {
  const Config& config = model.config;
  const int N = batch.B * batch.T, C = config.channels, E = config.embedding_channels;
  float* d = a.narrow ? a.dnarrow : a.d;
  classifier({a.losses, a.logits}, d, head_of(model, model.g), head_input(model, a, h, N, true),
             head_of(model, model.p), batch.targets, scale, {N, E, config.vocab_size});
  const TransformSaved& t = a.transform;
  if (a.narrow) linear_backward(a.d, model.g.project_out, d, t.y ? t.y : h, model.p.project_out, {N, C, E});
  if (!config.head_transform) return;
  norm_backward(a.d, model.g.transform_norm, a.d, t.active, t.norm, model.p.transform_norm, N, C);
  activation_backward(t.active, a.d, t.up, config.activation, N, C);
  linear_backward(a.d, model.g.transform, t.active, h, model.p.transform, {N, C, C});
}

// Reads the gradient of the embedding of each token, without its position.
void embed_backward(Model& model, const Activations& a, const int* tokens, int N) {
  const int C = model.config.channels, E = model.config.embedding_channels;
  if (a.token) linear_backward(a.dnarrow, model.g.project_in, a.d, a.token, model.p.project_in, {N, E, C});
  if (model.g.token)
    embedding_backward(model.g.token, tokens, a.token ? a.dnarrow : a.d, N, E,
                       static_cast<float>(*model.config.embedding_scale));
}

}  // namespace

double model_loss_and_gradients(Model& model, const Activations& a, const Batch& batch, LossScale scale,
                                const Dropout& dropout, Observer* observer) {
  const Config& config = model.config;
  const int B = batch.B, T = batch.T, N = B * T, C = config.channels;
  BlockContext context = block_context(model, a, batch, dropout);
  context.training = true;
  context.router_scale = scale.tokens;
  context.load = model.load.data();
  const float* h = forward(model, a, batch.tokens, context, nullptr);

  float* d = a.d;  // the gradient of the stream, from the classifier down to the embedding
  head_backward(model, a, h, batch, scale.targets);
  if (observer) observer->outside(a, input_of(a, config.n_layer), batch);
  streams_end_backward(d, model.g.final_norm, input_of(a, config.n_layer), a.end, model.p.final_norm, N, C);
  context.load = nullptr;  // the experts' choices have been counted
  for (int l = config.n_layer - 1; l >= 0; --l) {
    context.layer = l;
    if (config.recompute > Recompute::none) block_recompute(a.blocks[l], input_of(a, l), model.p.blocks[l], context);
    if (observer) observer->block(l, input_of(a, l), a.blocks[l], d, batch);
    block_backward(d, model.g.blocks[l], input_of(a, l), a.blocks[l], model.p.blocks[l], context);
  }
  streams_begin_backward(d, stream_count(config), N, C);
  if (a.carried.dx) scaled_add(d, 1, d, a.carried.dx, N, C);  // every block has mixed x₀ in
  dropout_apply(d, dropout, 0, DropoutSite::embedding, B, T, C);
  norm_backward(d, model.g.embedding_norm, d, a.embedded, a.embedding_norm, model.p.embedding_norm, N, C);
  if (model.g.types) add_column_sums(model.g.types, d, N, C);
  if (model.g.position) learned_position_backward(model.g.position, d, context.positions(), C);
  embed_backward(model, a, batch.tokens, N);
  return sum(a.losses, N);
}

// ---- one token after another -----------------------------------------------------------------------------

ModelCache::ModelCache(const Config& config, int T, int B)
    : B(B), T(T),
      rows(allocate(checked_product({size_t(config.n_layer), size_t(B), size_t(T), cache_width(config)}))) {}

size_t ModelCache::sequence(const Config& config) const { return T * cache_width(config); }

float* ModelCache::layer(const Config& config, int l, int first) const {
  return rows.get() + (static_cast<size_t>(l) * B + first) * sequence(config);
}

void model_logits(float* logits, const Model& model, const Activations& a, const ModelCache& cache, const int* tokens,
                  int B, int T, int first) {
  const int E = model.config.embedding_channels, V = model.config.vocab_size;
  const BlockContext context = block_context(model, a, {tokens, nullptr, B, T}, {});
  const float* h = head_input(model, a, forward(model, a, tokens, context, &cache, first), B * T);
  const int together = T == 1 ? B : 1;  // the last rows of longer pieces are not contiguous
  for (int b = 0; b < B; b += together)
    head_forward(logits + size_t(b) * V, h + (size_t(b + 1) * T - 1) * E, head_of(model, model.p), together, E, V);
}

const float* model_logits(const Model& model, const Activations& a, ModelCache& cache, const int* tokens, int T) {
  model_logits(a.logits, model, a, cache, tokens, 1, T);
  cache.past += T;
  return a.logits;
}
