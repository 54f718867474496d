// Pairs of placements that compute the same function with different weights.

#include <functional>
#include <map>
#include <set>

#include "layers/feed_forward/activation.hpp"
#include "layers/embedding/embedding.hpp"
#include "forms.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/model/initialize.hpp"
#include "model_case.hpp"

namespace {

constexpr int B = 2, T = 9, V = 29;

Config make_config(const std::string& placement, NormKind norm, std::function<void(Config&)> change = {}) {
  Config c;
  c.placement = placement, c.norm = norm, c.norm_bias = norm == NormKind::layernorm;
  c.n_layer = 4, c.n_head = 2, c.channels = 20, c.context = T, c.vocab_size = V;
  c.residual_gain = false;
  if (change) change(c);
  return resolve(c);
}

// Random gains, biases and matrices. Tensors of the same name and shape are the same in every model.
Model randomized(const Config& config) {
  Model model(config);
  for (const TensorSpec& spec : model.table) {
    uint64_t seed = 1;
    for (const char c : spec.name) seed = 31 * seed + static_cast<unsigned char>(c);
    const bool matrix = spec.shape.size() > 1, gain = spec.name.ends_with(".gain");
    const float deviation = matrix ? std::sqrt(2.f / (spec.shape[0] + spec.shape[1])) : gain ? .3f : .1f;
    const std::vector<float> w = random_floats(spec.size(), seed, gain, deviation);
    std::copy(w.begin(), w.end(), &model.weights[spec.offset]);
  }
  return model;
}

std::span<float> tensor(Model& model, const Buffer& buffer, const std::string& name) {
  for (const TensorSpec& spec : model.table)
    if (spec.name == name) return {&buffer[spec.offset], spec.size()};
  FAIL("no tensor " << name);
  return {};
}

void scale(std::span<float> x, float factor) {
  for (float& v : x) v *= factor;
}

double loss_and_gradients(Model& model) {
  const std::vector<int> tokens = random_ints(B * T, 1, V), targets = random_ints(B * T, 2, V);
  const Activations a = allocate_activations(model.config, B, T, true);
  return model_loss_and_gradients(model, a, {tokens.data(), targets.data(), B, T}, 1.f / (B * T), {}) / (B * T);
}

bool is_output_matrix(const std::string& name) {
  return name.find(".attention.o.") != name.npos || name.find(".ffn.down.") != name.npos;
}

// The 1-based block: 4 for "block.3.ffn.down.weight".
int block_of(const std::string& name) { return 1 + std::stoi(name.substr(6)); }

// CHECKs that losses are equal and that the gradients of `a` are the gradients of `b` times factor(name).
void check_same_function(const std::string& what, Model& a, Model& b, double tolerance,
                         const std::function<double(const std::string&)>& factor) {
  check_error("equivalence " + what + "/loss", std::abs(loss_and_gradients(b) / loss_and_gradients(a) - 1), tolerance);
  for (const TensorSpec& spec : a.table) {
    if (spec.name.ends_with("attention.k.bias")) continue;  // zero except for rounding, because there is no RoPE
    const std::span<const float> got = tensor(b, b.gradients, spec.name);
    check_close("equivalence " + what + "/" + spec.name, tensor(a, a.gradients, spec.name),
                times(factor(spec.name), widen(got)), tolerance);
  }
}

// CHECKs that the losses and the gradients of all common tensors have the same bits.
void check_same_bits(Model& a, Model& b) {
  CHECK(loss_and_gradients(a) == loss_and_gradients(b));
  int compared = 0;
  for (const TensorSpec& one : a.table)
    for (const TensorSpec& other : b.table)
      if (one.name == other.name && one.shape == other.shape) {
        INFO(one.name);
        CHECK(same_bits({&a.gradients[one.offset], one.size()}, {&b.gradients[other.offset], other.size()}));
        compared++;
      }
  CHECK(compared == int(std::min(a.table.size(), b.table.size())));
}

// Doubles the gain of each norm whose output a matrix reads alone, and halves that matrix.
void move_gains(Model& model) {
  std::map<std::string, std::set<std::string>> readers = {
      {"attention.norm_in.gain", {"attention.q.weight", "attention.k.weight", "attention.v.weight"}},
      {"attention.norm_inner.gain", {"attention.o.weight"}},
      {"ffn.norm_in.gain", {"ffn.up.weight"}},
      {"ffn.norm_inner.gain", {"ffn.down.weight"}},
      {"final_norm.gain", {"head.transform.weight"}},
      {"head.norm.gain", {"head.weight"}}};
  std::erase_if(readers, [&](const auto& row) {
    return std::ranges::find(model.table, row.first, &TensorSpec::part) == model.table.end();
  });
  for (const TensorSpec& spec : model.table) {
    const bool gain = spec.role == Role::norm_gain && !is_output_norm(spec.group());
    CHECK(gain == readers.contains(spec.part));
    const bool read = std::ranges::any_of(readers, [&](const auto& row) { return row.second.contains(spec.part); });
    for (size_t i = 0; i < spec.size() && (gain || read); ++i) model.weights[spec.offset + i] *= gain ? 2 : .5f;
  }
}

constexpr NormKind kBoth[] = {NormKind::layernorm, NormKind::rmsnorm};
constexpr double kRounding = 5e-6;  // 3.3e-6

}  // namespace

TEST_CASE("DeepNorm is Post-LN with the branch divided by α and eps by α²", "[equivalence]") {
  for (const NormKind norm : kBoth)
    for (const char* placement : {"deepnorm", "glm-deepnorm"}) {
      Model deep = randomized(make_config(placement, norm));
      const double alpha = *deep.config.skip_scale;
      CHECK(alpha > 1.5);
      Model post = randomized(
          make_config("post", norm, [&](Config& c) { c.norm_eps = static_cast<float>(1e-5 / (alpha * alpha)); }));
      for (const TensorSpec& spec : post.table)
        if (is_output_matrix(spec.name)) scale(tensor(post, post.weights, spec.name), static_cast<float>(1 / alpha));
      check_same_function(std::string(placement) + " is post", deep, post, kRounding,
                          [&](const std::string& name) { return is_output_matrix(name) ? 1 / alpha : 1; });
    }
}

TEST_CASE("a gain whose norm a matrix reads alone can move into the matrix", "[equivalence]") {
  for (const char* placement : {"sub-ln", "siamese"}) {
    const Config config = make_config(placement, NormKind::rmsnorm, [](Config& c) {
      c.head_transform = c.embedding_norm = true, c.tied = false, c.qk_norm = QkNormKind::head;
    });
    Model before = randomized(config), after = randomized(config);
    move_gains(after);
    CHECK(loss_and_gradients(before) == loss_and_gradients(after));  // the factors are powers of two
  }
}

TEST_CASE("layer normalization scaling is Pre-LN with gains and biases scaled by 1/√l", "[equivalence]") {
  for (const NormKind norm : kBoth) {
    Model lns = randomized(make_config("lns", norm)), pre = randomized(make_config("pre", norm));
    const auto factor = [](const std::string& name) {
      return name.find(".norm_in.") == name.npos ? 1 : 1 / std::sqrt(block_of(name));
    };
    for (const TensorSpec& spec : pre.table)
      scale(tensor(pre, pre.weights, spec.name), static_cast<float>(factor(spec.name)));
    check_same_function("lns is pre", lns, pre, kRounding, factor);
  }
}

TEST_CASE("if attention adds nothing, B2T is Post-LN with half the branch", "[equivalence]") {
  for (const NormKind norm : kBoth) {  // s = a + b + f with a = norm(b): equal once b is normalized
    const auto open = [](float eps) {
      return [eps](Config& c) { c.n_layer = 1, c.embedding_norm = true, c.norm_eps = eps; };
    };
    Model b2t = randomized(make_config("b2t", norm, open(0))), post = randomized(make_config("post", norm, open(0)));
    for (Model* model : {&b2t, &post})
      for (const TensorSpec& spec : model->table) {
        const bool silent = spec.name.find(".attention.o.") != spec.name.npos || spec.name.ends_with("norm.bias") ||
                            spec.name.ends_with("attention.norm_sum.bias");
        const bool plain = spec.name == "embedding.norm.gain" || spec.name.ends_with("attention.norm_sum.gain");
        for (float& w : tensor(*model, model->weights, spec.name)) w = silent ? 0 : plain ? 1 : w;
      }
    for (const char* part : {"weight", "bias"})
      scale(tensor(post, post.weights, std::string("block.0.ffn.down.") + part), .5f);
    const double loss = loss_and_gradients(b2t);
    check_error("equivalence b2t is post/loss", std::abs(loss_and_gradients(post) / loss - 1), kRounding);
    for (const char* name : {"block.0.ffn.up.weight", "block.0.ffn.norm_sum.gain"})
      check_close(std::string("equivalence b2t is post/") + name, tensor(b2t, b2t.gradients, name),
                  widen(tensor(post, post.gradients, name)), kRounding);
    check_close("equivalence b2t is post/down", tensor(b2t, b2t.gradients, "block.0.ffn.down.weight"),
                times(.5, widen(tensor(post, post.gradients, "block.0.ffn.down.weight"))), kRounding);
  }
}

// A branch then reads its first stream alone, which the norm of the first stream begins.
TEST_CASE("without norms of its second stream, a block of SiameseNorm is one of pre-post", "[equivalence][streams]") {
  for (const NormKind norm : kBoth) {
    Model siamese = randomized(make_config("siamese", norm, [](Config& c) { c.n_layer = 1; }));
    Model one = randomized(make_config("pre-post", norm, [](Config& c) {
      c.n_layer = 1, c.embedding_norm = true, c.final_norm = true, c.branch_scale = 1 / std::sqrt(2.);
    }));
    const auto name_in_one = [](const std::string& name) {
      const size_t at = name.find("streams.first_norm");
      return at == name.npos ? name : "embedding.norm" + name.substr(name.rfind('.'));
    };
    const auto silent = [](const std::string& name) { return name.find("second_norm") != name.npos; };
    for (const TensorSpec& spec : siamese.table) {
      const std::span<float> w = tensor(siamese, siamese.weights, spec.name);
      if (silent(spec.name)) std::ranges::fill(w, 0.f);
      else std::ranges::copy(w, tensor(one, one.weights, name_in_one(spec.name)).begin());
    }
    const double loss = loss_and_gradients(siamese);
    check_error("equivalence siamese is pre-post/loss", std::abs(loss_and_gradients(one) / loss - 1), kRounding);
    for (const TensorSpec& spec : siamese.table) {
      if (silent(spec.name) || spec.name.ends_with("attention.k.bias")) continue;
      check_close("equivalence siamese is pre-post/" + spec.name, tensor(siamese, siamese.gradients, spec.name),
                  widen(tensor(one, one.gradients, name_in_one(spec.name))), kRounding);
    }
  }
}

TEST_CASE("without its bypass B2T is Post-LN, bit for bit", "[equivalence]") {
  for (const NormKind norm : kBoth) {
    Model b2t = randomized(make_config("b2t", norm)), post = randomized(make_config("post", norm));
    CHECK(loss_and_gradients(b2t) != loss_and_gradients(post));
    for (Block& block : b2t.p.blocks) block.ffn.bypass = false;
    for (Block& block : b2t.g.blocks) block.ffn.bypass = false;
    std::ranges::fill(std::span<float>{b2t.gradients.get(), b2t.floats}, 0.f);
    std::ranges::fill(std::span<float>{post.gradients.get(), post.floats}, 0.f);
    check_same_bits(b2t, post);
  }
}

TEST_CASE("a factor on a head is a factor on the columns of o that read it", "[equivalence]") {
  Model scaled = randomized(make_config("normformer", NormKind::layernorm));
  Model plain = randomized(make_config("normformer", NormKind::layernorm, [](Config& c) { c.head_scale = false; }));
  const int C = scaled.config.channels, D = scaled.config.head_dim;
  for (int l = 0; l < scaled.config.n_layer; ++l) {
    const std::string name = "block." + std::to_string(l) + ".attention.";
    const std::span<const float> c = tensor(scaled, scaled.weights, name + "head_scale.gain");
    const std::span<float> o = tensor(plain, plain.weights, name + "o.weight");
    for (size_t i = 0; i < o.size(); ++i) o[i] *= c[i % C / D];
  }
  const double loss = loss_and_gradients(scaled);
  check_error("equivalence head scale/loss", std::abs(loss_and_gradients(plain) / loss - 1), kRounding);
  for (const TensorSpec& spec : plain.table) {
    if (spec.name.ends_with("attention.k.bias") || spec.name.ends_with("attention.o.weight")) continue;
    check_close("equivalence head scale/" + spec.name, tensor(scaled, scaled.gradients, spec.name),
                widen(tensor(plain, plain.gradients, spec.name)), kRounding);
  }
}

// BLOOM and Megatron-LM with apply_residual_connection_post_layernorm: a branch reads h = norm(x) and adds its output
// to h, not to x. One more norm comes at the end.
TEST_CASE("taking the residual after the norm is Post-LN with an embedding norm", "[equivalence]") {
  const int N = B * T;
  for (const NormKind norm : kBoth) {
    Model post = randomized(make_config("post", norm, [](Config& c) { c.embedding_norm = true; }));
    const Config& config = post.config;
    const int C = config.channels, F = config.hidden, H = config.n_head, width = H * config.head_dim;
    const std::vector<int> tokens = random_ints(N, 1, V);
    std::vector<float> x(N * C), h(N * C), f(N * C), qkv(N * 3 * C), lse(N * H), mixed(N * C), up(N * F),
        active(N * F), mean(N), rstd(N);
    const NormSaved saved{mean.data(), rstd.data()};
    const auto add_to_h = [&] {
      for (int i = 0; i < N * C; ++i) x[i] = h[i] + f[i];
    };
    embedding_forward(x.data(), tokens.data(), post.p.token, N, C);
    position_forward(x.data(), post.p.position, {B, T}, C);
    const Norm* next = &post.p.embedding_norm;  // BLOOM's input_layernorm of the first block
    for (const Block& p : post.p.blocks) {
      norm_forward(h.data(), saved, x.data(), *next, N, C, false);
      linear_forward(qkv.data(), h.data(), p.attention.qkv, {N, C, 3 * C});
      attention_forward(mixed.data(), lse.data(), qkv.data(), {B, T, H, H, config.head_dim}, {}, 0);
      linear_forward(f.data(), mixed.data(), p.attention.o, {N, width, C});
      add_to_h();
      norm_forward(h.data(), saved, x.data(), p.attention.norm_sum, N, C, false);  // post_attention_layernorm
      linear_forward(up.data(), h.data(), p.ffn.up, {N, C, F});
      activation_forward(active.data(), up.data(), config.activation, N, F);
      linear_forward(f.data(), active.data(), p.ffn.down, {N, F, C});
      add_to_h();
      next = &p.ffn.norm_sum;  // input_layernorm of the next block, or ln_f
    }
    norm_forward(h.data(), saved, x.data(), *next, N, C, false);
    const Activations a = allocate_activations(config, B, T, false);
    const float* features = model_features(post, a, {tokens.data(), tokens.data(), B, T});
    CHECK(same_bits({features, size_t(N * C)}, h));
  }
}

TEST_CASE("if a norm follows the branch, the scale of its output matrix does not matter", "[equivalence]") {
  for (const NormKind norm : kBoth)
    for (const char* placement : {"sandwich", "reordered"}) {
      const Config config = make_config(placement, norm, [](Config& c) { c.bias = false, c.norm_eps = 0; });
      for (const float factor : {4.f, 3.f}) {  // scaling by 4 is exact
        Model model = randomized(config), scaled = randomized(config);
        for (const TensorSpec& spec : scaled.table)
          if (is_output_matrix(spec.name)) scale(tensor(scaled, scaled.weights, spec.name), factor);
        const std::string what = factor == 4 ? "W_out·4 " : "W_out·3 ";
        check_same_function(what + placement, model, scaled, factor == 4 ? 0 : kRounding,
                            [&](const std::string& name) { return is_output_matrix(name) ? factor : 1; });
      }
      Model model = randomized(config);
      loss_and_gradients(model);
      for (const TensorSpec& spec : model.table) {
        if (!is_output_matrix(spec.name)) continue;
        const std::vector<double> w = widen(tensor(model, model.weights, spec.name));
        const std::vector<double> dw = widen(tensor(model, model.gradients, spec.name));
        double product = 0;
        for (size_t i = 0; i < w.size(); ++i) product += w[i] * dw[i];
        check_error(std::string("equivalence <W,dW>, ") + placement + "/" + spec.name,
                    std::abs(product) / (norm_of(w) * norm_of(dw)), 5e-8);  // 1.6e-8
      }
    }
}

TEST_CASE("mix-ln is Pre-LN at fraction 0 and Post-LN with a final norm at 1", "[equivalence]") {
  for (const NormKind norm : kBoth) {
    Model none = randomized(make_config("mix-ln", norm, [](Config& c) { c.mix_fraction = 0; }));
    Model all = randomized(make_config("mix-ln", norm, [](Config& c) { c.mix_fraction = 1; }));
    Model pre = randomized(make_config("pre", norm));
    Model post = randomized(make_config("post", norm, [](Config& c) { c.final_norm = true; }));
    check_same_bits(none, pre);
    check_same_bits(all, post);
  }
}

TEST_CASE("a gain of 1 changes nothing", "[equivalence]") {
  for (const auto& [with, without] : {std::pair{"layerscale", "pre"}, {"rezero", "none"}, {"admin", "post"}}) {
    Model a = randomized(make_config(with, NormKind::layernorm));
    Model b = randomized(make_config(without, NormKind::layernorm));
    for (const TensorSpec& spec : a.table)
      if (spec.name.ends_with(".scale.gain") || spec.name.ends_with(".skip.gain"))
        std::fill_n(&a.weights[spec.offset], spec.size(), 1.f);
    check_same_bits(a, b);
  }
}

bool is_word_matrix(const std::string& name) { return name == "embedding.token.weight" || name == "head.weight"; }

Config with_fix_norm(const std::string& placement, bool tied) {
  return make_config(placement, NormKind::layernorm, [=](Config& c) { c.fix_norm = true, c.tied = tied; });
}

TEST_CASE("FixNorm does not see how long a word vector is", "[equivalence]") {
  for (const bool tied : {true, false}) {
    const Config config = with_fix_norm("post", tied);
    CHECK(*config.embedding_scale == std::sqrt(20.));
    Model one = randomized(config), longer = randomized(config);
    for (const TensorSpec& spec : longer.table)
      if (is_word_matrix(spec.name)) scale(tensor(longer, longer.weights, spec.name), 8);
    CHECK(loss_and_gradients(one) == loss_and_gradients(longer));
    for (const TensorSpec& spec : one.table) {
      INFO(spec.name);
      if (is_word_matrix(spec.name)) scale(tensor(longer, longer.gradients, spec.name), 8);
      CHECK(same_bits(tensor(one, one.gradients, spec.name), tensor(longer, longer.gradients, spec.name)));
    }
  }
}

TEST_CASE("without FixNorm, unit rows give the same logits and other gradients, bit for bit", "[equivalence]") {
  for (const bool tied : {true, false}) {
    Model fixed = randomized(with_fix_norm("pre", tied));
    Model plain = without_fix_norm(randomized(fixed.config));
    CHECK_FALSE(plain.config.fix_norm);
    CHECK(loss_and_gradients(fixed) == loss_and_gradients(plain));
    for (const TensorSpec& spec : fixed.table) {
      const std::span<float> a = tensor(fixed, fixed.gradients, spec.name);
      CHECK(same_bits(a, tensor(plain, plain.gradients, spec.name)) != is_word_matrix(spec.name));
    }
  }
}

TEST_CASE("a gate of 0 makes GPAS Pre-LN, bit for bit", "[equivalence]") {
  Model gpas = randomized(make_config("gpas", NormKind::layernorm));
  Model pre = randomized(make_config("pre", NormKind::layernorm));
  CHECK(loss_and_gradients(gpas) != loss_and_gradients(pre));
  for (const TensorSpec& spec : gpas.table)
    if (spec.name.ends_with(".gpas.gate")) gpas.weights[spec.offset] = 0;
  for (Model* model : {&gpas, &pre}) std::fill_n(model->gradients.get(), model->gradient_floats, 0.f);
  check_same_bits(gpas, pre);
}

TEST_CASE("if attention adds nothing, parallel and sequential blocks are equal", "[equivalence]") {
  constexpr auto norm = NormKind::layernorm;
  Model sequential = randomized(make_config("pre", norm));
  Model parallel = randomized(make_config("pre", norm, [](Config& c) { c.block = BlockForm::parallel; }));
  CHECK(loss_and_gradients(sequential) != loss_and_gradients(parallel));
  for (Model* model : {&sequential, &parallel})
    for (const TensorSpec& spec : model->table)
      if (spec.name.find(".attention.o.") != spec.name.npos) scale(tensor(*model, model->weights, spec.name), 0);
  CHECK(loss_and_gradients(sequential) == loss_and_gradients(parallel));
}

TEST_CASE("with one head, QK-norm by head and over all heads are equal", "[equivalence]") {
  const auto one_head = [](QkNormKind kind) {
    return [kind](Config& c) { c.qk_norm = kind, c.n_head = 1; };
  };
  for (const NormKind norm : kBoth) {
    Model head = randomized(make_config("pre", norm, one_head(QkNormKind::head)));
    Model full = randomized(make_config("pre", norm, one_head(QkNormKind::full)));
    check_same_bits(head, full);
  }
}

TEST_CASE("a model with hyper-connections starts as Pre-LN", "[model][streams]") {
  for (const auto& [norm, name] : kNormKinds) {
    if (!norm_row(norm).row_norm) continue;  // the sum of S equal streams is S times as large: a row norm hides it
    const auto exact = [](Config& c) { c.norm_eps = 0; };
    Model pre = randomized(make_config("pre", norm, exact));
    for (const char* placement : {"hyper", "hyper-static", "mhc", "hyper-independent"}) {
      Model model = randomized(make_config(placement, norm, exact));
      Model fresh(model.config);
      initialize(fresh, 1);
      for (const TensorSpec& spec : model.table)
        if (spec.role == Role::streams || spec.name.find(".streams.") != spec.name.npos)
          std::copy_n(&fresh.weights[spec.offset], spec.size(), &model.weights[spec.offset]);
      // A weight that is not 0 makes the streams a little different from the start.
      const double tolerance = is_hyper(model.config.placement_row->streams) ? kRounding : 2e-2;
      check_error(std::string("equivalence ") + placement + " starts as pre/" + name,
                  std::abs(loss_and_gradients(model) / loss_and_gradients(pre) - 1), tolerance);
    }
  }
}

// With one block of branches, the mean of the embedding and the sum of all branches is half of their sum.
TEST_CASE("with one block and queries of 0, attention residuals are Pre-LN", "[model][streams]") {
  for (const NormKind norm : kBoth) {
    const auto exact = [](Config& c) { c.norm_eps = 0, c.residual_block = 100; };
    Model pre = randomized(make_config("pre", norm, exact)), model = randomized(make_config("attnres", norm, exact));
    for (const TensorSpec& spec : model.table)
      if (spec.name.ends_with("streams.query"))
        std::ranges::fill(tensor(model, model.weights, spec.name), 0.f);
    check_error("equivalence attnres is pre/loss", std::abs(loss_and_gradients(model) / loss_and_gradients(pre) - 1),
                kRounding);
    for (const TensorSpec& spec : pre.table) {
      if (spec.name.ends_with("attention.k.bias")) continue;
      check_close("equivalence attnres is pre/" + spec.name, tensor(model, model.gradients, spec.name),
                  widen(tensor(pre, pre.gradients, spec.name)), kRounding);
    }
  }
}

TEST_CASE("with QK-norm, the scale of the query and key matrices does not matter", "[equivalence]") {
  for (const QkNormKind kind : {QkNormKind::head, QkNormKind::full}) {
    const Config config =
        make_config("pre", NormKind::rmsnorm, [&](Config& c) { c.qk_norm = kind, c.bias = false, c.norm_eps = 0; });
    Model model = randomized(config), scaled = randomized(config);
    const auto is_qk = [](const std::string& name) {
      return name.ends_with(".q.weight") || name.ends_with(".k.weight");
    };
    for (const TensorSpec& spec : scaled.table)
      if (is_qk(spec.name)) scale(tensor(scaled, scaled.weights, spec.name), 4);
    check_same_function("scale of q and k", model, scaled, 0,
                        [&](const std::string& name) { return is_qk(name) ? 4 : 1; });
  }
}
