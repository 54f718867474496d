#include "mix.hpp"

#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::Vec;

namespace {

struct Factors {
  float own, first;
};
Factors factors_of(const Mix& p) {
  if (p.learned()) return {*p.own, *p.first};
  return {p.constant, p.constant};
}

}  // namespace

Mix declare_mix(Layout& layout, const std::string& name, float own, float first) {
  Mix p;
  p.own = layout.take(name + ".own", Role::mix, {1}, {own, 0});
  p.first = layout.take(name + ".first", Role::mix, {1}, {first, 0});
  return p;
}

void mix_forward(float* y, const float* x, const float* z, const Mix& p, const MixRows& rows) {
  const int N = rows.N, W = rows.W;
  const size_t stride = rows.stride;
  const auto [a, b] = factors_of(p);
  parallel_for(N, 1, 2 * static_cast<size_t>(W), [&, a = a, b = b](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n)
      simd::sweep(W, [&](int i, int lanes) {
        store(y + n * stride + i, a * load(x + n * stride + i, lanes) + b * load(z + n * W + i, lanes), lanes);
      });
  });
}

// Sums each block of rows separately.
void mix_backward(float* d, float* dz, bool add, const Mix& g, const float* x, const float* z, const Mix& p,
                  const MixRows& rows) {
  const int N = rows.N, W = rows.W;
  const size_t stride = rows.stride;
  const auto [a, b] = factors_of(p);
  std::vector<double> own(row_blocks(N)), first(row_blocks(N));
  parallel_for(N, kRowBlock, 6 * static_cast<size_t>(W), [&, a = a, b = b](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n) {
      Vec da = {}, db = {};
      simd::sweep(W, [&](int i, int lanes) {
        const size_t at = n * W + i;
        const Vec dy = load(d + n * stride + i, lanes);
        if (p.learned()) {
          da += dy * load(x + at, lanes);  // y = a·x + b·z
          db += dy * load(z + at, lanes);  // y = a·x + b·z
        }
        store(dz + at, add ? load(dz + at, lanes) + b * dy : b * dy, lanes);  // y = a·x + b·z
        store(d + n * stride + i, a * dy, lanes);                             // y = a·x + b·z
      });
      own[n / kRowBlock] += simd::sum(da);
      first[n / kRowBlock] += simd::sum(db);
    }
  });
  if (!p.learned()) return;
  double da = 0, db = 0;
  for (const double sum : own) da += sum;
  for (const double sum : first) db += sum;
  *g.own += static_cast<float>(da);
  *g.first += static_cast<float>(db);
}
