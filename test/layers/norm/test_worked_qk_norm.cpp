// The numbers of layers/norm/qk_norm.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t N = 2, H = 2, KV = 1, D = 2, kStride = (H + 2 * KV) * D;

// Joins q (N,H·D), k and v (N,KV·D) into rows q|k|v. heads_of extracts `count` heads, starting with `first`.
Doubles joined_rows(const Doubles& q, const Doubles& k, const Doubles& v) {
  Doubles rows;
  for (size_t n = 0; n < N; ++n) {
    rows.insert(rows.end(), &q[n * H * D], &q[n * H * D] + H * D);
    for (const Doubles* part : {&k, &v}) rows.insert(rows.end(), &(*part)[n * KV * D], &(*part)[n * KV * D] + KV * D);
  }
  return rows;
}
Doubles heads_of(const Doubles& rows, size_t first, size_t count) {
  Doubles x;
  for (size_t n = 0; n < N; ++n)
    x.insert(x.end(), &rows[n * kStride + first * D], &rows[n * kStride + first * D] + count * D);
  return x;
}

// QK-norm of `count` parts of each row, each as wide as the gain. Rows are `stride` apart.
struct Pass {
  Doubles dgain, rstd, xhat, dxhat, mean;

  Pass(double* y, double* d, Doubles gain, size_t rows, size_t count, size_t stride) : dgain(gain.size()) {
    const size_t width = gain.size();
    Doubles dy;
    for (size_t i = 0; i < rows * count * width; ++i)
      dy.push_back(d[i / (count * width) * stride + i % (count * width)]);
    const textbook::Norm<double> p{NormKind::rmsnorm, 0, gain.data()}, g{NormKind::rmsnorm, 0, dgain.data()};
    textbook::QkNormSaved<double> saved;
    textbook::qk_norm_forward(y, saved, p, rows, count, width, stride);
    textbook::qk_norm_backward(d, g, saved, p, rows, count, width, stride);
    mean.resize(rows * count);
    for (size_t part = 0; part < rows * count; ++part) rstd.push_back(saved.norm[part].rstd[0]);
    for (size_t i = 0; i < saved.x.size(); ++i) {
      xhat.push_back(saved.x[i] * rstd[i / width]), dxhat.push_back(dy[i] * gain[i % width]);
      mean[i / width] += xhat[i] * dxhat[i] / double(width);
    }
  }
};

// Scores of the first query head for q (N,H·D) and k (N,D), with keys j ≤ i.
Doubles scores(const Doubles& q, const Doubles& k) {
  Doubles s;
  for (size_t i = 0; i < N; ++i)
    for (size_t j = 0; j <= i; ++j)
      s.push_back((q[i * H * D] * k[j * D] + q[i * H * D + 1] * k[j * D + 1]) / std::sqrt(2.));
  return s;
}

}  // namespace

TEST_CASE("layers/norm/qk_norm.md is worked out right", "[worked][pages][qk_norm]") {
  WorkedPage page("norm/qk_norm");
  const Doubles q = page.numbers("q"), k = page.numbers("k"), v = page.numbers("v");
  const Doubles dyq = page.numbers("dyq"), dyk = page.numbers("dyk"), gain = page.numbers("γq");
  Doubles y = joined_rows(q, k, v), d = joined_rows(dyq, dyk, v);
  const Pass of_q(y.data(), d.data(), gain, N, H, kStride);
  const Pass of_k(&y[H * D], &d[H * D], page.numbers("γk"), N, KV, kStride);
  CHECK(heads_of(y, H + KV, KV) == v);
  CHECK(heads_of(d, H + KV, KV) == v);

  page.matches("r_q", of_q.rstd);
  page.matches("r_k", of_k.rstd);
  page.matches("q̂", of_q.xhat);
  page.matches("k̂", of_k.xhat);
  page.matches("yq", heads_of(y, 0, H));
  page.matches("yk", heads_of(y, H, KV));
  page.matches("S_raw", scores(q, k));
  page.matches("S_unit", scores(of_q.xhat, of_k.xhat));
  page.matches("S_norm", scores(heads_of(y, 0, H), heads_of(y, H, KV)));

  page.matches("dq̂", of_q.dxhat);
  page.matches("dk̂", of_k.dxhat);
  page.matches("mean_q", of_q.mean);
  page.matches("mean_k", of_k.mean);
  page.matches("dq", heads_of(d, 0, H));
  page.matches("dk", heads_of(d, H, KV));
  page.matches("dγq", of_q.dgain);
  page.matches("dγk", of_k.dgain);

  // The exercise: one norm over all heads of the first token, each head with the same gain.
  Doubles row(q.begin(), q.begin() + H * D), drow(dyq.begin(), dyq.begin() + H * D), gains = gain;
  gains.insert(gains.end(), gain.begin(), gain.end());
  const Pass full(row.data(), drow.data(), gains, 1, 1, H * D);
  page.matches("r_full", full.rstd);
  page.matches("y_full", row);
  page.matches("dq̂_full", full.dxhat);
  page.matches("mean_full", full.mean);
  page.matches("dq_full", drow);
}
