// The fast layers against the textbook, which test_textbook.cpp certifies. Gradients of parameters start with random
// numbers, to which both add. All other outputs start as NaN.

#include <array>

#include "branch.hpp"
#include "norm_layer.hpp"
#include "textbook.hpp"

constexpr double kTolerance = 1e-6;
constexpr int kSizes[] = {1, 7, 17, 33};

TEST_CASE("embedding and learned position agree with the textbook", "[embedding][textbook]") {
  const int V = 5, first = 2;
  for (const int T : kSizes)
    for (const int C : {1, 7, 33, 65}) {
      const int B = 3, N = B * T;
      const float scale = T == 7 ? 1 : 2.5f;
      const std::string name = "embedding vs textbook" + at({T, C});
      const std::vector<int> tokens = random_ints(N, 1, V);
      const std::vector<float> weight = random_floats(V * C, 2), position = random_floats((first + T) * C, 3),
                               dx = random_floats(N * C, 4);
      std::vector<float> x = garbage(N * C), dweight = random_floats(V * C, 5), dposition = random_floats(T * C, 6);
      Doubles want(N * C), want_dweight = widen(dweight), want_dposition = widen(dposition);

      embedding_forward(x.data(), tokens.data(), weight.data(), N, C, scale);
      position_forward(x.data(), position.data(), {B, T, first}, C);
      textbook::embedding_forward(want.data(), tokens.data(), widen(weight).data(), N, C, double(scale));
      textbook::learned_position_forward(want.data(), widen(position).data(), textbook::positions(B, T, first), C);
      check_close(name + "x", x, want, kTolerance);

      embedding_backward(dweight.data(), tokens.data(), dx.data(), N, C, scale);
      learned_position_backward(dposition.data(), dx.data(), {B, T}, C);
      textbook::embedding_backward(want_dweight.data(), tokens.data(), widen(dx).data(), N, C, double(scale));
      textbook::learned_position_backward(want_dposition.data(), widen(dx).data(), textbook::positions(B, T), C);
      check_close(name + "dweight", dweight, want_dweight, kTolerance);
      check_close(name + "dposition", dposition, want_dposition, kTolerance);
    }
}

TEST_CASE("unit rows agree with the textbook", "[embedding][textbook]") {
  for (const int V : kSizes)
    for (const int C : {2, 7, 33, 65}) {
      const std::string name = "unit rows vs textbook" + at({V, C});
      std::vector<float> weight = random_floats(V * C, 1, .5f), dunit = random_floats(V * C, 2),
                         dweight = random_floats(V * C, 3), unit = garbage(V * C), scale = garbage(V);
      Doubles want(V * C), want_dweight = widen(dweight);
      const UnitRows rows{unit.data(), scale.data(), dunit.data()};
      unit_rows_forward(rows, weight.data(), V, C);
      textbook::unit_rows_forward(want.data(), widen(weight).data(), V, C);
      check_close(name + "unit", unit, want, kTolerance);
      unit_rows_backward(dweight.data(), rows, V, C);
      textbook::unit_rows_backward(want_dweight.data(), widen(dunit).data(), widen(weight).data(), V, C);
      check_close(name + "dweight", dweight, want_dweight, kTolerance);
    }
}

TEST_CASE("sinusoids agree with the textbook", "[position][textbook]") {
  for (const int C : {1, 7, 64}) {
    const int T = 600, first = 3;
    const Buffer table = sinusoids(first + T, C);
    std::vector<float> x = random_floats(2 * T * C, 1);
    Doubles want = widen(x);
    position_forward(x.data(), table.get(), {2, T, first}, C);
    textbook::sinusoidal_position_forward(want.data(), textbook::positions(2, T, first), C);
    check_close("sinusoids vs textbook/" + std::to_string(C), x, want, kTolerance);
  }
}

TEST_CASE("ALiBi's slopes agree with the textbook", "[position][textbook]") {
  for (int H = 1; H <= 130; ++H) {
    const Buffer slopes = alibi_slopes(H);
    for (int h = 0; h < H; ++h) CHECK(slopes[h] == static_cast<float>(textbook::alibi_slope(h, H)));
  }
}

TEST_CASE("RoPE agrees with the textbook", "[position][textbook]") {
  const int B = 2, gap = 3;  // extra floats after the heads of a row, which must not change
  for (const int T : kSizes)
    for (const auto& [D, R] : {std::array{2, 2}, {6, 6}, {34, 34}, {34, 10}, {10, 4}})
      for (const int heads : {1, 3}) {
        const std::string name = "rope vs textbook" + at({T, D, R, heads});
        const int stride = heads * D + gap;
        const RopeTable table(T + 5, R, 10000);
        const std::vector<float> x = random_floats(B * T * stride, 1);
        for (const int first : {0, 5}) {
          std::vector<float> y = x;
          Doubles want = widen(x);
          rope_forward(y.data(), table, {B, T, first}, heads, D, stride);
          textbook::rope_forward(want.data(), {10000, size_t(R)}, textbook::positions(B, T, first), heads, D, stride);
          check_close(name + "y", y, want, kTolerance);
        }
        std::vector<float> dx = x;
        Doubles want = widen(x);
        rope_backward(dx.data(), table, {B, T}, heads, D, stride);
        textbook::rope_backward(want.data(), {10000, size_t(R)}, textbook::positions(B, T), heads, D, stride);
        check_close(name + "dx", dx, want, kTolerance);
      }
}

namespace {

void compare_norms(const Config& config, int N, int C) {
  const NormKind kind = config.norm;
  const std::string name = std::string(name_of(kNormKinds, kind)) + " vs textbook" + at({N, C});
  const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 4);
  NormLayer norm(config, N, C);
  for (const TensorSpec& spec : norm.table) {  // running statistics have no gradient
    const std::vector<float> start = random_floats(spec.size(), 5 + spec.offset);
    if (spec.trained) std::copy(start.begin(), start.end(), &norm.gradients[spec.offset]);
  }
  Tensors<double> w, g;
  for (const TensorSpec& spec : norm.table)
    w.push_back(widen(norm.weight(spec))), g.push_back(widen(norm.gradient(spec)));
  const textbook::Norm<double> p = textbook_norm(config, w), want_g = textbook_norm(config, g);
  textbook::NormSaved<double> saved;
  Doubles want(N * C);
  if (kind == NormKind::batchnorm) {
    textbook::Norm<double> evaluating = p;
    evaluating.training = false;
    textbook::norm_forward(want.data(), saved, widen(x).data(), evaluating, N, C);
    check_close(name + "evaluated", norm.forward(x, false), want, kTolerance);
  }
  textbook::norm_forward(want.data(), saved, widen(x).data(), p, N, C);
  check_close(name + "y", norm.forward(x), want, kTolerance);

  textbook::norm_backward(want.data(), want_g, widen(dy).data(), widen(x).data(), saved, p, N, C);
  // With few numbers per mean, dx nearly cancels, so its error is measured relative to its terms.
  double terms = 0;
  const bool points = kind == NormKind::dyt || kind == NormKind::derf;
  for (int i = 0; i < N * C && !points; ++i) {
    const double r = saved.rstd[kind == NormKind::batchnorm ? i % C : i / C];
    terms += std::pow(r * double(dy[i]) * w[0][i % w[0].size()], 2);
  }
  check_close(name + "dx", norm.backward(dy, x), want, kTolerance, 1e3 * std::sqrt(terms));
  for (size_t t = 0; t < norm.table.size(); ++t) {
    const TensorSpec& spec = norm.table[t];
    if (spec.trained)
      check_close(name + "d" + spec.name, norm.gradient(spec), g[t], kTolerance,
                  10 * sum_factor(spec.size()) * norm_of(widen(dy)));
    else
      check_close(name + spec.name, norm.weight(spec), w[t], kTolerance);
  }
}

}  // namespace

TEST_CASE("norms agree with the textbook", "[norm][textbook]") {
  for (const auto& [kind, name] : kNormKinds)
    for (const bool bias : {true, false})
      for (const bool offset : {false, true}) {
        if (bias && kind == NormKind::scalenorm) continue;
        if (offset && !norm_row(kind).row_norm) continue;
        const Config config = norm_config(kind, bias, 1e-3f, offset);
        for (const int N : kSizes)
          for (const int C : kSizes) compare_norms(config, N, C);
        compare_norms(config, 130, 200);
      }
  compare_norms(norm_config(NormKind::gatednorm), 2200, 9);  // several blocks of rows in a part
}

namespace {

void compare_linear(bool has_bias, int N, int I, int O) {
  const std::string name = "linear vs textbook" + at({N, I, O});
  std::vector<float> weight = random_floats(O * I, 1), bias = random_floats(O, 2),
                     dweight = random_floats(O * I, 5), dbias = random_floats(O, 6), y = garbage(N * O),
                     dx = garbage(N * I);
  const std::vector<float> x = random_floats(N * I, 3), dy = random_floats(N * O, 4);
  const Linear p{weight.data(), has_bias ? bias.data() : nullptr},
      g{dweight.data(), has_bias ? dbias.data() : nullptr};
  const Doubles p_weight = widen(weight), p_bias = widen(bias);
  Doubles want(N * O), want_dx(N * I), want_dweight = widen(dweight), want_dbias = widen(dbias);

  const textbook::LinearShape sizes{size_t(N), size_t(I), size_t(O)};
  linear_forward(y.data(), x.data(), p, {N, I, O});
  textbook::linear_forward(want.data(), widen(x).data(), p_weight.data(), has_bias ? p_bias.data() : nullptr,
                           sizes);
  check_close(name + "y", y, want, kTolerance);

  linear_backward(dx.data(), g, dy.data(), x.data(), p, {N, I, O});
  textbook::linear_backward(want_dx.data(), want_dweight.data(), has_bias ? want_dbias.data() : nullptr,
                            widen(dy).data(), widen(x).data(), p_weight.data(), sizes);
  check_close(name + "dx", dx, want_dx, kTolerance);
  check_close(name + "dweight", dweight, want_dweight, kTolerance);
  check_close(name + "dbias", dbias, want_dbias, kTolerance);
}

}  // namespace

TEST_CASE("linear agrees with the textbook", "[linear][textbook]") {
  for (const int N : kSizes)
    for (const int I : kSizes)
      for (const int O : kSizes) compare_linear((N + I + O) % 2 == 0, N, I, O);
  compare_linear(true, 13, 300, 3100);  // past the blocks of gemm in each of the three sizes
  compare_linear(true, 500, 260, 40);
  compare_linear(false, 270, 35, 500);
  compare_linear(true, 3, 3100, 270);
}

TEST_CASE("activations agree with the textbook", "[activation][textbook]") {
  for (const auto& entry : kActivations)
    for (const int N : kSizes)
      for (const int F : {1, 7, 17, 33, 100})
        for (const float deviation : {1.f, 30.f}) {
          const Activation kind = entry.value;
          const int width = width_of(kind, F);
          const std::string name = std::string(entry.name) + " vs textbook" + at({N, F});
          const std::vector<float> x = random_floats(N * width, 1, 0, deviation), dy = random_floats(N * F, 2);
          std::vector<float> y = garbage(N * F), dx = garbage(N * width);
          Doubles want(N * F), want_dx(N * width);
          activation_forward(y.data(), x.data(), kind, N, F);
          textbook::activation_forward(want.data(), widen(x).data(), kind, N, F);
          check_close(name + "y", y, want, kTolerance, 1e3 * norm_of(widen(x)));
          activation_backward(dx.data(), dy.data(), x.data(), kind, N, F);
          textbook::activation_backward(want_dx.data(), widen(dy).data(), widen(x).data(), kind, N, F);
          check_close(name + "dx", dx, want_dx, kTolerance, 1e3 * norm_of(widen(dy)));
        }
}

TEST_CASE("dropout agrees with the textbook", "[dropout]") {
  const int B = 3, T = 50, C = 70;
  const Dropout dropout{.2f, 5, 6, 0};
  std::vector<float> mask(B * T * C, 1), y = random_floats(B * T * C, 1, 3), dx = random_floats(B * T * C, 2);
  Doubles want = widen(y), want_dx = widen(dx);
  for (std::vector<float>* x : {&mask, &y, &dx}) dropout_apply(x->data(), dropout, 1, DropoutSite::ffn_out, B, T, C);
  textbook::dropout_forward(want.data(), widen(mask).data(), mask.size());
  textbook::dropout_backward(want_dx.data(), widen(mask).data(), mask.size());
  check_close("dropout vs textbook/y", y, want, kTolerance);
  check_close("dropout vs textbook/dx", dx, want_dx, kTolerance);
}

TEST_CASE("residual branch agrees with the textbook for every placement", "[residual][textbook]") {
  const int N = 17, C = 33;
  for (const Placement& row : placements())
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
      if (row.streams != StreamRule::single) continue;  // test_streams.cpp compares these
      Config config;
      config.placement = row.name, config.norm = kind, config.norm_bias = true, config.vocab_size = 1;
      config.channels = C, config.n_head = 1, config.skip_scale = 1.7;
      config = resolve(config);
      const std::string name =
          "branch vs textbook/" + config.placement + "/" + name_of(kNormKinds, kind) + "/";

      std::vector<float> weights(1000), gradients(1000);
      const auto declare = [&](std::vector<float>& buffer) {
        Layout layout(buffer.data());
        Branch branch;
        branch.streams = declare_streams(layout, config, "b", 2 * kLayer);
        declare_branch_in(branch, layout, config, "b", kLayer);
        declare_branch_out(branch, layout, config, "b", kLayer);
        Branch other;
        declare_shared({&branch, &other}, layout, config, kLayer);
        return std::pair{branch, layout.table()};
      };
      const auto [p, table] = declare(weights);
      const Branch g = declare(gradients).first;
      Tensors<double> in(10), want_g(10);
      in[0] = random_doubles(N * C, 1), want_g[0] = Doubles(N * C);
      const std::vector<bool> there = {row.norm_in,  row.norm_in,  row.norm_out,                  row.norm_out,
                                       row.norm_sum, row.norm_sum, row.gain != LearnedGain::none, row.gpas,
                                       row.skip_gain};
      for (size_t i = 0, t = 0; i < there.size(); ++i) {
        if (!there[i]) continue;
        const size_t size = table[t].size();
        const std::vector<float> w = random_floats(size, i + 2, i % 2 == 0, .3f), start = random_floats(size, i + 10);
        std::copy(w.begin(), w.end(), weights.begin() + table[t].offset);
        std::copy(start.begin(), start.end(), gradients.begin() + table[t].offset);
        in[i + 1] = widen(w), want_g[i + 1] = widen(start);
        t++;
      }

      std::vector<float> kept(10000);
      Layout layout(kept.data());
      BranchSaved saved = declare_saved(layout, config, kLayer, N, C);
      const Neighbors<float> F{N, C};
      std::vector<float> x(in[0].begin(), in[0].end()), f = garbage(N * C), normed = garbage(N * C),
                                                        y = garbage(N * C);
      saved.f = f.data(), saved.y = y.data();
      const float* u = enter(saved, {}, x.data(), p, {N, C});
      F.forward(f.data(), u);
      leave(saved, {}, normed.data(), x.data(), p, {N, C});
      textbook::BranchSaved<double> textbook_saved;
      Doubles want(N * C);
      auto tp = branch_of(row, in, kind == NormKind::layernorm),
           tg = branch_of(row, want_g, kind == NormKind::layernorm);
      tp.skip = p.streams.skip, tp.in_scale = p.in_scale;
      const textbook::Gpas<double> gate{row.gpas ? in[8].data() : nullptr}, dgate{want_g[8].data()};
      const Neighbors<double> plain{N, C};
      textbook::SkipGain<double, const Neighbors<double>> gained{
          plain, {in[9].data()}, {want_g[9].data()}, tp.skip, tp.out_scale, N, C};
      if (row.skip_gain) tp.skip = 0;
      const auto with_sublayer = [&](auto pass) { return row.skip_gain ? pass(gained) : pass(plain); };
      with_sublayer([&](auto& f) {
        textbook::branch_forward(want.data(), textbook_saved, in[0].data(), tp, f, {N, C});
      });
      textbook::gpas_forward(want.data(), textbook_saved.s.data(), gate, N, C);
      check_close(name + "y", y, want, kTolerance);

      std::vector<float> d = random_floats(N * C, 9), scratch = garbage(N * C), du = garbage(N * C);
      textbook::gpas_backward(dgate, widen(d).data(), textbook_saved.s.data(), gate, N, C);
      with_sublayer([&](auto& f) {
        textbook::branch_backward(want_g[0].data(), tg, widen(d).data(), in[0].data(), textbook_saved, tp, f, {N, C});
      });
      const float* df = leave_backward(d.data(), scratch.data(), g, {}, x.data(), saved, p, {N, C});
      F.backward(du.data(), df, u);
      enter_backward(d.data(), g, {}, du.data(), x.data(), saved, p, {N, C});
      check_close(name + "dx", d, want_g[0], kTolerance);
      for (size_t i = 0, t = 0; i < there.size(); ++i) {
        if (!there[i]) continue;
        const std::span<const float> got(gradients.data() + table[t].offset, table[t].size());
        check_close(name + "gradient " + std::to_string(i), got, want_g[i + 1], kTolerance);
        t++;
      }
    }
}

TEST_CASE("cross-entropy agrees with the textbook", "[cross_entropy][textbook]") {
  for (const int N : kSizes)
    for (const int V : {1, 7, 17, 33, 1000})
      for (const float shift : {0.f, 200.f, -200.f}) {  // exp(200) overflows
        const std::string name = "cross-entropy vs textbook" + at({N, V});
        const std::vector<float> logits = random_floats(N * V, 1, shift, 2);
        std::vector<int> targets = random_ints(N, 2, V);
        if (N > 1) targets[1] = kIgnore;
        std::vector<float> losses = garbage(N), dlogits = garbage(N * V), in_place = logits;
        Doubles want(N), want_dlogits(N * V);
        cross_entropy(losses.data(), dlogits.data(), logits.data(), targets.data(), .7f, N, V);
        textbook::cross_entropy_forward(want.data(), widen(logits).data(), targets.data(), N, V);
        textbook::cross_entropy_backward(want_dlogits.data(), widen(logits).data(), targets.data(),
                                         double(.7f), N, V);
        check_close(name + "losses", losses, want, kTolerance);
        check_close(name + "dlogits", dlogits, want_dlogits, kTolerance);

        cross_entropy(losses.data(), in_place.data(), in_place.data(), targets.data(), .7f, N, V);
        CHECK(same_bits(in_place, dlogits));
        std::vector<float> alone = garbage(N);
        cross_entropy(alone.data(), nullptr, logits.data(), targets.data(), .7f, N, V);
        CHECK(same_bits(alone, losses));
      }
}

TEST_CASE("classifier agrees with the textbook, in one and in several chunks of rows",
          "[cross_entropy][textbook]") {
  for (const auto& [N, C, V, has_bias, cap] : {std::tuple{17, 7, 33, false, 0.f}, {300, 5, 20000, false, 0.f},
                                               {17, 7, 33, true, 0.f}, {17, 7, 33, false, 1.5f},
                                               {300, 5, 20000, true, 1.5f}}) {
    const std::string name =
        "classifier vs textbook" + at({N, C, V}) + (has_bias ? "bias/" : "") + (cap > 0 ? "cap/" : "");
    const int rows = classifier_rows(N, V);
    CHECK((V == 20000) == (rows < N));
    const std::vector<float> x = random_floats(N * C, 1);
    std::vector<float> weight = random_floats(V * C, 2), bias = random_floats(V, 5),
                       dbias = random_floats(V, 6, 0, .1f);
    std::vector<int> targets = random_ints(N, 3, V);
    targets[2] = targets[N - 1] = kIgnore;
    std::vector<float> losses = garbage(N), dx = garbage(N * C), dweight = random_floats(V * C, 4, 0, .1f),
                       logits = garbage(size_t(rows) * V);
    Doubles want_logits(size_t(N) * V), want(N), dlogits(size_t(N) * V), want_dx(N * C),
        want_dweight = widen(dweight), want_dbias = widen(dbias);
    const Head p{{weight.data(), has_bias ? bias.data() : nullptr}, {.cap = cap}},
        g{{dweight.data(), has_bias ? dbias.data() : nullptr}, {}};
    classifier({losses.data(), logits.data()}, dx.data(), g, x.data(), p, targets.data(), .7f, {N, C, V});
    const textbook::LinearShape sizes{size_t(N), size_t(C), size_t(V)};
    textbook::linear_forward<double>(want_logits.data(), widen(x).data(), widen(weight).data(),
                                     has_bias ? widen(bias).data() : nullptr, sizes);
    const Doubles uncapped = want_logits;
    if (cap > 0) textbook::soft_cap_forward(want_logits.data(), uncapped.data(), cap, uncapped.size());
    textbook::cross_entropy_forward(want.data(), want_logits.data(), targets.data(), N, V);
    textbook::cross_entropy_backward(dlogits.data(), want_logits.data(), targets.data(), double(.7f), N, V);
    if (cap > 0)
      textbook::soft_cap_backward(dlogits.data(), dlogits.data(), uncapped.data(), cap, uncapped.size());
    textbook::linear_backward<double>(want_dx.data(), want_dweight.data(), has_bias ? want_dbias.data() : nullptr,
                                      dlogits.data(), widen(x).data(), widen(weight).data(), sizes);
    check_close(name + "losses", losses, want, kTolerance);
    // A sum of V terms that nearly cancel: 1.6e-6 at V = 20000 on a processor without fused multiply-add.
    check_close(name + "dx", dx, want_dx, 3 * kTolerance);
    check_close(name + "dweight", dweight, want_dweight, kTolerance);
    check_close(name + "dbias", dbias, want_dbias, kTolerance);

    std::vector<float> alone = garbage(N);
    classifier({alone.data(), logits.data()}, nullptr, {}, x.data(), p, targets.data(), 1, {N, C, V});
    CHECK(same_bits(alone, losses));
  }
}

TEST_CASE("logits of one row and of many agree with the textbook", "[cross_entropy][textbook]") {
  for (const auto& [N, has_bias, cap] : {std::tuple{1, false, 0.f}, {1, true, 0.f}, {1, true, 2.f}, {70, true, 2.f}}) {
    const int C = 33, V = 517;
    const std::vector<float> x = random_floats(N * C, 1);
    std::vector<float> weight = random_floats(V * C, 2), bias = random_floats(V, 5), logits = garbage(N * V);
    Doubles raw(N * V), want(N * V);
    head_forward(logits.data(), x.data(), {{weight.data(), has_bias ? bias.data() : nullptr}, {.cap = cap}}, N, C, V);
    textbook::linear_forward<double>(raw.data(), widen(x).data(), widen(weight).data(),
                                     has_bias ? widen(bias).data() : nullptr, {size_t(N), C, V});
    want = raw;
    if (cap > 0) textbook::soft_cap_forward(want.data(), raw.data(), cap, raw.size());
    check_close("head vs textbook" + at({N, C, V}) + (has_bias ? "bias/" : "") + (cap > 0 ? "cap/" : ""), logits, want,
                4e-7);  // 1.0e-7
  }
}

TEST_CASE("AdamW, gradient norm and clipping agree with the textbook", "[optimizer][textbook]") {
  Layout layout;
  layout.take("matrix", Role::ffn_in, {7, 17});
  layout.take("vector", Role::ffn_in, {33});
  layout.take_joined({{"running", Role::norm, {5}, {}, false, false}});  // saved with the model, but not trained
  layout.take("large", Role::ffn_in, {300, 301});                          // more than one piece
  layout.take("small", Role::ffn_in, {3, 1});
  std::vector<TensorSpec> table = layout.table();
  assign_optimizers(table, kAdamWAlone);
  const size_t n = layout.size();
  const std::vector<float> before = random_floats(n, 1);
  std::vector<float> w = before, state(state_floats(table));
  Doubles want = widen(w), want_m(n), want_v(n);
  const OptimizerOptions options{.8f, .9f, 1e-3f, .1f};
  const float lr = .1f;
  for (int t = 1; t <= 10; ++t) {
    const std::vector<float> g = random_floats(n, t + 10, 0, t % 3 == 0 ? 1e-3f : 1.f);  // small: eps matters
    const float factor = t % 2 == 0 ? .3f : 1.f;
    kAdamW.update({w.data(), state.data(), g.data()}, tensors_of(table, kAdamW), options, {lr, factor, t});
    double squares = 0;
    for (const TensorSpec& spec : table) {
      if (!spec.trained) continue;
      const size_t at = spec.offset;
      textbook::adamw_step<double>(&want[at], &want_m[at], &want_v[at], &widen(g)[at], spec.size(),
                                   {options.beta1, options.beta2, options.eps,
                                    spec.shape.size() > 1 ? options.weight_decay : 0},
                                   {lr, factor, t});
      squares += std::pow(textbook::gradient_norm(&widen(g)[at], spec.size()), 2);
    }
    check_error("adamw vs textbook/norm", std::fabs(gradient_norm(g.data(), table) / std::sqrt(squares) - 1),
                1e-12);
  }
  for (const TensorSpec& spec : table) {
    const auto compare = [&](const std::string& what, const float* got, const Doubles& expected) {
      check_close("adamw vs textbook/" + spec.name + "/" + what, {got, spec.size()},
                  {&expected[spec.offset], spec.size()}, kTolerance);
    };
    compare("weights", &w[spec.offset], want);
    if (!spec.trained) continue;
    const std::vector<TensorSpec> slots = state_table(spec);
    compare("m", &state[slots[0].offset], want_m);
    compare("v", &state[slots[1].offset], want_v);
  }
  for (const auto& [norm, clip] : {std::pair{5., 1.}, {.5, 1.}, {1., 1.}, {7., 0.}, {0., 1.}})
    CHECK(clip_factor(norm, static_cast<float>(clip)) == static_cast<float>(textbook::clip_factor(norm, clip)));
}
