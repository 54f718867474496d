#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "layers/config/parametrization.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/embedding/embedding.hpp"
#include "layers/feed_forward/activation.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/reductions.hpp"
#include "normed_weights.hpp"

// ---- tensors ---------------------------------------------------------------------------------------------

namespace {

// A linear layer that other programs read.
void declare_kept(Layout& layout, const std::string& name, int out, int in) {
  layout.take_untrained(name + ".weight", Role::transform, {out, in}, 0);
  layout.take_untrained(name + ".bias", Role::transform, {out}, 0);
}

}  // namespace

namespace {

void declare_stack(StackTensors& p, Layout& layout, const Config& config) {
  const int C = config.channels;
  const Start embedding = weight_start(config, Role::embedding, config.vocab_size, config.embedding_channels);
  if (config.position == Position::learned)
    p.position = layout.take("embedding.position.weight", Role::embedding, {config.context, C}, embedding);
  if (config.position == Position::relative)
    p.relative = layout.take("relative.weight", Role::embedding, {config.relative_buckets, config.n_head}, embedding);
  if (config.token_types > 0)
    p.types = layout.take("embedding.token_type.weight", Role::embedding, {config.token_types, C}, embedding);
  if (config.embedding_norm) p.embedding_norm = declare_norm(layout, config, "embedding.norm", C);
  declare_first_norm(p, layout, config);
  for (int l = 0; l < config.n_layer; ++l) p.blocks.push_back(declare_block(layout, config, l));
  declare_last_norms(p, layout, config);
}

constexpr const char* kEncoder = "encoder.";

}  // namespace

ModelTensors declare_model(Layout& layout, const Config& config) {
  const int V = config.vocab_size, C = config.channels, E = config.embedding_channels;
  const Start embedding = weight_start(config, Role::embedding, V, E);
  ModelTensors p;
  p.token = layout.take_matrix({{"embedding.token.weight", Role::embedding, {V, E}, embedding}});
  if (config.projects())
    p.project_in = declare_linear(layout, config, "embedding", {{"project", Role::projection, C}}, E);
  if (config.crosses()) {
    layout.enter_stack(kEncoder, 0);
    declare_stack(p.encoder, layout, encoder_of(config));
  }
  layout.enter_stack("", config.encoder_layers);
  declare_stack(p, layout, config);
  if (config.head_transform) {
    p.transform = declare_linear(layout, config, "head", {{"transform", Role::transform, C}}, C);
    p.transform_norm = declare_norm(layout, config, "head.norm", C);
  }
  if (config.projects())
    p.project_out = declare_linear(layout, config, "head", {{"project", Role::projection, E}}, C);
  if (!config.tied) p.head = layout.take_matrix({{"head.weight", Role::classifier, {V, E}, embedding}});
  if (config.head_bias) p.head_bias = layout.take("head.bias", Role::classifier, {V});
  if (config.logit_gain) {
    const float root = std::sqrt(static_cast<float>(C));
    p.logit_gain = {layout.take("head.logits.gain", Role::gain, {V}, {1 / root, 0}), root};
  }
  if (config.pooler >= Pooler::dense) declare_kept(layout, "pooler", C, C);
  if (config.pooler >= Pooler::next_sentence) declare_kept(layout, "next_sentence", 2, C);
  layout.scale_starts([&](const TensorSpec& spec) { return start_factor(spec, config); });
  layout.stop_decay([&](const TensorSpec& spec) { return unit_vectors(spec, config) != UnitVectors::none; });
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
    : config(resolve(c)), encoder(config.crosses() ? encoder_of(config) : config), table(std::move(rows)),
      floats(buffer_floats(table)), weights(allocate(floats)) {
  Layout on_weights(weights.get(), table, frozen_numbers(table));
  p = declare_model(on_weights, config);
  if (training) allocate_gradients(*this);
  load.resize(size_t(config.encoder_layers + config.n_layer) * config.experts);
  ropes = RopeTables(config);
  if (config.position == Position::sinusoidal) sinusoids = ::sinusoids(config.context, config.channels);
  if (config.position == Position::alibi) slopes = alibi_slopes(config.n_head);
  buckets = RelativeBuckets(config);
  encoder_buckets = RelativeBuckets(encoder);
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
  const int C = config.channels, width = Attention::inner_width(config);
  for (std::vector<Block>* blocks : {&model.p.encoder.blocks, &model.p.blocks})
    for (Block& block : *blocks) {
      merge(block.attention.qkv, C);
      merge(block.attention.o, width);
      merge(block.cross.q, C);
      merge(block.cross.kv, C);
      merge(block.cross.o, width);
      merge(block.ffn.up, C);
      merge(block.ffn.down, config.hidden);
    }
  model.config = config.without_lora();
  model.encoder = model.encoder.without_lora();
  std::erase_if(model.table, [](const TensorSpec& spec) { return spec.role == Role::adapter; });
  return model;
}

Model without_fix_norm(Model model) {
  const int V = model.config.vocab_size, E = model.config.embedding_channels;
  const auto fix = [&](const Matrix& weight) {
    if (weight.numbers != NumberType::fp32) throw std::logic_error("only rows of floats are normalized in place");
    std::vector<float> scale(V);
    unit_rows_forward({weight.data, scale.data()}, weight, V, E);
  };
  if (!model.config.fix_norm) return model;
  fix(model.p.token);
  if (model.p.head) fix(model.p.head);
  model.config.fix_norm = model.encoder.fix_norm = false;
  return model;
}

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

namespace {

// B·T and T·C fit into ints, because a larger step would not fit into any machine's memory.
void require_int_sizes(const Config& config, int B, int T) {
  constexpr size_t kMost = 0x7fffffff;
  const size_t S = static_cast<size_t>(stream_count(config));
  const size_t widest = static_cast<size_t>(std::max(config.channels, config.embedding_channels));
  if (checked_product({S, size_t(B), size_t(T)}) > kMost || checked_product({size_t(T), widest}) > kMost)
    throw std::overflow_error("a batch of " + std::to_string(B) + " x " + std::to_string(T) +
                              " tokens is too large: lower the batch or the context");
}

// The sums that branches read again if they attend over depth (depth.hpp).
std::vector<const float*> finished_sums_of(const StackActivations& a, const Config& config) {
  std::vector<const float*> v = {a.streams};
  for (int branch = 1; branch < config.branches() * config.n_layer; ++branch) {
    const BlockSaved& block = a.blocks[(branch - 1) / config.branches()];
    if (begins_sum(config, branch)) v.push_back(branch % config.branches() == 0 ? block.ffn.y : block.attention.y);
  }
  return v;
}

void declare_stack_activations(StackActivations& a, Layout& layout, const Config& config, int B, int T, bool training) {
  const int C = config.channels, N = B * T, S = stream_count(config);
  if (config.projects()) a.token = layout.take("embedding.token", Role::projection, {N, config.embedding_channels});
  a.embedded = layout.take("embedding", Role::embedding, {N, C});
  a.x = a.embedded;
  if (config.embedding_norm) {
    a.embedding_norm = declare_norm_saved(layout, config, "embedding.norm", N, C);
    a.x = layout.take("embedding.norm", Role::norm, {N, C});
  }
  a.streams = S > 1 ? layout.take("streams", Role::residual, {S * N, C}) : a.x;
  if (stream_rule(config) == StreamRule::siamese)
    a.first_norm = declare_norm_saved(layout, config, "streams.first_norm", N, C);
  for (int l = 0; l < config.n_layer; ++l)
    a.blocks.push_back(declare_block_saved(layout, config, l, B, T, training));
  a.end = declare_streams_end(layout, config, N);
  a.carried = declare_carried(layout, config, a.x, N, training);
  if (const size_t size = RelativeBuckets::size(config); size > 0)
    a.relative = layout.take("scratch.relative", Role::scratch, {config.n_head, static_cast<int>(size)});
  if (training) a.d = layout.take("scratch.gradient", Role::scratch, {S * N, C});
  if (training && config.projects())
    a.dnarrow = layout.take("scratch.narrow_gradient", Role::scratch, {N, config.embedding_channels});
  a.scratch = declare_block_scratch(layout, config, B, T, training);
  if (is_attnres(stream_rule(config))) a.scratch.streams.depth.v = finished_sums_of(a, config);
  a.end.depth = a.scratch.streams.depth;
}

}  // namespace

Activations declare_activations(Layout& layout, const Config& config, int B, int T, bool training) {
  for (const Config& stack : stack_configs(config)) require_int_sizes(stack, B, T);
  const int N = B * T, V = config.vocab_size, E = config.embedding_channels;
  Activations a;
  UnitRows rows;
  if (config.fix_norm) rows = declare_unit_rows(layout, "embedding.token", V, E, training);
  if (config.crosses()) {
    layout.enter_stack(kEncoder, 0);
    declare_stack_activations(a.encoder, layout, encoder_of(config), B, T, training);
    a.encoder.token_rows = rows;
  }
  layout.enter_stack("", config.encoder_layers);
  declare_stack_activations(a, layout, config, B, T, training);
  a.token_rows = a.head_rows = rows;
  if (config.logit_gain || (config.fix_norm && !config.tied))
    a.head_rows = declare_unit_rows(layout, "head", V, E, training);
  if (config.head_transform) a.transform = declare_transform_saved(layout, config, N);
  if (config.projects()) a.narrow = layout.take("head.project", Role::projection, {N, E});
  a.losses = layout.take("loss", Role::classifier, {N});
  a.logits = layout.take("scratch.logits", Role::logits, {classifier_rows(N, V), V});
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

Dropout of_encoder(Dropout dropout) {
  dropout.seed = rng::key({dropout.seed, rng::word("encoder")});
  return dropout;
}

namespace {

// A stack of a model, with what it computes.
struct StackPass {
  const Model& model;
  const Config& config;
  const StackTensors& p;
  const StackActivations& a;
  const RelativeBuckets& buckets;

  int layers() const { return config.n_layer; }
  // A block's x is the previous block's y.
  const float* input_of(int layer) const { return layer == 0 ? a.streams : a.blocks[layer - 1].ffn.y; }
};
StackPass decoder_of(const Model& model, const Activations& a) {
  return {model, model.config, model.p, a, model.buckets};
}
StackPass encoder_of(const Model& model, const Activations& a) {
  return {model, model.encoder, model.p.encoder, a.encoder, model.encoder_buckets};
}

// The context that all blocks of a stack share.
BlockContext block_context(const StackPass& s, const Batch& batch, const Dropout& dropout) {
  return {.config = s.config, .ropes = s.model.ropes, .scratch = s.a.scratch, .B = batch.B, .T = batch.T,
          .dropout = dropout, .biases = {s.model.slopes.get(), s.buckets.bias(s.a.relative)},
          .carried = s.a.carried, .begins = batch.begins};
}

// The encoder's input, as a batch.
Batch batch_of(const EncoderInput& input, int B) { return {input.tokens, nullptr, B, input.T, input.begins}; }

// Writes the embedding of each token (N,C), without its position.
void embed(const StackPass& s, const int* tokens, int N) {
  const int C = s.config.channels, E = s.config.embedding_channels;
  const UnitRows& rows = s.a.token_rows;
  if (rows.present()) unit_rows_forward(rows, s.model.p.token, s.config.vocab_size, E);
  const auto [weight, numbers] = rows.present() ? Matrix(rows.unit) : s.model.p.token;
  embedding_forward(s.a.token ? s.a.token : s.a.embedded, tokens, weight, N, E,
                    static_cast<float>(*s.config.embedding_scale), numbers);
  if (s.a.token) linear_forward(s.a.embedded, s.a.token, s.model.p.project_in, {N, E, C});
}

// Runs a stack, its blocks by `run`, and returns the end of its stream (N,C).
const float* run_stack(const StackPass& s, const int* tokens, BlockContext context, const RunBlock& run = block_forward,
                       const ModelCache* cache = nullptr, int first = 0) {
  const StackActivations& a = s.a;
  const int B = context.B, T = context.T, N = B * T, C = s.config.channels, past = cache ? cache->past : 0;

  embed(s, tokens, N);
  const float* positions = s.p.position ? s.p.position : s.model.sinusoids.get();
  if (positions) position_forward(a.embedded, positions, {B, T, past, context.begins}, C);
  if (s.p.relative) s.buckets.fill(a.relative, s.p.relative, s.config.n_head, past, T);
  if (s.p.types) add_to_rows(a.embedded, s.p.types, N, C);  // every token has the first type
  norm_forward(a.x, a.embedding_norm, a.embedded, s.p.embedding_norm, N, C, context.training);
  dropout_apply(a.x, context.dropout, 0, DropoutSite::embedding, B, T, C);
  const StreamRows rows{N, C, context.training};
  if (a.streams != a.x) streams_begin(a.streams, a.first_norm, a.x, s.p, stream_count(s.config), rows);

  for (int l = 0; l < s.layers(); ++l) {
    context.layer = l;
    if (cache) context.cache = cache->of_layer(s.config, l, first);
    run(a.blocks[l], s.input_of(l), s.p.blocks[l], context);
  }
  return streams_end(a.end, s.input_of(s.layers()), s.p, rows);
}

void require_encoder_input(const Config& config, const EncoderInput& input) {
  if (config.crosses() != (input.tokens != nullptr))
    throw std::logic_error(config.crosses() ? "the batch has no input for the encoder" : "the model has no encoder");
}

// Runs the encoder.
Memory run_encoder(const Model& model, const Activations& a, const EncoderInput& input, const BlockContext& context,
                   const RunBlock& run = block_forward) {
  return {.x = run_stack(encoder_of(model, a), input.tokens, context, run), .dx = a.encoder.d,
          .rows = context.B * input.T, .T = input.T, .from = input.from, .to = input.to};
}

// The same without dropout, for B rows.
Memory run_encoder(const Model& model, const Activations& a, const EncoderInput& input, int B) {
  return run_encoder(model, a, input, block_context(encoder_of(model, a), batch_of(input, B), {}));
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

// The classifier's own matrix, or the token embedding; or the gradient of either, which is null if it does not train.
const Matrix& head_matrix(const Config& config, const ModelTensors& t) { return config.tied ? t.token : t.head; }

Head head_with(const Config& c, const Matrix& weight, float* bias) {
  return {{weight.data, bias, c.matmul, {}, weight.numbers},
          {c.logit_cap, c.z_loss, static_cast<float>(*c.logit_scale), c.label_smoothing}};
}

// The classifier's parameters. Call it after run_stack(), which normalizes the rows of the token embedding.
Head head_of(const Model& model, const Activations& a) {
  const Config& c = model.config;
  const Matrix& weight = head_matrix(c, model.p);
  if (!a.head_rows.present()) return head_with(c, weight, model.p.head_bias);
  if (c.logit_gain)
    scaled_rows_forward(a.head_rows, weight, model.p.logit_gain, c.vocab_size, c.embedding_channels);
  else if (!c.tied) unit_rows_forward(a.head_rows, weight, c.vocab_size, c.embedding_channels);
  return head_with(c, a.head_rows.unit, model.p.head_bias);
}

// Its gradients.
Head head_gradients(const Model& model, const Activations& a) {
  const Matrix& weight = head_matrix(model.config, model.g);
  const bool of_rows = a.head_rows.present() && (weight || model.config.logit_gain);
  return head_with(model.config, of_rows ? Matrix(a.head_rows.gradient) : weight, model.g.head_bias);
}

double sum(const float* x, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) s += static_cast<double>(x[i]);
  return s;
}

}  // namespace

const float* model_features(const Model& model, const Activations& a, const Batch& batch) {
  require_encoder_input(model.config, batch.encoder);
  BlockContext context = block_context(decoder_of(model, a), batch, {});
  if (model.config.crosses()) context.memory = run_encoder(model, a, batch.encoder, batch.B);
  return run_stack(decoder_of(model, a), batch.tokens, context);
}

void forward_blocks(const Model& model, const Activations& a, const Batch& batch, const Dropout& dropout,
                    const RunBlock& run) {
  require_encoder_input(model.config, batch.encoder);
  const StackPass decoder = decoder_of(model, a), encoder = encoder_of(model, a);
  BlockContext context = block_context(decoder, batch, dropout);
  BlockContext of_source = block_context(encoder, batch_of(batch.encoder, batch.B), of_encoder(dropout));
  context.training = of_source.training = true;
  if (model.config.crosses()) context.memory = run_encoder(model, a, batch.encoder, of_source, run);
  run_stack(decoder, batch.tokens, context, run);
}

void batch_logits(float* logits, const Model& model, const Activations& a, const Batch& batch) {
  const int N = batch.B * batch.T;
  const float* h = head_input(model, a, model_features(model, a, batch), N);
  head_forward(logits, h, head_of(model, a), N, model.config.embedding_channels, model.config.vocab_size);
}

double model_loss(const Model& model, const Activations& a, const Batch& batch) {
  const int N = batch.B * batch.T;
  const float* h = head_input(model, a, model_features(model, a, batch), N);
  classifier({a.losses, a.logits}, nullptr, {}, h, head_of(model, a), batch.targets, 1,
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
  classifier({a.losses, a.logits}, d, head_gradients(model, a), head_input(model, a, h, N, true), head_of(model, a),
             batch.targets, scale, {N, E, config.vocab_size});
  const TransformSaved& t = a.transform;
  if (a.narrow) linear_backward(a.d, model.g.project_out, d, t.y ? t.y : h, model.p.project_out, {N, C, E});
  if (!config.head_transform) return;
  norm_backward(a.d, model.g.transform_norm, a.d, t.active, t.norm, model.p.transform_norm, N, C);
  activation_backward(t.active, a.d, t.up, config.activation, N, C);
  linear_backward(a.d, model.g.transform, t.active, h, model.p.transform, {N, C, C});
}

// Reads the gradient of the embedding of each token, without its position.
void embed_backward(const ModelTensors& g, const StackPass& s, const int* tokens, int N) {
  const int C = s.config.channels, E = s.config.embedding_channels;
  const StackActivations& a = s.a;
  if (a.token) linear_backward(a.dnarrow, g.project_in, a.d, a.token, s.model.p.project_in, {N, E, C});
  float* dtoken = g.token && a.token_rows.present() ? a.token_rows.gradient : g.token.data;
  if (dtoken)
    embedding_backward(dtoken, tokens, a.token ? a.dnarrow : a.d, N, E, static_cast<float>(*s.config.embedding_scale));
}

// Under fix_norm and logit_gain, layers read other rows than the parameters, and add to the gradients of these rows.
void clear_unit_gradients(const Activations& a, const Config& config) {
  const size_t floats = static_cast<size_t>(config.vocab_size) * config.embedding_channels;
  for (const UnitRows& rows : {a.token_rows, a.head_rows})
    if (rows.present()) std::fill_n(rows.gradient, floats, 0.f);
}
void unit_gradients_backward(const Model& model, const Activations& a) {
  const int V = model.config.vocab_size, E = model.config.embedding_channels;
  if (a.token_rows.present() && model.g.token) unit_rows_backward(model.g.token, a.token_rows, V, E);
  if (model.config.logit_gain)
    return scaled_rows_backward(head_matrix(model.config, model.g).data, model.g.logit_gain, a.head_rows,
                                head_matrix(model.config, model.p), model.p.logit_gain, V, E);
  if (!model.config.tied && model.g.head && a.head_rows.present()) unit_rows_backward(model.g.head, a.head_rows, V, E);
}

// s.a.d holds the gradient of the end of the stack. `first` is the number of its first layer among all.
void stack_backward(const StackPass& s, const StackTensors& g, BlockContext context, const Batch& batch, int first,
                    Observer* observer) {
  const StackActivations& a = s.a;
  const int B = batch.B, T = batch.T, N = B * T, C = s.config.channels, L = s.layers();
  float* d = a.d;  // the gradient of the stream, from its end down to the embedding
  const StreamRows rows = context.rows();
  streams_end_backward(d, g, s.input_of(L), a.end, s.p, rows);
  context.load = nullptr;  // the experts' choices have been counted
  context.drelative = g.relative;
  for (int l = L - 1; l >= 0; --l) {
    context.layer = l;
    if (s.config.recompute > Recompute::none) block_recompute(a.blocks[l], s.input_of(l), s.p.blocks[l], context);
    if (observer) observer->block(first + l, s.input_of(l), a.blocks[l], d, batch);
    block_backward(d, g.blocks[l], s.input_of(l), a.blocks[l], s.p.blocks[l], context);
  }
  streams_begin_backward(d, g, a.first_norm, a.x, s.p, stream_count(s.config), rows);
  if (a.carried.dx) scaled_add(d, 1, d, a.carried.dx, N, C);  // every block has mixed x₀ in
  dropout_apply(d, context.dropout, 0, DropoutSite::embedding, B, T, C);
  norm_backward(d, g.embedding_norm, d, a.embedded, a.embedding_norm, s.p.embedding_norm, N, C);
  if (g.types) add_column_sums(g.types, d, N, C);
  if (g.position) learned_position_backward(g.position, d, context.positions(), C);
}

}  // namespace

double model_loss_and_gradients(Model& model, const Activations& a, const Batch& batch, LossScale scale,
                                const Dropout& dropout, Observer* observer) {
  const Config& config = model.config;
  require_encoder_input(config, batch.encoder);
  const StackPass decoder = decoder_of(model, a), encoder = encoder_of(model, a);
  const Batch source = batch_of(batch.encoder, batch.B);
  const auto training = [&](BlockContext context, int first) {
    context.training = true;
    context.router_scale = scale.tokens * static_cast<float>(batch.T) / static_cast<float>(context.T);
    context.load = model.load.data() + size_t(first) * config.experts;
    return context;
  };
  BlockContext context = training(block_context(decoder, batch, dropout), config.encoder_layers);
  const BlockContext of_source = training(block_context(encoder, source, of_encoder(dropout)), 0);
  if (config.crosses()) context.memory = run_encoder(model, a, batch.encoder, of_source);
  const float* h = run_stack(decoder, batch.tokens, context);

  clear_unit_gradients(a, config);
  head_backward(model, a, h, batch, scale.targets);
  if (observer) observer->outside(a, decoder.input_of(config.n_layer), batch, false);
  stack_backward(decoder, model.g, context, batch, config.encoder_layers, observer);
  embed_backward(model.g, decoder, batch.tokens, batch.B * batch.T);
  if (config.crosses()) {
    if (observer) observer->outside(a.encoder, encoder.input_of(encoder.layers()), source, true);
    stack_backward(encoder, model.g.encoder, of_source, source, 0, observer);
    embed_backward(model.g, encoder, source.tokens, source.B * source.T);
  }
  unit_gradients_backward(model, a);
  return sum(a.losses, batch.B * batch.T);
}

// ---- one token after another -----------------------------------------------------------------------------

ModelCache::ModelCache(const Config& config, int T, int B)
    : B(B), T(T),
      rows(allocate(checked_product({size_t(config.n_layer), size_t(B), size_t(T), cache_width(config)}))) {}

size_t ModelCache::sequence(const Config& config) const { return T * cache_width(config); }

float* ModelCache::layer(const Config& config, int l, int first) const {
  return rows.get() + (static_cast<size_t>(l) * B + first) * sequence(config);
}

Cache ModelCache::of_layer(const Config& config, int l, int first) const {
  const size_t before = static_cast<size_t>(l) * memory.rows + (sources.size() > 1 ? first * memory.T : 0);
  return {layer(config, l, first), past, T, memory_rows ? memory_rows.get() + before * cache_width(config) : nullptr};
}

void read_sources(ModelCache& cache, const Model& model, const Activations& a,
                  const std::vector<std::vector<int>>& sources) {
  size_t longest = 0;
  for (const std::vector<int>& source : sources) longest = std::max(longest, source.size());
  std::vector<int> tokens(sources.size() * longest), begins(tokens.size());
  cache.sources.clear();
  for (size_t i = 0; i < sources.size(); ++i) {
    const size_t length = sources[i].size();
    std::copy(sources[i].begin(), sources[i].end(), tokens.begin() + ptrdiff_t(i * longest));
    std::fill_n(begins.begin() + ptrdiff_t(i * longest + length), longest - length, static_cast<int>(length));
    cache.sources.push_back(static_cast<int>(length));
  }
  const EncoderInput input{tokens.data(), static_cast<int>(longest), begins.data()};
  const int B = static_cast<int>(sources.size());
  require_encoder_input(model.config, input);
  cache.memory = run_encoder(model, a, input, B);
  cache.memory_rows = allocate(
      checked_product({size_t(model.config.n_layer), size_t(cache.memory.rows), cache_width(model.config)}));
}

namespace {

// What B sequences of the cache read from sequence `first` on. Fills from and to (B,T).
Memory memory_of(const ModelCache& cache, int B, int T, int first, std::vector<int>& from, std::vector<int>& to,
                 int C) {
  Memory memory = cache.memory;
  if (cache.sources.size() > 1) {
    memory.x += size_t(first) * memory.T * C;
    memory.rows = B * memory.T;
  }
  from.assign(size_t(B) * T, 0);
  for (int b = 0; b < B; ++b)
    to.insert(to.end(), T, cache.sources.size() > 1 ? cache.sources[first + b] : cache.sources[0]);
  memory.from = from.data();
  memory.to = to.data();
  return memory;
}

}  // namespace

void model_logits(float* logits, const Model& model, const Activations& a, const ModelCache& cache, const int* tokens,
                  int B, int T, int first) {
  const int E = model.config.embedding_channels, V = model.config.vocab_size;
  const StackPass s = decoder_of(model, a);
  BlockContext context = block_context(s, {tokens, nullptr, B, T}, {});
  std::vector<int> from, to;
  if (model.config.crosses() && cache.sources.empty()) throw std::logic_error("the decoder has no source to read");
  if (model.config.crosses()) context.memory = memory_of(cache, B, T, first, from, to, model.config.channels);
  const float* h = head_input(model, a, run_stack(s, tokens, context, block_forward, &cache, first), B * T);
  const Head head = head_of(model, a);
  const int together = T == 1 ? B : 1;  // the last rows of longer pieces are not contiguous
  for (int b = 0; b < B; b += together)
    head_forward(logits + size_t(b) * V, h + (size_t(b + 1) * T - 1) * E, head, together, E, V);
}

const float* model_logits(const Model& model, const Activations& a, ModelCache& cache, const int* tokens, int T) {
  model_logits(a.logits, model, a, cache, tokens, 1, T);
  cache.past += T;
  return a.logits;
}
