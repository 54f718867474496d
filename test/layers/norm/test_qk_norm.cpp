// QK-norm by itself. test_forms.cpp and test_textbook_model.cpp test it in whole models.

#include "layers/norm/qk_norm.hpp"

#include "textbook.hpp"

namespace {

struct Case {
  Config config;
  int N;
  std::vector<float> weights = random_floats(4 * 512, 1, 1, .3f), gradients = std::vector<float>(4 * 512), kept;
  QkNorm p, g;
  QkNormSaved saved;

  Case(QkNormKind form, NormKind kind, int heads, int kv_heads, int D, int rows) : N(rows) {
    config.qk_norm = form, config.norm = kind, config.n_head = heads, config.kv_heads = kv_heads, config.head_dim = D;
    config.channels = heads * D, config.vocab_size = 7;
    config = resolve(config);
    Layout layout(weights.data()), gradient_layout(gradients.data()), measure;
    p = declare_qk_norm(layout, config, "a");
    g = declare_qk_norm(gradient_layout, config, "a");
    declare_qk_norm_saved(measure, config, "a", N, N);
    kept.resize(measure.size());
    Layout saved_layout(kept.data());
    saved = declare_qk_norm_saved(saved_layout, config, "a", N, N);
  }
  QkNormRows rows_of(std::vector<float>& x) const {
    const size_t width = config.qkv_width(), q = size_t(config.n_head) * config.head_dim;
    return {x.data(), x.data() + q, x.data() + q + size_t(config.kv_heads) * config.head_dim, width, width, N, N};
  }
  // Forward of qkv and backward of d, both in place and (N, q|k|v).
  void run(std::vector<float>& qkv, std::vector<float>& d) {
    std::vector<float> scratch = garbage(N * config.n_head * config.head_dim);
    qk_norm_forward(rows_of(qkv), saved, scratch.data(), p, config);
    qk_norm_backward(rows_of(d), g, scratch.data(), saved, p, config);
  }
};

}  // namespace

TEST_CASE("QK-norm agrees with the textbook and leaves values unchanged", "[qk_norm][textbook]") {
  for (const QkNormKind form : {QkNormKind::head, QkNormKind::full})
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
      for (const auto& [H, KV, D, N] : {std::array{1, 1, 2, 1}, {4, 2, 7, 17}, {3, 1, 33, 5}}) {
        Case c(form, kind, H, KV, D, N);
        const size_t stride = c.config.qkv_width();
        const std::vector<float> x = random_floats(N * stride, 2, .5f), dy = random_floats(N * stride, 3);
        std::vector<float> y = x, dx = dy;
        c.run(y, dx);

        Doubles want_y = widen(x), want_dx = widen(dy);
        const std::string name = "qk-norm vs textbook/" + std::string(name_of(kQkNormKinds, form)) + " " +
                                 name_of(kNormKinds, kind) + at({H, KV, D, N});
        for (const bool of_k : {false, true}) {
          const int heads = of_k ? KV : H, first = of_k ? H * D : 0;
          const auto [count, width] = qk_rows(c.config, heads);
          const Norm &p = of_k ? c.p.k : c.p.q, &g = of_k ? c.g.k : c.g.q;
          Doubles gain = widen({p.gain, size_t(width)}), dgain(width), bias, dbias(width);
          if (p.bias) bias = widen({p.bias, size_t(width)});
          const textbook::Norm<double> tp{kind, p.eps, gain.data(), p.bias ? bias.data() : nullptr},
              tg{kind, p.eps, dgain.data(), p.bias ? dbias.data() : nullptr};
          textbook::QkNormSaved<double> saved;
          textbook::qk_norm_forward(&want_y[first], saved, tp, N, count, width, stride);
          textbook::qk_norm_backward(&want_dx[first], tg, saved, tp, N, count, width, stride);
          const double terms = std::sqrt(double(N) * count * width);
          check_close(name + (of_k ? "k" : "q") + "/dgain", {g.gain, size_t(width)}, dgain, 1e-6, terms);
          if (p.bias) check_close(name + (of_k ? "k" : "q") + "/dbias", {g.bias, size_t(width)}, dbias, 1e-6, terms);
        }
        check_close(name + "y", y, want_y, 1e-6);
        check_close(name + "dx", dx, want_dx, 1e-6);
        for (int n = 0; n < N; ++n)
          for (size_t i = (H + KV) * D; i < stride; ++i) CHECK(y[n * stride + i] == x[n * stride + i]);
      }
}

TEST_CASE("QK-norm is the same for any number of threads", "[qk_norm]") {
  for (const QkNormKind form : {QkNormKind::head, QkNormKind::full})
    check_same_for_all_threads([&] {
      Case c(form, NormKind::layernorm, 4, 2, 16, 300);
      std::vector<float> y = random_floats(300 * c.config.qkv_width(), 2), d = random_floats(y.size(), 3);
      c.run(y, d);
      return joined({y, d, c.gradients});
    });
}
