// Attention over depth: the textbook's mean by complex step, and the fast one against the textbook's.

#include "layers/model/resolve.hpp"
#include "layers/streams/streams.hpp"
#include "layers/textbook/streams.hpp"

#include "textbook.hpp"

namespace {

using Complex = std::complex<double>;

// A branch with random sums v (K,N,C), of which the last is x, and random parameters.
struct Mean {
  Config config;
  int N, C, K;
  std::vector<float> weights, gradients, v, dh;
  DepthQuery p, g;

  // `branch` is the number of a branch in a stack of four blocks; 8 stands for its end.
  Mean(bool normed, int block, int branch, int N, int C, bool unit_offset = false) : N(N), C(C) {
    config.placement = normed ? "attnres-normed" : "attnres", config.residual_block = block, config.vocab_size = 1;
    config.channels = C, config.n_head = 1, config.norm_unit_offset = unit_offset;
    config = resolve(config);
    Layout measure;
    declare_depth(measure, config, "b.streams", branch);
    weights = random_floats(measure.size(), 1), gradients = random_floats(measure.size(), 2);
    Layout on_weights(weights.data()), on_gradients(gradients.data());
    p = declare_depth(on_weights, config, "b.streams", branch);
    g = declare_depth(on_gradients, config, "b.streams", branch);
    K = p.sums + 1;
    v = random_floats(size_t(K) * N * C, 3), dh = random_floats(size_t(N) * C, 4);
    for (size_t i = 0; i < v.size(); ++i) v[i] *= static_cast<float>(1 + i / (size_t(N) * C));  // of different sizes
  }

  // The same of the textbook, with its parameters in `numbers`.
  template <class Number>
  textbook::DepthQuery<Number> book(std::vector<Number>& numbers) const {
    const auto at = [&](const float* w) { return w ? &numbers[w - weights.data()] : nullptr; };
    const Norm& n = p.norm;
    return {at(p.query), {n.kind, n.eps, at(n.gain), nullptr, n.gainless, n.unit_offset}, p.normed, p.scale};
  }
  template <class Number>
  textbook::Sources<Number> sources(const std::vector<Number>& all) const {
    textbook::Sources<Number> rows;
    for (int k = 0; k < K; ++k) rows.push_back(&all[size_t(k) * N * C]);
    return rows;
  }
  template <class Number>
  std::vector<Number> forward(textbook::DepthSaved<Number>& saved, const std::vector<Number>& all,
                              std::vector<Number>& numbers) const {
    std::vector<Number> h(size_t(N) * C);
    textbook::depth_forward(h.data(), saved, sources(all), book(numbers), N, C);
    return h;
  }
  // Returns dv (K,N,C), and adds to the parameters' gradients in `sums`.
  Doubles backward(const textbook::DepthSaved<double>& saved, const Doubles& all, Doubles& numbers,
                   Doubles& sums) const {
    std::vector<Doubles> dv;
    textbook::depth_backward(dv, book(sums), widen(dh).data(), saved, sources(all), book(numbers), N, C);
    Doubles joined;
    for (const Doubles& part : dv) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }

  DepthSums sums(std::vector<float>& d) const {
    DepthSums sums{{}, d.data()};
    for (int k = 0; k + 1 < K; ++k) sums.v.push_back(&v[size_t(k) * N * C]);
    return sums;
  }
  const float* x() const { return &v[size_t(K - 1) * N * C]; }
  std::vector<float> read() const {
    std::vector<float> h = garbage(size_t(N) * C), unused;
    depth_read(h.data(), sums(unused), x(), p, {N, C});
    return h;
  }
};

// The numbers of tensors without padding.
std::vector<std::pair<std::string, std::pair<size_t, size_t>>> parts(const Mean& m) {
  std::vector<std::pair<std::string, std::pair<size_t, size_t>>> all;
  all.push_back({"query", {m.p.query - m.weights.data(), m.C}});
  if (m.p.norm.gain) all.push_back({"gain", {m.p.norm.gain - m.weights.data(), m.C}});
  return all;
}

}  // namespace

TEST_CASE("the textbook's mean over depth is certified", "[depth][streams][textbook]") {
  constexpr double h = 1e-50, kCertified = 1e-13;
  for (const bool normed : {false, true})
    for (const int branch : {1, 4}) {
      const Mean m(normed, 1, branch, 2, 5, !normed);
      Doubles v = widen(m.v), numbers = widen(m.weights), sums(numbers.size());
      textbook::DepthSaved<double> saved;
      m.forward(saved, v, numbers);
      const Doubles dv = m.backward(saved, v, numbers, sums);
      std::vector<Complex> stepped_v(v.begin(), v.end()), stepped(numbers.begin(), numbers.end());
      const auto check = [&](const char* what, std::span<const double> got, std::span<Complex> steps) {
        double difference = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          steps[i] += Complex(0, h);
          textbook::DepthSaved<Complex> unused;
          const std::vector<Complex> mean = m.forward(unused, stepped_v, stepped);
          steps[i] = steps[i].real();
          double want = 0;
          for (size_t j = 0; j < mean.size(); ++j) want += double(m.dh[j]) * mean[j].imag() / h;
          difference += std::pow(want - got[i], 2);
        }
        check_error("complex step/depth/" + std::string(what), std::sqrt(difference) / norm_of(got), kCertified);
      };
      check("dv", dv, stepped_v);
      for (const auto& [name, at] : parts(m))
        check(name.c_str(), std::span(sums).subspan(at.first, at.second),
              std::span(stepped).subspan(at.first, at.second));
    }
}

TEST_CASE("the mean over depth agrees with the textbook", "[depth][streams][textbook]") {
  for (const bool normed : {false, true})
    for (const auto& [block, branch] : {std::pair{1, 1}, {1, 7}, {3, 2}, {3, 6}, {3, 8}, {2, 8}, {100, 5}})
      for (const auto& [N, C] : {std::pair{1, 3}, {17, 33}, {130, 16}}) {
        Mean m(normed, block, branch, N, C, branch == 7 && !normed);
        const std::string name = std::string("depth vs textbook/") + (normed ? "normed" : "raw") +
                                 at({block, branch, N, C});
        const size_t plane = size_t(N) * C;
        Doubles numbers = widen(m.weights), sums = widen(m.gradients);
        textbook::DepthSaved<double> saved;
        const Doubles want = m.forward(saved, widen(m.v), numbers);
        Doubles dv = m.backward(saved, widen(m.v), numbers, sums);
        check_close(name + "h", m.read(), want, 1e-6);

        // Gradients of the sums that later branches have left, one more for x, and dy.
        std::vector<float> d = random_floats(plane * m.K, 5), dx = random_floats(plane, 6);
        const bool end = branch == 8, begins = m.p.begins;
        for (size_t i = 0; i < plane * (m.K - 1) && !end; ++i) dv[i] += double(d[i]);
        for (size_t i = 0; i < plane && !end; ++i)
          dv[plane * (m.K - 1) + i] += begins ? double(d[plane * (m.K - 1) + i]) : 1.5 * double(dx[i]);
        if (end) {
          dx = m.dh;
          d = garbage(d.size());
          depth_end_backward(dx.data(), m.g, m.sums(d), m.x(), m.p, {N, C});
        } else {
          depth_read_backward(dx.data(), m.g, m.sums(d), m.dh.data(), m.x(), m.p, 1.5, {N, C});
        }
        check_close(name + "dx", dx, std::span(dv).subspan(plane * (m.K - 1)), 2e-6);
        check_close(name + "dv", std::span(d).first(plane * (m.K - 1)), std::span(dv).first(plane * (m.K - 1)), 2e-6);
        for (const auto& [part, place] : parts(m))
          check_close(name + part, std::span(m.gradients).subspan(place.first, place.second),
                      std::span(sums).subspan(place.first, place.second), 2e-6, 10 * norm_of(widen(m.dh)));
      }
}

TEST_CASE("a query of 0 reads the plain mean", "[depth][streams]") {
  Mean m(false, 1, 4, 3, 7);
  std::fill_n(m.p.query, m.C, 0.f);
  const std::vector<float> h = m.read();
  for (int i = 0; i < 3 * 7; ++i) {
    float sum = 0;
    for (int k = 0; k < m.K; ++k) sum += m.v[size_t(k) * 3 * 7 + i];
    CHECK(h[i] == Approx(sum / 5).margin(1e-6));
  }
}

TEST_CASE("the first branch reads x alone", "[depth][streams]") {
  Config c;
  c.placement = "attnres", c.vocab_size = 1, c.channels = 4, c.n_head = 1;
  c = resolve(c);
  Layout layout;
  const DepthQuery p = declare_depth(layout, c, "b.streams", 0);
  CHECK(layout.table().empty());
  const std::vector<float> x = random_floats(8, 1), dh = random_floats(8, 2), later = random_floats(8, 3);
  std::vector<float> h = garbage(8), d = garbage(8), gradients = later;
  depth_read(h.data(), {}, x.data(), p, {2, 4});
  CHECK(same_bits(h, x));
  depth_read_backward(d.data(), p, {{}, gradients.data()}, dh.data(), x.data(), p, 0, {2, 4});
  for (int i = 0; i < 8; ++i) CHECK(d[i] == dh[i] + later[i]);
}

TEST_CASE("branches read the sums that are finished before them", "[depth][streams]") {
  Config c;
  c.placement = "attnres", c.vocab_size = 1, c.n_layer = 4;
  const auto sums = [&](int block) {
    c.residual_block = block;
    std::string all;
    for (int branch = 0; branch <= 8; ++branch)
      all += std::to_string(finished_sums(c, branch)) + (begins_sum(c, branch) ? "b " : " ");
    return all;
  };
  CHECK(sums(1) == "0b 1b 2b 3b 4b 5b 6b 7b 8b ");
  CHECK(sums(2) == "0b 1 1b 2 2b 3 3b 4 4b ");
  CHECK(sums(3) == "0b 1 1 1b 2 2 2b 3 3 ");
  CHECK(sums(100) == "0b 1 1 1 1 1 1 1 1 ");
  c.residual_block = 1;
  CHECK(sums_read(c) == (2 + 3 + 4 + 5 + 6 + 7 + 8 + 9) / 8.);
  c = resolve(c);
  CHECK(multiply_adds_of_streams(c) == 3 * 5.5 * c.channels);
  CHECK(multiply_adds_of_coefficients(c) == 5.5 * c.channels);
}

TEST_CASE("a mean over depth is the same for any number of threads", "[depth][streams]") {
  for (const bool normed : {false, true})
    check_same_for_all_threads([&] {
      Mean m(normed, 1, 5, 700, 33);
      std::vector<float> d = random_floats(size_t(m.K) * 700 * 33, 5), dx = random_floats(700 * 33, 6);
      const std::vector<float> h = m.read();
      depth_read_backward(dx.data(), m.g, m.sums(d), m.dh.data(), m.x(), m.p, 1, {700, 33});
      return joined({h, d, dx, m.gradients});
    });
}
