// The ladder of the norms, LayerNorm and RMSNorm: from the textbook to norm_forward and norm_backward.
//
//   x, y, dx, dy (N,C)      speed: counts the bytes that must move: x and y forward, x, dy and dx backward
//
// A norm computes little and moves much data, so its ceiling is the speed of copying as many floats. Large activations
// come from memory, and later rungs gain little. Small ones (ARGS='norm 768 128') come from the cache.

#include "layers/norm/norm.hpp"

#include <cmath>

#include "ladder.hpp"
#include "layers/kernels/simd.hpp"
#include "layers/textbook/norm.hpp"

namespace {

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;
using simd::W;

// Σᵢ f(i) over a row. f returns one term per lane. With a single vector of sums, each addition waits for the previous
// one.
template <int sums, class F>
float row_sum(int C, F f) {
  Vec sum[sums] = {};
  int i = 0;
  for (; i + sums * W <= C; i += sums * W)
#pragma GCC unroll 4
    for (int j = 0; j < sums; ++j) sum[j] += f(i + j * W, W);
  sweep(C - i, [&](int rest, int lanes) { sum[0] += f(i + rest, lanes); });
  for (int j = 1; j < sums; ++j) sum[0] += sum[j];
  return static_cast<float>(simd::sum(sum[0]));
}

void write_row(float* y, const float* x, float mean, float rstd, const Norm& p, int C) {
  sweep(C, [&](int i, int lanes) {
    Vec v = (load(x + i, lanes) - mean) * rstd * load(p.gain + i, lanes);
    if (p.bias) v += load(p.bias + i, lanes);
    store(y + i, v, lanes);
  });
}

// Vectors. W numbers of a row at a time, in three sweeps: mean, variance, y. The row comes from memory once and from L1
// in the other two sweeps. This is the version with `sums` = 1.
//
// Several sums at once. With `sums` = 4 the processor adds to one sum while three other additions are in flight.
template <int sums>
void vectors(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C) {
  for (int n = 0; n < N; ++n, x += C, y += C) {
    float mean = 0;
    if (p.kind == NormKind::layernorm)
      saved.mean[n] = mean = row_sum<sums>(C, [&](int i, int lanes) { return load(x + i, lanes); }) / C;
    const float squares = row_sum<sums>(C, [&](int i, int lanes) {
      const Vec d = load(x + i, lanes, mean) - mean;
      return d * d;
    });
    const float rstd = saved.rstd[n] = 1 / std::sqrt(squares / C + p.eps);
    write_row(y, x, mean, rstd, p, C);
  }
}

// Both statistics in one sweep: var = mean(d²) − mean(d)² for d = x − shift, for any shift. A shift of 0 would cancel
// if the mean is large; a number of the row does not (Chan, Golub & LeVeque 1983). The divisions wait for one sweep
// instead of two.
void one_sweep(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C) {
  for (int n = 0; n < N; ++n, x += C, y += C) {
    const float shift = x[0];
    Vec squares[2] = {}, sum[2] = {};
    const auto add = [&](int i, int lanes, int j) {
      const Vec d = load(x + i, lanes, shift) - shift;
      sum[j] += d;
      squares[j] += d * d;
    };
    int i = 0;
    for (; i + 2 * W <= C; i += 2 * W) add(i, W, 0), add(i + W, W, 1);
    sweep(C - i, [&](int rest, int lanes) { add(i + rest, lanes, 0); });
    const double mean = simd::sum(sum[0] + sum[1]) / C, variance = simd::sum(squares[0] + squares[1]) / C - mean * mean;
    saved.mean[n] = static_cast<float>(mean) + shift;
    saved.rstd[n] = static_cast<float>(1 / std::sqrt(variance + static_cast<double>(p.eps)));
    write_row(y, x, saved.mean[n], saved.rstd[n], p, C);
  }
}

// One row of the backward pass, as vectors.
struct Row {
  const float *dy, *x, *gain;
  float mean, rstd;
  bool centered;

  Vec dxhat(int i, int lanes) const { return load(dy + i, lanes) * load(gain + i, lanes); }
  Vec xhat(int i, int lanes) const { return (load(x + i, lanes, mean) - mean) * rstd; }

  // dx. It needs two means over the row first. also(i, lanes) runs in the second sweep.
  template <class F>
  void backward(float* dx, int C, F also) const {
    Vec sum = {}, dot = {};
    sweep(C, [&](int i, int lanes) {
      const Vec d = dxhat(i, lanes);
      sum += d;
      dot += d * xhat(i, lanes);
    });
    const float mean_dxhat = centered ? static_cast<float>(simd::sum(sum)) / C : 0;
    const float mean_dot = static_cast<float>(simd::sum(dot)) / C;
    sweep(C, [&](int i, int lanes) {
      also(i, lanes);
      store(dx + i, rstd * (dxhat(i, lanes) - mean_dxhat - xhat(i, lanes) * mean_dot), lanes);
    });
  }

  void add_parameter_gradients(const Norm& g, int i, int lanes) const {
    const Vec d = load(dy + i, lanes);
    store(g.gain + i, load(g.gain + i, lanes) + d * xhat(i, lanes), lanes);
    if (g.bias) store(g.bias + i, load(g.bias + i, lanes) + d, lanes);
  }
};

Row row_at(const float* dy, const float* x, const NormSaved& saved, const Norm& p, int n, int C) {
  const size_t at = static_cast<size_t>(n) * C;
  const bool centered = p.kind == NormKind::layernorm;
  return {dy + at, x + at, p.gain, centered ? saved.mean[n] : 0, saved.rstd[n], centered};
}

// Vectors, in two passes: first dgain and dbias of all rows, then dx of all rows. x and dy come from memory twice.
void two_passes(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved, const Norm& p, int N,
                int C) {
  for (int n = 0; n < N; ++n) {
    const Row row = row_at(dy, x, saved, p, n, C);
    sweep(C, [&](int i, int lanes) { row.add_parameter_gradients(g, i, lanes); });
  }
  for (int n = 0; n < N; ++n)
    row_at(dy, x, saved, p, n, C).backward(dx + static_cast<size_t>(n) * C, C, [](int, int) {});
}

// Fused. Adds a row's share of dgain and dbias while the row is in L1 for dx.
void fused(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved, const Norm& p, int N,
           int C) {
  for (int n = 0; n < N; ++n) {
    const Row row = row_at(dy, x, saved, p, n, C);
    row.backward(dx + static_cast<size_t>(n) * C, C,
                 [&](int i, int lanes) { row.add_parameter_gradients(g, i, lanes); });
  }
}

// The same computation in double.
struct Want {
  std::vector<double> y, dx, dgain, dbias;
  textbook::NormSaved<double> saved;

  Want(NormKind kind, double eps, const Tensor& x, const Tensor& dy, const Tensor& gain, const Tensor& bias, size_t N)
      : y(x.size), dx(x.size), dgain(gain.size), dbias(bias.size) {
    std::vector<double> wide_gain = gain.widen(), wide_bias = bias.widen();
    const textbook::Norm<double> p{kind, eps, wide_gain.data(), wide_bias.data()},
        g{kind, eps, dgain.data(), dbias.data()};
    const std::vector<double> wide_x = x.widen();
    textbook::norm_forward<double>(y.data(), saved, wide_x.data(), p, N, gain.size);
    textbook::norm_backward<double>(dx.data(), g, dy.widen().data(), wide_x.data(), saved, p, N, gain.size);
  }
};

void climb(NormKind kind, int N, int C, const Tensor& x, const Tensor& dy) {
  const bool centered = kind == NormKind::layernorm;
  const size_t rows = static_cast<size_t>(N), columns = static_cast<size_t>(C);
  const Tensor gain(columns, 3, 1, .3f), bias(columns, 4, 0, .1f);  // both kinds may have a bias
  const Tensor y(x.size), dx(x.size), mean(rows), rstd(rows), dgain(columns), dbias(columns);
  const Norm p{.kind = kind, .gain = gain.get(), .bias = bias.get()};
  const Norm g{.kind = kind, .gain = dgain.get(), .bias = dbias.get()};
  const NormSaved saved{centered ? mean.get() : nullptr, rstd.get()};
  const textbook::Norm<float> book_p{kind, p.eps, p.gain, p.bias}, book_g{kind, g.eps, g.gain, g.bias};
  textbook::NormSaved<float> book_saved;
  const Want want(kind, static_cast<double>(p.eps), x, dy, gain, bias, rows);
  const Ceiling ceiling = copy_ceiling(x.size);
  const std::string sizes = std::string(centered ? "LayerNorm" : "RMSNorm") + ", " + std::to_string(N) + " rows of " +
                            std::to_string(C);
  const double bytes = static_cast<double>(x.size * sizeof(float));

  std::vector<Output> outputs{{y, want.y}};
  Ladder forward("norm_forward: " + sizes, 2 * bytes, "B", ceiling, outputs);
  forward.rung("textbook", Threads::one,
               [&] { textbook::norm_forward<float>(y.get(), book_saved, x.get(), book_p, rows, columns); });
  outputs.push_back({rstd, want.saved.rstd});  // the textbook has its own vectors for these
  if (centered) outputs.push_back({mean, want.saved.mean});
  forward.compare_with(ceiling, outputs);
  const auto rung = [&](const char* idea, Threads threads, auto function) {
    forward.rung(idea, threads, [&] { function(y.get(), saved, x.get(), p, N, C); });
  };
  rung("vectors: W numbers of a row at a time", Threads::one, vectors<1>);
  rung("several sums at once", Threads::one, vectors<4>);
  if (centered) rung("both statistics in one sweep", Threads::one, one_sweep);
  const auto product_forward = [](float* to, const NormSaved& kept, const float* from, const Norm& norm, int n, int c) {
    norm_forward(to, kept, from, norm, n, c, true);
  };
  rung("the product on one thread", Threads::one, product_forward);
  rung("threads: rows are shared (norm_forward)", Threads::all, product_forward);

  Ladder backward("norm_backward: " + sizes, 3 * bytes, "B", ceiling,
                  {{dx, want.dx}, {dgain, want.dgain}, {dbias, want.dbias}});
  const auto backward_rung = [&](const char* idea, Threads threads, auto run) {
    backward.rung(idea, threads, [&, run] {
      dgain.fill(0), dbias.fill(0);
      run();
    });
  };
  backward_rung("textbook", Threads::one, [&] {
    textbook::norm_backward<float>(dx.get(), book_g, dy.get(), x.get(), book_saved, book_p, rows, columns);
  });
  backward_rung("vectors: first dgain and dbias, then dx", Threads::one,
                [&] { two_passes(dx.get(), g, dy.get(), x.get(), saved, p, N, C); });
  backward_rung("fused: all three while the row is in L1", Threads::one,
                [&] { fused(dx.get(), g, dy.get(), x.get(), saved, p, N, C); });
  const auto product = [&] { norm_backward(dx.get(), g, dy.get(), x.get(), saved, p, N, C); };
  backward_rung("the product on one thread", Threads::one, product);
  backward_rung("threads: the work is shared (norm_backward)", Threads::all, product);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int> sizes = sizes_from(argc, argv, "rows channels", {8192, 768});
  const size_t size = static_cast<size_t>(sizes[0]) * static_cast<size_t>(sizes[1]);
  const Tensor x(size, 1, .3f), dy(size, 2);
  climb(NormKind::layernorm, sizes[0], sizes[1], x, dy);
  climb(NormKind::rmsnorm, sizes[0], sizes[1], x, dy);
  return Ladder::exit_status();
}
