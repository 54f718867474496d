// Branches among several residual streams: the textbook's by complex step, and the fast ones against the textbook's.

#include "layers/residual/residual.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/resolve.hpp"
#include "layers/streams/stream_ends.hpp"
#include "layers/textbook/streams.hpp"

#include "branch.hpp"
#include "textbook.hpp"

namespace {

using Complex = std::complex<double>;

// A branch of block 2 with random parameters, and its gradients. F is Neighbors.
struct StreamsCase {
  Config config;
  int S, N, C;
  std::vector<float> weights, gradients;
  std::vector<TensorSpec> table;
  Branch p, g;

  StreamsCase(const std::string& placement, int streams, int N, int C) : N(N), C(C) {
    config.placement = placement, config.streams = streams, config.vocab_size = 1, config.channels = C;
    config.n_head = 1, config.skip_scale = 1.7, config.gated_residual_rank = 3;
    config = resolve(config);
    S = stream_count(config);
    Layout measure;
    declare(measure);
    weights.resize(measure.size()), gradients = random_floats(measure.size(), 1);
    Layout on_weights(weights.data()), on_gradients(gradients.data());
    p = declare(on_weights), g = declare(on_gradients);
    table = on_weights.table();
    for (const TensorSpec& spec : table) {
      const std::vector<float> w = random_floats(spec.size(), spec.offset + 2, spec.start.mean, .5f);
      for (size_t i = 0; i < w.size(); ++i) weights[spec.offset + i] = spec.start.is_one(i) + w[i];
    }
  }

  Branch declare(Layout& layout) const {
    Branch branch;
    branch.streams = declare_streams(layout, config, "b", 2 * kLayer);
    declare_branch_in(branch, layout, config, "b", kLayer);
    declare_branch_out(branch, layout, config, "b", kLayer);
    return branch;
  }

  // The same branch of the textbook, with its parameters in `numbers`.
  template <class Number>
  textbook::StreamsBranch<Number> book(std::vector<Number>& numbers) const {
    const auto at = [&](const float* w) { return w ? &numbers[w - weights.data()] : nullptr; };
    const auto norm = [&](const Norm& n) {
      return textbook::Norm<Number>{n.kind, n.eps, at(n.gain), at(n.bias)};
    };
    const Streams& s = p.streams;
    std::vector<textbook::Norm<Number>> norms;
    for (const Norm& n : s.norms) norms.push_back(norm(n));
    return {{norm(p.norm_in), norm(p.norm_out), norm(p.norm_sum), {}, p.streams.skip, p.in_scale},
            {s.rule, size_t(s.count), at(s.read), at(s.carry), at(s.write), norm(s.norm), at(s.weight), at(s.bias),
             at(s.scale), s.eps, s.first_write, size_t(s.kinds), norms, at(s.up), size_t(s.rank)}};
  }

  template <class Number>
  std::vector<Number> forward(textbook::StreamsSaved<Number>& saved, const std::vector<Number>& x,
                              std::vector<Number>& numbers) const {
    std::vector<Number> y(x.size());
    textbook::streams_forward(y.data(), saved, x.data(), book(numbers), Neighbors<Number>{size_t(N), size_t(C)},
                              {size_t(N), size_t(C)});
    return y;
  }

  // Returns dx, and adds to the parameters' gradients in `sums`.
  Doubles backward(textbook::StreamsSaved<double>& saved, const Doubles& dy, const Doubles& x, Doubles& numbers,
                   Doubles& sums) const {
    Doubles dx(x.size());
    textbook::streams_backward(dx.data(), book(sums), dy.data(), x.data(), saved, book(numbers),
                               Neighbors<double>{size_t(N), size_t(C)}, {size_t(N), size_t(C)});
    return dx;
  }

  struct Run {
    std::vector<float> y, dx;
  };
  Run run(const std::vector<float>& x, const std::vector<float>& dy) {
    std::vector<float> kept = garbage(30 * N * (C + 16) * S), normed = garbage(N * C), f = garbage(N * C);
    Layout layout(kept.data());
    BranchSaved saved = declare_saved(layout, config, kLayer, N, C);
    const StreamsScratch scratch = declare_streams_scratch(layout, config, N, true);
    const Neighbors<float> F{size_t(N), size_t(C)};
    Run r{garbage(S * N * C), dy};
    saved.f = f.data(), saved.y = r.y.data();
    const float* u = enter(saved, scratch, x.data(), p, {N, C});
    F.forward(f.data(), u);
    leave(saved, scratch, normed.data(), x.data(), p, {N, C});
    std::vector<float> df = garbage(N * C), du = garbage(N * C);
    const float* d = leave_backward(r.dx.data(), df.data(), g, scratch, x.data(), saved, p, {N, C});
    F.backward(du.data(), d, u);
    enter_backward(r.dx.data(), g, scratch, du.data(), x.data(), saved, p, {N, C});
    return r;
  }
};

// Returns the gradient of ⟨d, c.forward(x, numbers)⟩ by complex steps, for x and then for the numbers.
template <class Case>
Doubles complex_steps(const Case& c, const Doubles& x, const Doubles& numbers, const Doubles& d) {
  constexpr double h = 1e-50;
  std::vector<Complex> stepped_x(x.begin(), x.end()), stepped(numbers.begin(), numbers.end());
  Doubles gradient;
  for (std::vector<Complex>* inputs : {&stepped_x, &stepped})
    for (Complex& number : *inputs) {
      number += Complex(0, h);
      textbook::StreamsSaved<Complex> unused;
      const std::vector<Complex> y = c.forward(unused, stepped_x, stepped);
      number = number.real();
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += d[i] * y[i].imag() / h;
      gradient.push_back(sum);
    }
  return gradient;
}

std::vector<std::string> placements_with_streams() {
  std::vector<std::string> names;
  for (const Placement& row : placements())
    if (!is_one(row.streams) && !is_attnres(row.streams)) names.emplace_back(row.name);  // test_ngpt.cpp has the sphere
  return names;
}

}  // namespace

TEST_CASE("the textbook's branches among streams are certified", "[streams][textbook]") {
  constexpr double kCertified = 1e-13;
  for (const std::string& placement : placements_with_streams())
    for (const int S : {1, 3}) {
      const StreamsCase c(placement, S, 2, 5);
      Doubles x = random_doubles(c.S * c.N * c.C, 7), dy = random_doubles(x.size(), 8), numbers = widen(c.weights),
              sums(numbers.size());
      textbook::StreamsSaved<double> saved;
      c.forward(saved, x, numbers);
      const Doubles dx = c.backward(saved, dy, x, numbers, sums);
      const Doubles steps = complex_steps(c, x, numbers, dy);
      const auto check = [&](const std::string& what, std::span<const double> got, size_t first) {
        const std::span want = std::span(steps).subspan(first, got.size());
        double difference = 0;
        for (size_t i = 0; i < want.size(); ++i) difference += std::pow(want[i] - got[i], 2);
        const double terms = norm_of(x) * norm_of(dy), size = std::max(norm_of(want), 1e-3 * terms);
        const double error = difference == 0 ? 0 : std::sqrt(difference) / size;
        check_error("complex step/streams " + placement + "/" + what, error, kCertified);
      };
      check("dx", dx, 0);
      for (const TensorSpec& spec : c.table)
        check(spec.name, std::span(sums).subspan(spec.offset, spec.size()), x.size() + spec.offset);
    }
}

TEST_CASE("branches among streams agree with the textbook", "[streams][textbook]") {
  for (const std::string& placement : placements_with_streams())
    for (const int S : {1, 2, 3, 4, 8})
      for (const auto& [N, C] : {std::pair{1, 3}, {17, 33}, {130, 16}}) {
        StreamsCase c(placement, S, N, C);
        const std::string name = "streams vs textbook/" + placement + at({S, N, C});
        const std::vector<float> x = random_floats(c.S * N * C, 7), dy = random_floats(x.size(), 8);
        Doubles numbers = widen(c.weights), sums = widen(c.gradients);
        const double terms = 10 * norm_of(widen(x)) * norm_of(widen(dy)) + 1e3 * norm_of(sums);
        textbook::StreamsSaved<double> saved;
        const Doubles want = c.forward(saved, widen(x), numbers);
        const Doubles want_dx = c.backward(saved, widen(dy), widen(x), numbers, sums);
        const StreamsCase::Run got = c.run(x, dy);
        check_close(name + "y", got.y, want, 1e-6);
        check_close(name + "dx", got.dx, want_dx, 4e-6);
        for (const TensorSpec& spec : c.table)
          check_close(name + spec.name, std::span(c.gradients).subspan(spec.offset, spec.size()),
                      std::span(sums).subspan(spec.offset, spec.size()), 4e-6, terms);
      }
}

namespace {

// The end of a stack whose streams are mixed, with random parameters, and their gradients. It has no final norm.
struct EndCase {
  Config config;
  int N, C;
  std::vector<float> weights, gradients;
  std::vector<TensorSpec> table;
  EndNorms p, g;

  EndCase(const std::string& placement, int streams, int N, int C) : N(N), C(C) {
    config.placement = placement, config.streams = streams, config.vocab_size = 1, config.channels = C;
    config.n_head = 1, config.final_norm = false, config.gated_residual_rank = 3;
    config = resolve(config);
    Layout measure;
    declare_last_norms(p, measure, config);
    weights = random_floats(measure.size(), 3, 0, .5f), gradients = random_floats(measure.size(), 1);
    Layout on_weights(weights.data()), on_gradients(gradients.data());
    declare_last_norms(p, on_weights, config), declare_last_norms(g, on_gradients, config);
    table = on_weights.table();
  }

  StreamEnd form() const { return config.placement_row->stream_end; }
  template <class Number>
  textbook::Streams<Number> book(std::vector<Number>& numbers) const {
    const auto at = [&](const float* w) { return w ? &numbers[w - weights.data()] : nullptr; };
    textbook::Streams<Number> s;
    s.rule = p.read.rule, s.S = p.read.count, s.kinds = p.read.kinds, s.eps = p.read.eps;
    s.up = at(p.read.up), s.rank = p.read.rank;
    for (const Norm& n : p.read.norms)
      s.norms.push_back({n.kind, n.eps, at(n.gain), at(n.bias)});
    s.weight = at(p.read.weight), s.bias = at(p.read.bias), s.scale = at(p.read.scale);
    return s;
  }
  template <class Number>
  std::vector<Number> forward(textbook::StreamsSaved<Number>& saved, const std::vector<Number>& x,
                              std::vector<Number>& numbers) const {
    std::vector<Number> h(size_t(N) * C);
    textbook::streams_end_forward(h.data(), saved, x.data(), form(), book(numbers), {size_t(N), size_t(C)});
    return h;
  }
  Doubles backward(textbook::StreamsSaved<double>& saved, const Doubles& dh, const Doubles& x, Doubles& numbers,
                   Doubles& sums) const {
    Doubles dx(x.size());
    textbook::streams_end_backward(dx.data(), book(sums), dh.data(), saved, x.data(), form(), book(numbers),
                                   {size_t(N), size_t(C)});
    return dx;
  }
};

const char* const kEnds[] = {"mhc", "mhc-read", "mhc-mean", "hyper-independent", "gated-residual"};

}  // namespace

TEST_CASE("the textbook's end of streams is certified", "[streams][textbook]") {
  constexpr double kCertified = 1e-13;
  for (const char* placement : kEnds)
    for (const int S : {1, 3}) {
      const EndCase c(placement, S, 2, 5);
      Doubles x = random_doubles(S * c.N * c.C, 7), dh = random_doubles(c.N * c.C, 8), numbers = widen(c.weights),
              sums(numbers.size());
      textbook::StreamsSaved<double> saved;
      c.forward(saved, x, numbers);
      const Doubles dx = c.backward(saved, dh, x, numbers, sums);
      const Doubles want = complex_steps(c, x, numbers, dh);
      Doubles got = dx;
      got.insert(got.end(), sums.begin(), sums.end());
      double worst = 0;
      for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(want[i] - got[i]));
      check_error("complex step/end of streams " + std::string(placement), worst / norm_of(want), kCertified);
    }
}

TEST_CASE("the end of streams agrees with the textbook", "[streams][textbook]") {
  for (const char* placement : kEnds)
    for (const int S : {1, 2, 3, 4, 8})
      for (const auto& [N, C] : {std::pair{1, 3}, {17, 33}, {130, 16}}) {
        EndCase c(placement, S, N, C);
        const std::string name = "end of streams/" + std::string(placement) + at({S, N, C});
        const std::vector<float> x = random_floats(S * N * C, 7), dh = random_floats(N * C, 8);
        Doubles numbers = widen(c.weights), sums = widen(c.gradients);
        const double terms = 10 * norm_of(widen(x)) * norm_of(widen(dh)) + 1e3 * norm_of(sums);
        textbook::StreamsSaved<double> saved;
        const Doubles want = c.forward(saved, widen(x), numbers);
        const Doubles want_dx = c.backward(saved, widen(dh), widen(x), numbers, sums);
        std::vector<float> kept = garbage(30 * N * (C + 16) * S), d = garbage(S * N * C);
        Layout layout(kept.data());
        StreamsEnd end = declare_streams_end(layout, c.config, N);
        end.scratch = declare_streams_scratch(layout, c.config, N, true);
        const float* h = streams_end(end, x.data(), c.p, {N, C});
        check_close(name + "h", {h, size_t(N) * C}, want, 1e-6);
        std::copy(dh.begin(), dh.end(), d.begin());
        streams_end_backward(d.data(), c.g, x.data(), end, c.p, {N, C});
        check_close(name + "dx", d, want_dx, 2e-6);
        for (const TensorSpec& spec : c.table)
          check_close(name + spec.name, std::span(c.gradients).subspan(spec.offset, spec.size()),
                      std::span(sums).subspan(spec.offset, spec.size()), 4e-6, terms);
      }
}

TEST_CASE("mHC's matrices are doubly stochastic", "[streams]") {
  const int N = 50, S = 4;
  const StreamsCase c("mhc", S, N, 6);
  const std::vector<float> z = random_floats(S * (S + 2) * N, 3, 0, 2);
  std::vector<float> k = garbage(z.size());
  StreamsSaved saved;
  saved.z = const_cast<float*>(z.data());
  stream_coefficients(k.data(), saved, c.p.streams, N);
  const auto at = [&](int s, int j, int n) { return double(k[(s * (S + 2) + j) * N + n]); };
  for (int n = 0; n < N; ++n)
    for (int s = 0; s < S; ++s) {
      double row = 0, column = 0;
      for (int t = 0; t < S; ++t) {
        CHECK(at(s, 1 + t, n) >= 0);
        row += at(s, 1 + t, n), column += at(t, 1 + s, n);
      }
      CHECK(std::fabs(row - 1) < 1e-2);     // 20 rounds come close
      CHECK(std::fabs(column - 1) < 1e-5);  // the last step
      CHECK((at(s, 0, n) > 0 && at(s, 0, n) < 1.01));
      CHECK((at(s, S + 1, n) > 0 && at(s, S + 1, n) < 2));
    }
}

TEST_CASE("streams start as the page says", "[streams]") {
  const auto values = [](const char* placement, const std::string& name) {
    Config config;
    config.placement = placement, config.vocab_size = 3, config.channels = 8, config.n_head = 2, config.n_layer = 2;
    config.streams = 3;
    Model model(config);
    initialize(model, 1);
    for (const TensorSpec& spec : model.table)
      if (spec.name == name || spec.name == "block.1." + name) {
        CHECK_FALSE(spec.decay);
        return std::vector<float>(&model.weights[spec.offset], &model.weights[spec.offset] + spec.size());
      }
    FAIL("no " << name);
    return std::vector<float>();
  };
  using Floats = std::vector<float>;
  for (const char* placement : {"hyper", "hyper-static"}) {
    CHECK(values(placement, "attention.streams.read") == Floats{0, 0, 1});  // branch 2
    CHECK(values(placement, "ffn.streams.read") == Floats{1, 0, 0});        // branch 3
    CHECK(values(placement, "ffn.streams.carry") == Floats{1, 0, 0, 0, 1, 0, 0, 0, 1});
    CHECK(values(placement, "ffn.streams.write") == Floats{1, 1, 1});
  }
  CHECK(values("hyper", "ffn.streams.scale") == Floats{.01f, .01f});
  CHECK(values("mhc", "ffn.streams.scale") == Floats{.01f, .01f, .01f});
  CHECK(values("mhc", "ffn.streams.bias") == Floats(15));
  for (const char* placement : {"mhc-read", "mhc-mean"}) {
    CHECK(values(placement, "ffn.streams.scale") == Floats{1, 1, 1});
    CHECK(values(placement, "ffn.streams.bias") == Floats(15));
  }
  CHECK(values("mhc-read", "streams.scale") == Floats{1});
  CHECK(values("mhc-read", "streams.bias") == Floats(3));
  const float half = -std::log(2.f);  // σ(−ln 2) = ⅓
  CHECK(values("hyper-independent", "ffn.streams.scale") == Floats{.01f, .01f});
  CHECK(values("hyper-independent", "ffn.streams.bias") == Floats{half, half, half, 0, 0, 0});
  CHECK(values("hyper-independent", "streams.scale") == Floats{.01f});
  CHECK(values("hyper-independent", "streams.bias") == Floats{half, half, half});
}
