#include "model.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "head.hpp"
#include "layers/embedding/embedding.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/reductions.hpp"

// ---- buffers ---------------------------------------------------------------------------------------------

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
  const Config& config = model.config;
  const int N = batch.B * batch.T;
  const float* h = head_input(model.p, a, config, model_features(model, a, batch), N);
  head_forward(logits, h, head_of(model.p, a, config), N, config.embedding_channels, config.vocab_size);
}

double model_loss(const Model& model, const Activations& a, const Batch& batch) {
  const int N = batch.B * batch.T;
  const float* h = head_input(model.p, a, model.config, model_features(model, a, batch), N);
  classifier({a.losses, a.logits}, nullptr, {}, h, head_of(model.p, a, model.config), batch.targets, 1,
             {N, model.config.embedding_channels, model.config.vocab_size});
  return sum(a.losses, N);
}

// ---- backward --------------------------------------------------------------------------------------------

namespace {

// Reads the gradient of the embedding of each token, without its position.
void embed_backward(const ModelTensors& g, const StackPass& s, const int* tokens, int N) {
  const int C = s.config.channels, E = s.config.embedding_channels;
  const StackActivations& a = s.a;
  if (a.token) linear_backward(a.dnarrow, g.project_in, a.d, a.token, s.model.p.project_in, {N, E, C});
  float* dtoken = g.token && a.token_rows.present() ? a.token_rows.gradient : g.token.data;
  if (dtoken)
    embedding_backward(dtoken, tokens, a.token ? a.dnarrow : a.d, N, E, static_cast<float>(*s.config.embedding_scale));
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
  head_backward(model.g, model.p, a, config, h, batch.targets, scale.targets, batch.B * batch.T);
  if (observer) observer->outside(a, decoder.input_of(config.n_layer), batch, false);
  stack_backward(decoder, model.g, context, batch, config.encoder_layers, observer);
  embed_backward(model.g, decoder, batch.tokens, batch.B * batch.T);
  if (config.crosses()) {
    if (observer) observer->outside(a.encoder, encoder.input_of(encoder.layers()), source, true);
    stack_backward(encoder, model.g.encoder, of_source, source, 0, observer);
    embed_backward(model.g, encoder, source.tokens, source.B * source.T);
  }
  unit_gradients_backward(model.g, model.p, a, config);
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
  const float* features = run_stack(s, tokens, context, block_forward, &cache, first);
  const float* h = head_input(model.p, a, model.config, features, B * T);
  const Head head = head_of(model.p, a, model.config);
  const int together = T == 1 ? B : 1;  // the last rows of longer pieces are not contiguous
  for (int b = 0; b < B; b += together)
    head_forward(logits + size_t(b) * V, h + (size_t(b + 1) * T - 1) * E, head, together, E, V);
}

const float* model_logits(const Model& model, const Activations& a, ModelCache& cache, const int* tokens, int T) {
  model_logits(a.logits, model, a, cache, tokens, 1, T);
  cache.past += T;
  return a.logits;
}
