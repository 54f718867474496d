#pragma once
// Several residual streams: hyper-connections, mHC, gated residual, ResiDual, SiameseNorm. Attention over depth.

#include <cmath>
#include <cstddef>
#include <vector>

#include "attention.hpp"
#include "layers/streams/streams.hpp"
#include "norm.hpp"
#include "residual.hpp"

namespace textbook {

// ---- coefficients --------------------------------------------------------------------------------------------

// Coefficients: how each row of C channels mixes its S streams, or the gradients of these numbers.
//   read (S,N)   carry (S,S,N): from stream s to stream t   write (S,N)   skip: a factor on all of carry

template <class Number>
struct Coefficients {
  size_t S, N, C;
  Number skip = 1;
  std::vector<Number> read = std::vector<Number>(S * N), carry = std::vector<Number>(S * S * N), write = read;
};

// ---- mixing --------------------------------------------------------------------------------------------------

// A branch among S residual streams; F is the branch without its skip path.
//   x, y (S,N,C)   h, f (N,C)
//   forward   h = Σₛ read[s]·x[s]      f = F(h)      y[t] = skip·Σₛ carry[s,t]·x[s] + write[t]·f
//   backward  df = Σₜ write[t]·dy[t]      dwrite[t] = ⟨dy[t], f⟩      dcarry[s,t] = skip·⟨dy[t], x[s]⟩
//             dh = F'(df)      dread[s] = ⟨dh, x[s]⟩      dx[s] = skip·Σₜ carry[s,t]·dy[t] + read[s]·dh
// F.forward(f, h) writes f (N,C). F.backward(dh, df, h) writes dh (N,C).

template <class Number, class Function>
void mixing_forward(Number* y, Number* h, Number* f, const Number* x, const Coefficients<Number>& k, Function&& F) {
  const size_t S = k.S, N = k.N, C = k.C;
  for (size_t i = 0; i < N * C; ++i) h[i] = 0;
  for (size_t s = 0; s < S; ++s)
    for (size_t n = 0; n < N; ++n) add(h + n * C, k.read[s * N + n], x + (s * N + n) * C, C);
  F.forward(f, h);
  for (size_t t = 0; t < S; ++t)
    for (size_t n = 0; n < N; ++n) {
      Number* row = y + (t * N + n) * C;
      for (size_t c = 0; c < C; ++c) row[c] = k.write[t * N + n] * f[n * C + c];
      for (size_t s = 0; s < S; ++s) add(row, k.skip * k.carry[(s * S + t) * N + n], x + (s * N + n) * C, C);
    }
}

template <class Number, class Function>
void mixing_backward(Number* dx, Coefficients<Number>& dk, const Number* dy, const Number* x, const Number* h,
                     const Number* f, const Coefficients<Number>& k, Function&& F) {
  const size_t S = k.S, N = k.N, C = k.C;
  std::vector<Number> df(N * C), dh(N * C);
  for (size_t i = 0; i < S * N * C; ++i) dx[i] = 0;
  for (size_t t = 0; t < S; ++t)
    for (size_t n = 0; n < N; ++n) {
      const Number* row = dy + (t * N + n) * C;
      dk.write[t * N + n] = dot(row, f + n * C, C);         // y[t] = ... + write[t]·f
      add(&df[n * C], k.write[t * N + n], row, C);            // y[t] = ... + write[t]·f
      for (size_t s = 0; s < S; ++s) {                        // y[t] = skip·Σₛ carry[s,t]·x[s] + ...
        const size_t i = (s * S + t) * N + n;
        dk.carry[i] = k.skip * dot(row, x + (s * N + n) * C, C);
        add(dx + (s * N + n) * C, k.skip * k.carry[i], row, C);
      }
    }
  F.backward(dh.data(), df.data(), h);                        // f = F(h)
  for (size_t s = 0; s < S; ++s)
    for (size_t n = 0; n < N; ++n) {
      dk.read[s * N + n] = dot(&dh[n * C], x + (s * N + n) * C, C);     // h = Σₛ read[s]·x[s]
      add(dx + (s * N + n) * C, k.read[s * N + n], &dh[n * C], C);  // h = Σₛ read[s]·x[s]
    }
}

// ---- parameters ----------------------------------------------------------------------------------------------

// Streams: the parameters that mix the streams of a branch, or their gradients. An absent tensor is null.

template <class Number>
struct Streams {
  StreamRule rule = StreamRule::single;
  size_t S = 1;
  Number *read = nullptr, *carry = nullptr, *write = nullptr;  // (S) (S,S) (S)
  Norm<Number> norm = {};
  Number *weight = nullptr, *bias = nullptr, *scale = nullptr;
  double eps = 0;
  Number first_write = 1;
  size_t kinds = 3;  // of coefficients: 1 read, 2 read and write, 3 also carry; gated: 1 write, 0 none
  std::vector<Norm<Number>> norms = {};  // (S)
  Number* up = nullptr;
  size_t rank = 0;
};
// What attention over depth saves.
template <class Number>
struct DepthSaved {
  std::vector<std::vector<Number>> keys;  // (K) of (N,C)
  std::vector<NormSaved<Number>> norms;   // (K)
  std::vector<Number> weights;            // (N,K)
};
template <class Number>
struct StreamsSaved {
  Coefficients<Number> k = {};
  std::vector<Number> z, normed, rstd, h, f, s, u, gates;
  std::vector<NormSaved<Number>> norms;
  NormSaved<Number> norm, sum;
  BranchSaved<Number> branch;
  DepthSaved<Number> depth;
};

// ---- hyper-connections ---------------------------------------------------------------------------------------

// The coefficients of hyper-connections. The static ones are the constants alone, without z.
//   x (S,N,C)   weight (S + 2, C): of read, of carry to each stream, of write   scale (2): of read and carry, of write
//   forward   z[s,n,j] = norm(x[s,n])·weight[j]      coefficient j of stream s = constant + scale·tanh(z[s,n,j])
//   backward  dconstant += Σₙ d      dscale += Σ d·tanh(z)      dz = scale·(1 − tanh²(z))·d
//             dweight[j] += Σ dz·norm(x)      dx += norm'(Σⱼ dz·weight[j])

// Calls f(s, n, j, the coefficient, its gradient, the constant, the constant's gradient).
template <class Number, class F>
void each_coefficient(Coefficients<Number>& k, Coefficients<Number>& dk, const Streams<Number>& p,
                      const Streams<Number>& g, F f) {
  const size_t S = k.S, N = k.N;
  for (size_t s = 0; s < S; ++s)
    for (size_t n = 0; n < N; ++n) {
      f(s, n, 0, k.read[s * N + n], dk.read[s * N + n], p.read[s], g.read[s]);
      for (size_t t = 0; t < S; ++t) {
        const size_t i = s * S + t;
        f(s, n, 1 + t, k.carry[i * N + n], dk.carry[i * N + n], p.carry[i], g.carry[i]);
      }
      f(s, n, S + 1, k.write[s * N + n], dk.write[s * N + n], p.write[s], g.write[s]);
    }
}

template <class Number>
void hyper_forward(StreamsSaved<Number>& saved, const Number* x, const Streams<Number>& p, size_t C) {
  const size_t S = p.S, N = saved.k.N;
  saved.z.resize(S * N * (S + 2));
  saved.normed.resize(S * N * C);
  if (p.weight) norm_forward(saved.normed.data(), saved.norm, x, p.norm, S * N, C);
  each_coefficient(saved.k, saved.k, p, p,
                   [&](size_t s, size_t n, size_t j, Number& k, Number&, const Number& constant, const Number&) {
                     Number& z = saved.z[(s * N + n) * (S + 2) + j];
                     if (p.weight) z = dot(&saved.normed[(s * N + n) * C], p.weight + j * C, C);
                     k = constant + (p.weight ? p.scale[j > S] * std::tanh(z) : Number(0));
                   });
}

template <class Number>
void hyper_backward(Number* dx, const Streams<Number>& g, Coefficients<Number>& dk, StreamsSaved<Number>& saved,
                    const Number* x, const Streams<Number>& p, size_t C) {
  const size_t S = p.S, N = dk.N;
  std::vector<Number> dnormed(S * N * C), through(S * N * C);
  each_coefficient(saved.k, dk, p, g,
                   [&](size_t s, size_t n, size_t j, Number&, const Number& d, const Number&, Number& dconstant) {
                     const size_t row = s * N + n;
                     dconstant += d;
                     if (!p.weight) return;
                     const Number t = std::tanh(saved.z[row * (S + 2) + j]);
                     const Number dz = p.scale[j > S] * (Number(1) - t * t) * d;
                     g.scale[j > S] += d * t;
                     add(g.weight + j * C, dz, &saved.normed[row * C], C);  // z = norm(x)·weight[j]
                     add(&dnormed[row * C], dz, p.weight + j * C, C);       // z = norm(x)·weight[j]
                   });
  if (!p.weight) return;
  norm_backward(through.data(), g.norm, dnormed.data(), x, saved.norm, p.norm, S * N, C);
  for (size_t i = 0; i < S * N * C; ++i) dx[i] += through[i];
}

// ---- Sinkhorn-Knopp ------------------------------------------------------------------------------------------

// Makes a matrix nearly doubly stochastic: its rows and columns sum to about 1.
//   a, m (S,S)
//   forward   m = softmax of each row of a, + eps; then by turns each column, each row, ..., each column divided by its
//             sum + eps: 20 columns and 19 rows
//   backward  the same in reverse; a division y = x/Σx has dx = (dy − Σ dy·y)/Σx

constexpr int kSinkhornRounds = 20;
constexpr double kSinkhornEps = 1e-6;

// The steps of a Sinkhorn-Knopp iteration: m after each of them, and the sums that the step divided by.
template <class Number>
struct Sinkhorn {
  size_t S;
  std::vector<std::vector<Number>> m = {}, sums = {};

  // Element i of line l: a column, or a row.
  size_t at(size_t step, size_t l, size_t i) const { return step % 2 == 1 ? i * S + l : l * S + i; }
};

template <class Number>
void sinkhorn_forward(Sinkhorn<Number>& saved, const Number* a) {
  const size_t S = saved.S;
  saved.m.assign(2 * kSinkhornRounds, std::vector<Number>(S * S));
  saved.sums.assign(2 * kSinkhornRounds, std::vector<Number>(S));
  for (size_t s = 0; s < S; ++s) softmax_forward(&saved.m[0][s * S], a + s * S, S);
  for (Number& m : saved.m[0]) m += kSinkhornEps;
  for (size_t step = 1; step < 2 * kSinkhornRounds; ++step)
    for (size_t l = 0; l < S; ++l) {
      Number& sum = saved.sums[step][l] = kSinkhornEps;
      for (size_t i = 0; i < S; ++i) sum += saved.m[step - 1][saved.at(step, l, i)];
      for (size_t i = 0; i < S; ++i) {
        const size_t at = saved.at(step, l, i);
        saved.m[step][at] = saved.m[step - 1][at] / sum;
      }
    }
}

// d (S,S) holds dm before the call and da after it.
template <class Number>
void sinkhorn_backward(Number* d, const Sinkhorn<Number>& saved) {
  const size_t S = saved.S;
  for (size_t step = 2 * kSinkhornRounds - 1; step > 0; --step)
    for (size_t l = 0; l < S; ++l) {
      Number sum = 0;
      for (size_t i = 0; i < S; ++i) sum += d[saved.at(step, l, i)] * saved.m[step][saved.at(step, l, i)];
      for (size_t i = 0; i < S; ++i) d[saved.at(step, l, i)] = (d[saved.at(step, l, i)] - sum) / saved.sums[step][l];
    }
  for (size_t s = 0; s < S; ++s) {
    std::vector<Number> p(saved.m[0].begin() + s * S, saved.m[0].begin() + (s + 1) * S);
    for (Number& v : p) v -= kSinkhornEps;
    softmax_backward(d + s * S, d + s * S, p.data(), S);
  }
}

// ---- mHC -----------------------------------------------------------------------------------------------------

// The coefficients of mHC. The S·C numbers of all streams form one row of x.
//   x (S,N,C)   weight (K, S·C)   bias (K)   scale (3): of read, of write, of carry      K = S·(S + 2)
//   forward   z = weight·x/rms(x)      a = scale·z + bias
//             read[s] = σ(a[s]) + eps      write[t] = 2σ(a[S + t])      carry = Sinkhorn-Knopp(a[2S ...])
// Independent hyper-connections have K = 2S, write[t] = 2σ(a[S + t]) + eps, and carry is the identity. The learned read
// at the end of a stack has K = S.
//   backward  da = d·σ' and so on      dbias += Σ da      dscale += Σ da·z      dz = scale·da
//             with u = weight·x, r = 1/rms(x), z = r·u:
//             dweight += r·dz·x      dx += r·weightᵀ dz − r²/(S·C)·(Σ dz·z)·x

inline size_t kind_of(size_t k, size_t S) { return (k >= S) + (k >= 2 * S); }
template <class Number>
size_t count_of(const Streams<Number>& p) {
  return p.kinds == 3 ? p.S * (p.S + 2) : p.kinds * p.S;
}

template <class Number>
void mhc_forward(StreamsSaved<Number>& saved, const Number* x, const Streams<Number>& p, size_t C) {
  const size_t S = p.S, K = count_of(p), N = saved.k.N;
  const Number write_eps = p.kinds == 2 ? kSinkhornEps : 0;
  saved.z.resize(N * K);
  saved.rstd.resize(N);
  std::vector<Number> a(K);
  Sinkhorn<Number> sinkhorn{S};
  for (size_t n = 0; n < N; ++n) {
    Number squares = 0;
    for (size_t s = 0; s < S; ++s) squares += dot(x + (s * N + n) * C, x + (s * N + n) * C, C);
    saved.rstd[n] = Number(1) / std::sqrt(squares / Number(double(S * C)) + Number(p.eps));
    for (size_t k = 0; k < K; ++k) {
      Number u = 0;
      for (size_t s = 0; s < S; ++s) u += dot(p.weight + (k * S + s) * C, x + (s * N + n) * C, C);
      saved.z[n * K + k] = saved.rstd[n] * u;
      a[k] = p.scale[kind_of(k, S)] * saved.z[n * K + k] + p.bias[k];
    }
    for (size_t s = 0; s < S; ++s) {
      saved.k.read[s * N + n] = sigmoid(a[s]) + Number(kSinkhornEps);
      if (p.kinds > 1) saved.k.write[s * N + n] = Number(2) * sigmoid(a[S + s]) + write_eps;
      saved.k.carry[(s * S + s) * N + n] = 1;
    }
    if (p.kinds < 3) continue;
    sinkhorn_forward(sinkhorn, &a[2 * S]);
    for (size_t i = 0; i < S * S; ++i) saved.k.carry[i * N + n] = sinkhorn.m.back()[i];
  }
}

template <class Number>
void mhc_backward(Number* dx, const Streams<Number>& g, Coefficients<Number>& dk, StreamsSaved<Number>& saved,
                  const Number* x, const Streams<Number>& p, size_t C) {
  const size_t S = p.S, K = count_of(p), N = dk.N;
  std::vector<Number> a(K), da(K);
  Sinkhorn<Number> sinkhorn{S};
  for (size_t n = 0; n < N; ++n) {
    const Number *z = &saved.z[n * K], r = saved.rstd[n];
    for (size_t k = 0; k < K; ++k) a[k] = p.scale[kind_of(k, S)] * z[k] + p.bias[k];
    for (size_t s = 0; s < S; ++s) {
      const Number read = sigmoid(a[s]);
      da[s] = dk.read[s * N + n] * read * (Number(1) - read);
      if (p.kinds == 1) continue;
      const Number write = sigmoid(a[S + s]);
      da[S + s] = Number(2) * dk.write[s * N + n] * write * (Number(1) - write);
    }
    for (size_t i = 0; i < S * S && p.kinds == 3; ++i) da[2 * S + i] = dk.carry[i * N + n];
    if (p.kinds == 3) {
      sinkhorn_forward(sinkhorn, &a[2 * S]);
      sinkhorn_backward(&da[2 * S], sinkhorn);
    }
    Number along = 0;  // Σ dz·z
    for (size_t k = 0; k < K; ++k) {
      const Number dz = p.scale[kind_of(k, S)] * da[k];
      g.bias[k] += da[k];                   // a = scale·z + bias
      g.scale[kind_of(k, S)] += da[k] * z[k];  // a = scale·z + bias
      along += dz * z[k];
      for (size_t s = 0; s < S; ++s) {  // u = weight·x
        add(g.weight + (k * S + s) * C, r * dz, x + (s * N + n) * C, C);
        add(dx + (s * N + n) * C, r * dz, p.weight + (k * S + s) * C, C);
      }
    }
    for (size_t s = 0; s < S; ++s)  // z = r·u
      add(dx + (s * N + n) * C, -r * r / Number(double(S * C)) * along, x + (s * N + n) * C, C);
  }
}

// ---- gated residual ------------------------------------------------------------------------------------------

// What a branch of the gated residual reads: a mean of normalized streams, with a gate for each channel.
//   x (S,N,C)   h (N,C)   write (S,N)   weight (r + S, S·C)   up (S·C, r)   v[s] = norms[s](x[s])
//   forward   z = weight·v/S      u = z·σ(z) of the first r      G[s] = σ(up·u)      h = 1/S·Σₛ G[s] ⊙ v[s]
//             write = 2σ(z) of the last S
//   backward  dv[s] = dh ⊙ G[s]/S      da[s] = dh ⊙ v[s]/S ⊙ G[s] ⊙ (1 − G[s])      dup += da·uᵀ      du = upᵀ·da
//             dz = du·σ·(1 + z·(1 − σ)), or dwrite·2σ·(1 − σ)      dweight += dz·vᵀ/S      dv += weightᵀ·dz/S
//             dx[s] += norms[s]'(dv[s])
// At the end of a stack there is no write.

template <class Number>
size_t rows_of(const Streams<Number>& p) {
  return p.rank + p.kinds * p.S;  // of weight
}

template <class Number>
void gated_read_forward(Number* h, StreamsSaved<Number>& saved, const Number* x, const Streams<Number>& p,
                        const Rows& rows) {
  const auto [N, C] = rows;
  const size_t S = p.S, r = p.rank, R = rows_of(p);
  const Number share = Number(1) / Number(double(S));
  saved.k = {S, N, C};
  saved.norms.resize(S);
  for (auto* of : {&saved.normed, &saved.gates}) of->resize(S * N * C);
  saved.z.resize(N * R);
  saved.u.resize(N * r);
  for (size_t s = 0; s < S; ++s)
    norm_forward(&saved.normed[s * N * C], saved.norms[s], x + s * N * C, p.norms[s], N, C);
  for (size_t n = 0; n < N; ++n) {
    Number *z = &saved.z[n * R], *u = &saved.u[n * r];
    for (size_t k = 0; k < R; ++k) {
      z[k] = 0;
      for (size_t s = 0; s < S; ++s) z[k] += share * dot(p.weight + (k * S + s) * C, &saved.normed[(s * N + n) * C], C);
    }
    for (size_t j = 0; j < r; ++j) u[j] = z[j] * sigmoid(z[j]);
    for (size_t s = 0; s < S && p.kinds > 0; ++s) saved.k.write[s * N + n] = Number(2) * sigmoid(z[r + s]);
    for (size_t c = 0; c < C; ++c) {
      h[n * C + c] = 0;
      for (size_t s = 0; s < S; ++s) {
        const size_t i = (s * N + n) * C + c;
        saved.gates[i] = sigmoid(dot(p.up + (s * C + c) * r, u, r));
        h[n * C + c] += share * saved.gates[i] * saved.normed[i];
      }
    }
  }
}

// Adds to dx. dwrite (S,N) is not read at the end of a stack.
template <class Number>
void gated_read_backward(Number* dx, const Streams<Number>& g, const Number* dh, const Number* dwrite,
                         const StreamsSaved<Number>& saved, const Number* x, const Streams<Number>& p,
                         const Rows& rows) {
  const auto [N, C] = rows;
  const size_t S = p.S, r = p.rank, R = rows_of(p);
  const Number share = Number(1) / Number(double(S));
  std::vector<Number> dv(S * N * C), through(N * C), du(r), dz(R);
  for (size_t n = 0; n < N; ++n) {
    const Number *z = &saved.z[n * R], *u = &saved.u[n * r];
    for (Number& d : du) d = 0;
    for (size_t s = 0; s < S; ++s)
      for (size_t c = 0; c < C; ++c) {
        const size_t i = (s * N + n) * C + c;
        const Number gate = saved.gates[i], d = share * dh[n * C + c];
        const Number da = d * saved.normed[i] * gate * (Number(1) - gate);
        dv[i] = d * gate;                                // h = 1/S·Σₛ G[s] ⊙ v[s]
        add(g.up + (s * C + c) * r, da, u, r);            // a = up·u
        add(du.data(), da, p.up + (s * C + c) * r, r);    // a = up·u
      }
    for (size_t j = 0; j < r; ++j) dz[j] = du[j] * sigmoid(z[j]) * (Number(1) + z[j] * (Number(1) - sigmoid(z[j])));
    for (size_t k = r; k < R; ++k)
      dz[k] = Number(2) * dwrite[(k - r) * N + n] * sigmoid(z[k]) * (Number(1) - sigmoid(z[k]));
    for (size_t k = 0; k < R; ++k)
      for (size_t s = 0; s < S; ++s) {  // z = weight·v/S
        add(g.weight + (k * S + s) * C, share * dz[k], &saved.normed[(s * N + n) * C], C);
        add(&dv[(s * N + n) * C], share * dz[k], p.weight + (k * S + s) * C, C);
      }
  }
  for (size_t s = 0; s < S; ++s) {
    norm_backward(through.data(), g.norms[s], &dv[s * N * C], x + s * N * C, saved.norms[s], p.norms[s], N, C);
    add(dx + s * N * C, Number(1), through.data(), N * C);
  }
}

// ---- the end of the streams ----------------------------------------------------------------------------------

// What the final norm reads of S streams that are mixed.
//   x (S,N,C)   h (N,C)
//   forward   h = Σₛ read[s]·x[s]      read: 1, or 1/S, or as in mHC. Gated residual: as in a branch
//   backward  dx[s] = read[s]·dh       the last one: dread[s] = ⟨dh, x[s]⟩, and mHC's backward adds to dx

template <class Number>
void streams_end_forward(Number* h, StreamsSaved<Number>& saved, const Number* x, StreamEnd end,
                         const Streams<Number>& p, const Rows& rows) {
  const auto [N, C] = rows;
  if (p.rule == StreamRule::gated) return gated_read_forward(h, saved, x, p, rows);
  saved.k = {p.S, N, C};
  if (end == StreamEnd::read) mhc_forward(saved, x, p, C);
  else saved.k.read.assign(p.S * N, end == StreamEnd::mean ? Number(1) / Number(double(p.S)) : Number(1));
  for (size_t i = 0; i < N * C; ++i) h[i] = 0;
  for (size_t s = 0; s < p.S; ++s)
    for (size_t n = 0; n < N; ++n) add(h + n * C, saved.k.read[s * N + n], x + (s * N + n) * C, C);
}

template <class Number>
void streams_end_backward(Number* dx, const Streams<Number>& g, const Number* dh, StreamsSaved<Number>& saved,
                          const Number* x, StreamEnd end, const Streams<Number>& p, const Rows& rows) {
  const auto [N, C] = rows;
  Coefficients<Number> dk{p.S, N, C};
  for (size_t i = 0; i < p.S * N * C; ++i) dx[i] = 0;
  if (p.rule == StreamRule::gated) return gated_read_backward(dx, g, dh, dk.write.data(), saved, x, p, rows);
  for (size_t s = 0; s < p.S; ++s)
    for (size_t n = 0; n < N; ++n) {
      dk.read[s * N + n] = dot(dh + n * C, x + (s * N + n) * C, C);           // h = Σₛ read[s]·x[s]
      add(dx + (s * N + n) * C, saved.k.read[s * N + n], dh + n * C, C);  // h = Σₛ read[s]·x[s]
    }
  if (end == StreamEnd::read) mhc_backward(dx, g, dk, saved, x, p, C);
}

// ---- ResiDual ------------------------------------------------------------------------------------------------

// The coefficients of ResiDual's two streams do not change: both get f, and only the first is read.

template <class Number>
void dual_coefficients(Coefficients<Number>& k) {
  for (size_t n = 0; n < k.N; ++n)
    k.read[n] = k.write[n] = k.write[k.N + n] = k.carry[n] = k.carry[3 * k.N + n] = 1;
}

// ---- a branch without its skip path --------------------------------------------------------------------------

// BranchFunction: a branch of residual.hpp as a function F, from h, which it reads, to f, which it writes. norm_sum is
// not part of it.

template <class Number>
struct StreamsBranch {
  Branch<Number> branch;
  Streams<Number> streams;
};

template <class Number, class Function>
struct BranchFunction {
  Branch<Number> p, g;
  BranchSaved<Number>& saved;
  Function& F;
  Rows rows;

  void forward(Number* f, const Number* h) { branch_forward(f, saved, h, p, F, rows); }
  void backward(Number* dh, const Number* df, const Number* h) { branch_backward(dh, g, df, h, saved, p, F, rows); }
};

template <class Number>
Branch<Number> without_skip(Branch<Number> branch) {
  branch.skip = 0;
  branch.norm_sum = {};
  return branch;
}

// ---- a gated branch ------------------------------------------------------------------------------------------

// A branch of the gated residual.
//   x, y (S,N,C)   h, f (N,C)   write (S,N)
//   forward   h and write from x, as above      f = F(h)      y[t] = skip·x[t] + write[t]·f
//   backward  df = Σₜ write[t]·dy[t]      dwrite[t] = ⟨dy[t], f⟩      dh = F'(df)
//             dx[s] = skip·dy[s] + what h and write pass on

template <class Number, class Function>
void gated_forward(Number* y, StreamsSaved<Number>& saved, const Number* x, const StreamsBranch<Number>& p,
                   Function&& F, const Rows& rows) {
  const auto [N, C] = rows;
  for (auto* row : {&saved.h, &saved.f}) row->resize(N * C);
  gated_read_forward(saved.h.data(), saved, x, p.streams, rows);
  BranchFunction<Number, Function> branch{without_skip(p.branch), {}, saved.branch, F, rows};
  branch.forward(saved.f.data(), saved.h.data());
  for (size_t i = 0; i < p.streams.S * N * C; ++i)
    y[i] = p.branch.skip * x[i] + saved.k.write[i / C] * saved.f[i % (N * C)];
}

template <class Number, class Function>
void gated_backward(Number* dx, const StreamsBranch<Number>& g, const Number* dy, const Number* x,
                    StreamsSaved<Number>& saved, const StreamsBranch<Number>& p, Function&& F, const Rows& rows) {
  const auto [N, C] = rows;
  const size_t S = p.streams.S;
  std::vector<Number> df(N * C), dh(N * C), dwrite(S * N);
  for (size_t i = 0; i < S * N * C; ++i) {
    dx[i] = p.branch.skip * dy[i];              // y[t] = skip·x[t] + ...
    df[i % (N * C)] += saved.k.write[i / C] * dy[i];  // y[t] = ... + write[t]·f
    dwrite[i / C] += saved.f[i % (N * C)] * dy[i];    // y[t] = ... + write[t]·f
  }
  BranchFunction<Number, Function> branch{without_skip(p.branch), without_skip(g.branch), saved.branch, F, rows};
  branch.backward(dh.data(), df.data(), saved.h.data());
  gated_read_backward(dx, g.streams, dh.data(), dwrite.data(), saved, x, p.streams, rows);
}

// ---- SiameseNorm ---------------------------------------------------------------------------------------------

// A branch of SiameseNorm; w is first_write.
//   x, y (2,N,C)   h, f (N,C)
//   forward   h = x[0] + norm(x[1])      f = F(h)      y[0] = norm_sum(skip·x[0] + w·f)      y[1] = skip·x[1] + f
//   backward  ds = norm_sum'(dy[0])      df = w·ds + dy[1]      dh = F'(df)
//             dx[0] = skip·ds + dh       dx[1] = skip·dy[1] + norm'(dh)

template <class Number, class Function>
void siamese_forward(Number* y, StreamsSaved<Number>& saved, const Number* x, const StreamsBranch<Number>& p,
                     Function&& F, const Rows& rows) {
  const size_t N = rows.N, C = rows.C, second = N * C;
  for (auto* row : {&saved.h, &saved.f, &saved.s}) row->resize(N * C);
  norm_forward(saved.h.data(), saved.norm, x + second, p.streams.norm, N, C);
  for (size_t i = 0; i < N * C; ++i) saved.h[i] += x[i];
  BranchFunction<Number, Function> branch{without_skip(p.branch), {}, saved.branch, F, rows};
  branch.forward(saved.f.data(), saved.h.data());
  for (size_t i = 0; i < N * C; ++i) {
    saved.s[i] = p.branch.skip * x[i] + p.streams.first_write * saved.f[i];
    y[second + i] = p.branch.skip * x[second + i] + saved.f[i];
  }
  norm_forward(y, saved.sum, saved.s.data(), p.branch.norm_sum, N, C);
}

template <class Number, class Function>
void siamese_backward(Number* dx, const StreamsBranch<Number>& g, const Number* dy, const Number* x,
                      StreamsSaved<Number>& saved, const StreamsBranch<Number>& p, Function&& F, const Rows& rows) {
  const size_t N = rows.N, C = rows.C, second = N * C;
  std::vector<Number> ds(N * C), df(N * C), dh(N * C), through(N * C);
  norm_backward(ds.data(), g.branch.norm_sum, dy, saved.s.data(), saved.sum, p.branch.norm_sum, N, C);
  for (size_t i = 0; i < N * C; ++i) df[i] = p.streams.first_write * ds[i] + dy[second + i];  // f is in both sums
  BranchFunction<Number, Function> branch{without_skip(p.branch), without_skip(g.branch), saved.branch, F, rows};
  branch.backward(dh.data(), df.data(), saved.h.data());                                        // f = F(h)
  norm_backward(through.data(), g.streams.norm, dh.data(), x + second, saved.norm, p.streams.norm, N, C);
  for (size_t i = 0; i < N * C; ++i) {
    dx[i] = p.branch.skip * ds[i] + dh[i];                                // s = skip·x[0] + ..., h = x[0] + ...
    dx[second + i] = p.branch.skip * dy[second + i] + through[i];  // y[1] = skip·x[1] + ..., h = ... + norm(x[1])
  }
}

// ---- attention over depth ------------------------------------------------------------------------------------

// The mean of K sources that a branch reads, with weights for each row.
//   v (K) of (N,C) each   query w (C)   h (N,C)
//   forward   key = norm(v)      z = scale·⟨w, key⟩      α = softmax of the row's K scores z      h = Σ α·v
//   backward  dα = ⟨dh, v⟩      dz from dα as in softmax      dw += scale·Σ dz·key      dv = α·dh + norm'(scale·dz·w)
// If `normed`, the keys take the place of the values v: h = Σ α·key.

template <class Number>
struct DepthQuery {
  Number* query = nullptr;
  Norm<Number> norm = {};
  bool normed = false;
  Number scale = 1;
};
template <class Number>
using Sources = std::vector<const Number*>;

template <class Number>
void depth_forward(Number* h, DepthSaved<Number>& saved, const Sources<Number>& v, const DepthQuery<Number>& p,
                   size_t N, size_t C) {
  const size_t K = v.size();
  saved = {std::vector(K, std::vector<Number>(N * C)), std::vector<NormSaved<Number>>(K), std::vector<Number>(N * K)};
  for (size_t k = 0; k < K; ++k) norm_forward(saved.keys[k].data(), saved.norms[k], v[k], p.norm, N, C);
  for (size_t i = 0; i < N * C; ++i) h[i] = 0;
  for (size_t n = 0; n < N; ++n) {
    Number* weights = &saved.weights[n * K];
    for (size_t k = 0; k < K; ++k) weights[k] = p.scale * dot(p.query, &saved.keys[k][n * C], C);
    softmax_forward(weights, weights, K);
    for (size_t k = 0; k < K; ++k) add(h + n * C, weights[k], (p.normed ? saved.keys[k].data() : v[k]) + n * C, C);
  }
}

// dv (K) of (N,C): what is added to the gradients of the sources.
template <class Number>
void depth_backward(std::vector<std::vector<Number>>& dv, const DepthQuery<Number>& g, const Number* dh,
                    const DepthSaved<Number>& saved, const Sources<Number>& v, const DepthQuery<Number>& p, size_t N,
                    size_t C) {
  const size_t K = v.size();
  std::vector<std::vector<Number>> dkeys(K, std::vector<Number>(N * C));
  std::vector<Number> dz(K);
  dv = dkeys;
  for (size_t n = 0; n < N; ++n) {
    const Number* weights = &saved.weights[n * K];
    for (size_t k = 0; k < K; ++k)
      dz[k] = dot(dh + n * C, (p.normed ? saved.keys[k].data() : v[k]) + n * C, C);  // h = Σ α·v
    softmax_backward(dz.data(), dz.data(), weights, K);
    for (size_t k = 0; k < K; ++k) {
      add(g.query, p.scale * dz[k], &saved.keys[k][n * C], C);    // z = scale·⟨w, key⟩
      add(&dkeys[k][n * C], p.scale * dz[k], p.query, C);         // z = scale·⟨w, key⟩
      if (p.normed) add(&dkeys[k][n * C], weights[k], dh + n * C, C);  // h = Σ α·key
    }
  }
  for (size_t k = 0; k < K; ++k) {
    norm_backward(dv[k].data(), g.norm, dkeys[k].data(), v[k], saved.norms[k], p.norm, N, C);  // key = norm(v)
    for (size_t n = 0; n < N && !p.normed; ++n)
      add(&dv[k][n * C], saved.weights[n * K + k], dh + n * C, C);  // h = Σ α·v
  }
}

// ---- branches that attend over depth -------------------------------------------------------------------------

// DepthSums: the sums of a stack. v[0] is its first input, v[j] the sum of the outputs of block j of its branches, if
// that is finished. d: their gradients.

template <class Number>
struct DepthSums {
  size_t block = 1;  // branches in a block
  std::vector<std::vector<Number>> v = {}, d = {};

  bool begins(size_t branch) const { return branch % block == 0; }

  // What branch number `branch` reads: the sums that are finished before it, and x unless that is one of them.
  Sources<Number> sources(size_t branch, const Number* x) const {
    Sources<Number> all;
    for (size_t j = 0; j <= branch / block; ++j) all.push_back(v[j].data());
    if (!begins(branch)) all.push_back(x);
    return all;
  }
  // Adds dv, in the order of sources(). dx receives its last part if x is not a finished sum.
  void add_gradients(Number* dx, const std::vector<std::vector<Number>>& dv, size_t branch, size_t size) {
    for (size_t j = 0; j < dv.size(); ++j) {
      const bool finished = j <= branch / block;
      add(finished ? d[j].data() : dx, Number(1), dv[j].data(), size);
    }
  }
};

// DepthBranch: a branch whose input is a mean. The first branch of a stack reads x itself.
//   x, y, h, f (N,C)
//   forward   h = mean of the sources      f = F(h)      y = f if the branch begins a block, or skip·x + f
//   backward  dy += d of the sum that y finishes      dh = F'(dy)      dx = skip·dy, or 0, plus that of the source x

template <class Number>
struct DepthBranch {
  DepthSums<Number>& sums;
  size_t branch;  // its number
  Number skip;
  DepthQuery<Number> p, g;
};

template <class Number, class Function>
void depth_branch_forward(Number* y, DepthSaved<Number>& saved, std::vector<Number>& h, const Number* x,
                          const DepthBranch<Number>& at, Function&& F, const Rows& rows) {
  const size_t N = rows.N, C = rows.C;
  DepthSums<Number>& sums = at.sums;
  h.assign(x, x + N * C);
  if (at.branch == 0) sums.v = {h};
  else depth_forward(h.data(), saved, sums.sources(at.branch, x), at.p, N, C);
  F.forward(y, h.data());
  if (!sums.begins(at.branch)) add(y, at.skip, x, N * C);
  if (sums.begins(at.branch + 1)) sums.v.emplace_back(y, y + N * C);
}

template <class Number, class Function>
void depth_branch_backward(Number* dx, const Number* dy, const DepthSaved<Number>& saved, const std::vector<Number>& h,
                           const Number* x, const DepthBranch<Number>& at, Function&& F, const Rows& rows) {
  const size_t N = rows.N, C = rows.C;
  DepthSums<Number>& sums = at.sums;
  std::vector<Number> d(dy, dy + N * C), dh(N * C);
  if (sums.begins(at.branch + 1)) add(d.data(), Number(1), sums.d[(at.branch + 1) / sums.block].data(), N * C);
  const std::vector<Number> whole = d;  // F may overwrite d
  F.backward(dh.data(), d.data(), h.data());  // y = skip·x + F(h)
  for (size_t i = 0; i < N * C; ++i) dx[i] = sums.begins(at.branch) ? Number(0) : at.skip * whole[i];
  if (at.branch == 0) {
    for (size_t i = 0; i < N * C; ++i) dx[i] = dh[i] + sums.d[0][i];  // h = x = v[0]
    return;
  }
  std::vector<std::vector<Number>> dv;
  depth_backward(dv, at.g, dh.data(), saved, sums.sources(at.branch, x), at.p, N, C);
  sums.add_gradients(dx, dv, at.branch, N * C);
}

// ---- a branch among streams ----------------------------------------------------------------------------------

// A residual branch under any rule: norms and gain as in residual.hpp, and norm_sum on the first stream.

template <class Number, class Function>
void streams_forward(Number* y, StreamsSaved<Number>& saved, const Number* x, const StreamsBranch<Number>& p,
                     Function&& F, const Rows& rows) {
  const auto [N, C] = rows;
  if (p.streams.rule == StreamRule::siamese) return siamese_forward(y, saved, x, p, F, rows);
  if (p.streams.rule == StreamRule::gated) return gated_forward(y, saved, x, p, F, rows);
  saved.k = {p.streams.S, N, C, p.branch.skip};
  for (auto* row : {&saved.h, &saved.f, &saved.s}) row->resize(N * C);
  if (p.streams.rule == StreamRule::dual) dual_coefficients(saved.k);
  else if (is_hyper(p.streams.rule)) hyper_forward(saved, x, p.streams, C);
  else mhc_forward(saved, x, p.streams, C);
  BranchFunction<Number, Function> branch{without_skip(p.branch), {}, saved.branch, F, rows};
  mixing_forward(y, saved.h.data(), saved.f.data(), x, saved.k, branch);
  std::copy(y, y + N * C, saved.s.begin());
  norm_forward(y, saved.sum, saved.s.data(), p.branch.norm_sum, N, C);
}

template <class Number, class Function>
void streams_backward(Number* dx, const StreamsBranch<Number>& g, const Number* dy, const Number* x,
                      StreamsSaved<Number>& saved, const StreamsBranch<Number>& p, Function&& F, const Rows& rows) {
  const auto [N, C] = rows;
  if (p.streams.rule == StreamRule::siamese) return siamese_backward(dx, g, dy, x, saved, p, F, rows);
  if (p.streams.rule == StreamRule::gated) return gated_backward(dx, g, dy, x, saved, p, F, rows);
  std::vector<Number> ds(dy, dy + p.streams.S * N * C);
  Coefficients<Number> dk{p.streams.S, N, C};
  norm_backward(ds.data(), g.branch.norm_sum, dy, saved.s.data(), saved.sum, p.branch.norm_sum, N, C);
  BranchFunction<Number, Function> branch{without_skip(p.branch), without_skip(g.branch), saved.branch, F, rows};
  mixing_backward(dx, dk, ds.data(), x, saved.h.data(), saved.f.data(), saved.k, branch);
  if (is_hyper(p.streams.rule)) hyper_backward(dx, g.streams, dk, saved, x, p.streams, C);
  else if (p.streams.rule != StreamRule::dual) mhc_backward(dx, g.streams, dk, saved, x, p.streams, C);
}

}  // namespace textbook
