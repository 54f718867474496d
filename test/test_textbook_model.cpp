// The whole model, put together from textbook layers, against the fast one.
// PyTorch's references have no dropout; this one has. The masks are the product's own, given to the textbook:
// what is shown is that forward and backward apply them, and in the right places.

#include "forms.hpp"
#include "textbook.hpp"
#include "wirings.hpp"

namespace {

constexpr double kTolerance = 1e-6;

// Without statistics of a row, one rounding error can weigh more: 2.1e-5 with Derf, 1.1e-5 with BatchNorm.
double model_tolerance(NormKind kind) { return kind == NormKind::layernorm || kind == NormKind::rmsnorm ? 1e-5 : 3e-5; }

Doubles multipliers(const Dropout& dropout, int layer, DropoutSite site, int B, int T, int C) {
  std::vector<float> ones(B * T * C, 1);
  dropout_apply(ones.data(), dropout, layer, site, B, T, C);
  return widen(ones);
}

struct TextbookModel {
  const Model& model;
  const Config& config = model.config;
  const int B, T;
  const Dropout dropout;
  const bool training = true;
  const int N = B * T, C = config.channels, H = config.n_head, KV = config.kv_heads, D = config.head_dim,
            F = config.hidden, V = config.vocab_size, R = config.rope_dims();
  Doubles weights = widen({model.weights.get(), model.floats}), gradients = Doubles(model.floats),
          logits = {}, discarded = Doubles(C);

  // Where the tensor that the product has at w is in these buffers.
  const double* p(const float* w) { return at(weights, w); }
  double* g(const float* w) { return at(gradients, w); }
  double* at(Doubles& buffer, const float* w) { return w ? &buffer[w - model.weights.get()] : nullptr; }

  textbook::Norm<double> norm(const Norm& n, Doubles& buffer) {
    return {n.kind, n.eps, at(buffer, n.gain), at(buffer, n.bias), n.unit_offset, at(buffer, n.alpha),
            at(buffer, n.shift), at(buffer, n.running_mean), at(buffer, n.running_var), training};
  }
  textbook::Branch<double> branch(const Branch& b, Doubles& buffer) {
    const textbook::Gain<double> gain{at(buffer, b.gain.weight), b.gain.single};
    return {norm(b.norm_in, buffer), norm(b.norm_out, buffer), norm(b.norm_sum, buffer), gain, b.skip, b.in_scale};
  }
  // The feed-forward branch of a block: where the norm is shared, it is attention's.
  textbook::Branch<double> ffn_branch(const Block& block, Doubles& buffer) {
    textbook::Branch<double> b = branch(block.ffn, buffer);
    if (config.block != BlockForm::parallel_shared) return b;
    b.norm_in = norm(block.attention.norm_in, buffer), b.in_scale = block.attention.in_scale;
    if (training)  // a BatchNorm's running statistics move once
      b.norm_in.running_mean = b.norm_in.running_var = discarded.data();
    return b;
  }
  void linear(Doubles& y, const double* x, const Linear& w, int I, int O) {
    y.resize(N * O);
    textbook::linear_forward(y.data(), x, p(w.weight), p(w.bias), N, I, O);
  }
  void linear_backward(double* dx, const double* dy, const double* x, const Linear& w, int I, int O) {
    textbook::linear_backward(dx, g(w.weight), g(w.bias), dy, x, p(w.weight), N, I, O);
  }

  textbook::Scoring scoring(int layer) const {
    textbook::Scoring s{*config.attention_scale, config.attention_cap, size_t(config.window_of(layer))};
    for (int h = 0; config.position == Position::alibi && h < H; ++h) s.slopes.push_back(model.slopes[h]);
    return s;
  }

  struct Attention {
    TextbookModel& m;
    const Block& block;
    int layer;
    Doubles qkv = {}, P = {}, mixed = {}, inner = {};
    textbook::QkNormSaved<double> q_saved = {}, k_saved = {};
    textbook::NormSaved<double> inner_saved = {};
    bool by_head() const { return m.config.qk_norm == QkNormKind::head; }
    size_t count(int heads) const { return by_head() ? heads : 1; }
    size_t length(int heads) const { return by_head() ? m.D : heads * m.D; }
    int width() const { return (m.H + 2 * m.KV) * m.D; }
    Doubles masks() const { return attention_multipliers(m.dropout, layer, m.B, m.H, m.T); }
    Doubles out_mask() const {
      return multipliers(m.dropout, layer, DropoutSite::attention_out, m.B, m.T, m.C);
    }

    void forward(double* f, const double* u) {
      m.linear(qkv, u, block.qkv, m.C, width());
      if (block.qk_norm.q.present()) {
        const auto q = m.norm(block.qk_norm.q, m.weights), k = m.norm(block.qk_norm.k, m.weights);
        textbook::qk_norm_forward(qkv.data(), q_saved, q, m.N, count(m.H), length(m.H), width());
        textbook::qk_norm_forward(&qkv[m.H * m.D], k_saved, k, m.N, count(m.KV), length(m.KV), width());
      }
      if (m.config.position == Position::rope)
        textbook::rope_forward(qkv.data(), m.config.rope_theta, 0, m.B, m.T, m.H + m.KV, m.D, m.R, width());
      P.resize(m.B * m.H * m.T * m.T), mixed.resize(m.N * m.H * m.D);
      textbook::attention_forward(mixed.data(), P.data(), qkv.data(), masks().data(), m.B, m.T, m.H, m.KV,
                                  m.D, m.scoring(layer));
      inner.resize(mixed.size());
      textbook::norm_forward(inner.data(), inner_saved, mixed.data(), m.norm(block.attention.norm_inner, m.weights), m.N,
                             m.H * m.D);
      textbook::linear_forward(f, inner.data(), m.p(block.o.weight), m.p(block.o.bias), m.N, m.H * m.D, m.C);
      textbook::dropout_forward(f, out_mask().data(), m.N * m.C);
    }
    void backward(double* du, double* df, const double* u) {
      Doubles dmixed(mixed.size()), dinner(mixed.size()), dqkv(qkv.size());
      textbook::dropout_backward(df, out_mask().data(), m.N * m.C);
      m.linear_backward(dinner.data(), df, inner.data(), block.o, m.H * m.D, m.C);
      textbook::norm_backward(dmixed.data(), m.norm(block.attention.norm_inner, m.gradients), dinner.data(), mixed.data(),
                              inner_saved, m.norm(block.attention.norm_inner, m.weights), m.N, m.H * m.D);
      textbook::attention_backward(dqkv.data(), dmixed.data(), P.data(), qkv.data(), masks().data(), m.B, m.T,
                                   m.H, m.KV, m.D, m.scoring(layer));
      if (m.config.position == Position::rope)
        textbook::rope_backward(dqkv.data(), m.config.rope_theta, m.B, m.T, m.H + m.KV, m.D, m.R, width());
      if (block.qk_norm.q.present()) {
        const auto q = m.norm(block.qk_norm.q, m.weights), k = m.norm(block.qk_norm.k, m.weights);
        const auto gq = m.norm(block.qk_norm.q, m.gradients), gk = m.norm(block.qk_norm.k, m.gradients);
        textbook::qk_norm_backward(dqkv.data(), gq, q_saved, q, m.N, count(m.H), length(m.H), width());
        textbook::qk_norm_backward(&dqkv[m.H * m.D], gk, k_saved, k, m.N, count(m.KV), length(m.KV), width());
      }
      m.linear_backward(du, dqkv.data(), u, block.qkv, m.C, width());
    }
  };

  struct FeedForward {
    TextbookModel& m;
    const Block& block;
    int layer;
    Doubles raised = {}, active = {}, inner = {};
    textbook::NormSaved<double> inner_saved = {};
    int width() const { return width_of(m.config.activation, m.F); }
    Doubles out_mask() const { return multipliers(m.dropout, layer, DropoutSite::ffn_out, m.B, m.T, m.C); }

    void forward(double* f, const double* u) {
      m.linear(raised, u, block.up, m.C, width());
      active.resize(m.N * m.F);
      textbook::activation_forward(active.data(), raised.data(), m.config.activation, m.N, m.F);
      inner.resize(active.size());
      textbook::norm_forward(inner.data(), inner_saved, active.data(), m.norm(block.ffn.norm_inner, m.weights), m.N, m.F);
      textbook::linear_forward(f, inner.data(), m.p(block.down.weight), m.p(block.down.bias), m.N, m.F, m.C);
      textbook::dropout_forward(f, out_mask().data(), m.N * m.C);
    }
    void backward(double* du, double* df, const double* u) {
      Doubles dactive(active.size()), dinner(active.size()), draised(raised.size());
      textbook::dropout_backward(df, out_mask().data(), m.N * m.C);
      m.linear_backward(dinner.data(), df, inner.data(), block.down, m.F, m.C);
      textbook::norm_backward(dactive.data(), m.norm(block.ffn.norm_inner, m.gradients), dinner.data(), active.data(),
                              inner_saved, m.norm(block.ffn.norm_inner, m.weights), m.N, m.F);
      textbook::activation_backward(draised.data(), dactive.data(), raised.data(), m.config.activation, m.N,
                                    m.F);
      m.linear_backward(du, draised.data(), u, block.up, m.C, width());
    }
  };

  struct Layer {
    Attention attention;
    FeedForward ffn;
    textbook::BranchSaved<double> attention_saved = {}, ffn_saved = {};
    Doubles middle = {}, y = {};
  };

  // Sum of the losses; gradients += scale · its gradients.
  double loss_and_gradients(const Batch& batch, double scale) {
    const ModelTensors& t = model.p;
    Doubles embedded(N * C), x(N * C), y(N * C), losses(N);
    const Doubles mask = multipliers(dropout, 0, DropoutSite::embedding, B, T, C);
    textbook::NormSaved<double> embedding_saved, final_saved;
    textbook::embedding_forward(embedded.data(), batch.tokens, p(t.token), N, C, config.embedding_scale);
    if (t.position) textbook::learned_position_forward(embedded.data(), p(t.position), 0, B, T, C);
    if (config.position == Position::sinusoidal)
      textbook::sinusoidal_position_forward(embedded.data(), 0, B, T, C);
    textbook::norm_forward(x.data(), embedding_saved, embedded.data(), norm(t.embedding_norm, weights), N, C);
    textbook::dropout_forward(x.data(), mask.data(), N * C);
    std::vector<Layer> layers;
    for (int l = 0; l < config.n_layer; ++l) {
      const Block& block = t.blocks[l];
      Layer& layer = layers.emplace_back(Layer{{*this, block, l}, {*this, block, l}});
      const Doubles& in = l == 0 ? x : layers[l - 1].y;
      layer.middle.resize(N * C), layer.y.resize(N * C);
      if (config.block != BlockForm::sequential) {
        textbook::parallel_forward(layer.y.data(), layer.attention_saved, layer.ffn_saved, in.data(),
                                   branch(block.attention, weights), ffn_branch(block, weights), layer.attention,
                                   layer.ffn, N, C);
        continue;
      }
      textbook::branch_forward(layer.middle.data(), layer.attention_saved, in.data(),
                               branch(block.attention, weights), layer.attention, N, C);
      textbook::branch_forward(layer.y.data(), layer.ffn_saved, layer.middle.data(),
                               branch(block.ffn, weights), layer.ffn, N, C);
    }
    const Doubles& last = layers.back().y;
    textbook::norm_forward(y.data(), final_saved, last.data(), norm(t.final_norm, weights), N, C);
    const Linear head{t.head ? t.head : t.token, t.head_bias};
    linear(logits, y.data(), head, C, V);
    const Doubles uncapped = logits;
    if (config.logit_cap > 0) textbook::soft_cap_forward(logits.data(), uncapped.data(), config.logit_cap, N * V);
    textbook::cross_entropy_forward(losses.data(), logits.data(), batch.targets, N, V);

    Doubles dlogits(N * V), d(N * C), dy(N * C);
    textbook::cross_entropy_backward(dlogits.data(), logits.data(), batch.targets, scale, N, V);
    if (config.logit_cap > 0)
      textbook::soft_cap_backward(dlogits.data(), dlogits.data(), uncapped.data(), config.logit_cap, N * V);
    linear_backward(dy.data(), dlogits.data(), y.data(), head, C, V);
    textbook::norm_backward(d.data(), norm(t.final_norm, gradients), dy.data(), last.data(), final_saved,
                            norm(t.final_norm, weights), N, C);
    for (int l = config.n_layer - 1; l >= 0; --l) {
      const Block& block = t.blocks[l];
      Layer& layer = layers[l];
      const Doubles& in = l == 0 ? x : layers[l - 1].y;
      if (config.block != BlockForm::sequential) {
        textbook::parallel_backward(dy.data(), branch(block.attention, gradients), ffn_branch(block, gradients), d.data(),
                                    in.data(), layer.attention_saved, layer.ffn_saved, branch(block.attention, weights),
                                    ffn_branch(block, weights), layer.attention, layer.ffn, N, C);
        d = dy;
        continue;
      }
      textbook::branch_backward(dy.data(), branch(block.ffn, gradients), d.data(), layer.middle.data(),
                                layer.ffn_saved, branch(block.ffn, weights), layer.ffn, N, C);
      textbook::branch_backward(d.data(), branch(block.attention, gradients), dy.data(), in.data(),
                                layer.attention_saved, branch(block.attention, weights), layer.attention, N,
                                C);
    }
    textbook::dropout_backward(d.data(), mask.data(), N * C);
    textbook::norm_backward(dy.data(), norm(t.embedding_norm, gradients), d.data(), embedded.data(),
                            embedding_saved, norm(t.embedding_norm, weights), N, C);
    if (t.position) textbook::learned_position_backward(g(t.position), dy.data(), B, T, C);
    textbook::embedding_backward(g(t.token), batch.tokens, dy.data(), N, C, config.embedding_scale);
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum;
  }
};

// Gains 1 ± .3, biases ± .1, matrices so large that attention is far from uniform.
void randomise(Model& model) {
  for (const TensorSpec& spec : model.table) {
    const bool matrix = spec.shape.size() > 1, scale = spec.name.ends_with(".scale.gain");  // which may start at 0
    const float mean = matrix ? 0 : scale ? 1 : spec.start.mean, vector = mean != 0 ? .3f * mean : .1f;
    const float deviation = matrix ? std::sqrt(2.f / (spec.shape[0] + spec.shape[1])) : vector;
    std::vector<float> w = random_floats(spec.size(), spec.offset + 1, mean, deviation);
    if (!spec.trained && mean > 0)  // a variance
      for (float& v : w) v = std::fabs(v) + .1f;
    std::copy(w.begin(), w.end(), model.weights.get() + spec.offset);
  }
}

void compare_models(Config config, std::string name, float dropout_p);

void compare_models(const Form& form, NormKind kind, bool llama, float dropout_p) {
  Config config;
  form.apply(config);
  config.norm = kind;
  config.n_layer = 2, config.n_head = 4, config.channels = 12, config.head_dim = 6, config.context = 11;
  config.vocab_size = 13;
  config.position = llama ? Position::rope : Position::learned;
  config.activation = llama ? Activation::swiglu : Activation::gelu;
  config.bias = config.tied = !llama;
  config.kv_heads = llama ? 2 : 4;
  config.embedding_norm = llama;
  compare_models(config, form.name + " " + name_of(kNormKinds, kind) + (llama ? " llama" : " gpt2"), dropout_p);
}

void compare_models(Config config, std::string name, float dropout_p) {
  config.dropout = dropout_p;
  Model model(config);
  randomise(model);
  name = "model vs textbook/" + name + (dropout_p > 0 ? " dropout/" : "/");

  const double tolerance = model_tolerance(config.norm);
  const int B = 3, T = 9;
  const Dropout dropout{dropout_p, 3, 4, 5};
  const std::vector<int> tokens = random_ints(B * T, 1, 13);
  std::vector<int> targets = random_ints(B * T, 2, 13);
  targets[4] = kIgnore;
  const Batch batch{tokens.data(), targets.data(), B, T};
  Activations activations = allocate_activations(model.config, B, T, true);
  TextbookModel textbook{.model = model, .B = B, .T = T, .dropout = dropout};
  const float scale = 1.f / (B * T - 1);
  const double want = textbook.loss_and_gradients(batch, scale), all = norm_of(textbook.gradients);
  const double loss = model_loss_and_gradients(model, activations, batch, scale, dropout);
  check_error(name + "loss", std::fabs(loss / want - 1), kTolerance);
  for (const TensorSpec& spec : model.table) {
    // Without RoPE or a cap what is added to all keys adds the same to all scores of a row: a gradient that is zero but
    // for rounding.
    const bool moved = config.position == Position::rope || config.attention_cap > 0;
    if (spec.name.ends_with(config.qk_norm == QkNormKind::none ? ".k.bias" : ".k_norm.bias") && !moved) continue;
    const std::span<const float> got{model.gradients.get() + spec.offset, spec.size()};
    const std::span<const double> expected{&textbook.gradients[spec.offset], spec.size()};
    if (!spec.trained) {
      CHECK(norm_of(widen(got)) == 0);
      check_close(name + spec.name, {model.weights.get() + spec.offset, spec.size()},
                  {&textbook.weights[spec.offset], spec.size()}, tolerance);
    } else if (config.norm == NormKind::batchnorm && norm_of(expected) < 1e-13 * all) {  // before a norm: python_ref
      check_error(name + "zero " + spec.name, norm_of(widen(got)) / all, kTolerance);
    } else {
      check_close(name + spec.name, got, expected, tolerance, spec.size() == 1 ? 100 * all : 0);
    }
  }
  if (dropout_p > 0) return;
  TextbookModel evaluating{.model = model, .B = B, .T = T, .dropout = {}, .training = false};
  const double evaluated = evaluating.loss_and_gradients(batch, scale);
  const bool has_norm = config.placement != "none" && config.placement != "rezero";
  CHECK((evaluated == want) == (config.norm != NormKind::batchnorm || !(has_norm || config.embedding_norm)));
  check_error(name + "loss alone", std::fabs(model_loss(model, activations, batch) / evaluated - 1), kTolerance);

  // The first sequence once more, in pieces, with keys and values from the cache.
  const Activations without_backward = allocate_activations(model.config, 1, T, false);
  ModelCache cache(model.config);
  for (const int piece : {1, 4, 1, 3}) {
    const float* logits = model_logits(model, without_backward, cache, tokens.data() + cache.past, piece);
    const size_t row = size_t(cache.past - 1) * config.vocab_size;
    check_close(name + "cached logits", {logits, size_t(config.vocab_size)},
                {&evaluating.logits[row], size_t(config.vocab_size)}, tolerance);
  }
  CHECK(cache.past == T);
}

}  // namespace

TEST_CASE("the model agrees with the textbook, every placement, with and without dropout",
          "[model][textbook]") {
  for (const Form& form : forms())
    for (const auto& [kind, name] : kNormKinds)
      for (const bool llama : {false, true})
        for (const float dropout : {0.f, .2f})
          if (form.takes(kind)) compare_models(form, kind, llama, dropout);
}

TEST_CASE("the model agrees with the textbook, however it is wired", "[model][textbook]") {
  for (const auto& [name, change] : wirings())
    for (const float dropout : {0.f, .2f}) compare_models(wired(change), name, dropout);
}
