// The numbers of layers/attention/attention.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr int T = 3, D = 2;
const double kScale = 1 / std::sqrt(2.);

double dot(const Doubles& a, int i, const Doubles& b, int j) {
  return a[i * D] * b[j * D] + a[i * D + 1] * b[j * D + 1];
}

// Returns a[i]·b[j] for the keys j ≤ i, row by row.
Doubles seen_products(const Doubles& a, const Doubles& b) {
  Doubles products;
  for (int i = 0; i < T; ++i)
    for (int j = 0; j <= i; ++j) products.push_back(dot(a, i, b, j));
  return products;
}

// Joins head 0 of q, head 1 of q, ..., k, v into rows. part_of extracts one part.
Doubles joined_rows(const std::vector<Doubles>& parts) {
  Doubles rows;
  for (int t = 0; t < T; ++t)
    for (const Doubles& part : parts) rows.insert(rows.end(), &part[t * D], &part[t * D] + D);
  return rows;
}
Doubles part_of(const Doubles& rows, int part) {
  Doubles x(T * D);
  for (size_t i = 0; i < x.size(); ++i) x[i] = rows[i / D * (rows.size() / T) + part * D + i % D];
  return x;
}

// The textbook's attention with query heads that share k and v.
struct Pass {
  int H;
  Doubles P, out, dqkv;

  Pass(const std::vector<Doubles>& q, const Doubles& k, const Doubles& v, const std::vector<Doubles>& dout)
      : H(int(q.size())), P(H * T * T), out(H * T * D), dqkv((H + 2) * T * D) {
    std::vector<Doubles> parts = q;
    parts.push_back(k), parts.push_back(v);
    const Doubles qkv = joined_rows(parts), dy = joined_rows(dout);
    const textbook::AttentionShape shape{1, T, size_t(H), 1, D};
    textbook::attention_forward<double>(out.data(), P.data(), qkv.data(), nullptr, shape);
    textbook::attention_backward<double>(dqkv.data(), dy.data(), P.data(), qkv.data(), nullptr, shape);
  }
  Doubles dq() const { return part_of(dqkv, 0); }
  Doubles dk() const { return part_of(dqkv, H); }
  Doubles dv() const { return part_of(dqkv, H + 1); }

  // Δ and dS of the first head.
  Doubles delta(const Doubles& dP) const {
    Doubles sum(T);
    for (int i = 0, at = 0; i < T; ++i)
      for (int j = 0; j <= i; ++j) sum[i] += P[i * T + j] * dP[at++];
    return sum;
  }
  Doubles dS(const Doubles& dP) const {
    Doubles ds(T * T), mean = delta(dP);
    for (int i = 0, at = 0; i < T; ++i)
      for (int j = 0; j <= i; ++j) ds[i * T + j] = P[i * T + j] * (dP[at++] - mean[i]);
    return ds;
  }
};

struct Row {  // a row of a softmax
  double top = -INFINITY, sum = 0;
  Doubles exponentials;
  explicit Row(const Doubles& scores) {
    for (const double s : scores) top = std::max(top, s);
    for (const double s : scores) exponentials.push_back(std::exp(s - top)), sum += exponentials.back();
  }
  double lse() const { return top + std::log(sum); }
};

void check_forward(WorkedPage& page, const Pass& pass, const Doubles& q, const Doubles& k) {
  Doubles S = seen_products(q, k), tops, exponentials, row_sums, lse;
  page.matches("qk", S);
  for (double& s : S) s *= kScale;
  page.matches("S", S);
  for (int i = 0; i < T; ++i) {
    const int first = i * (i + 1) / 2;  // row i has i + 1 scores
    const Row row({&S[first], &S[first] + i + 1});
    tops.push_back(row.top), row_sums.push_back(row.sum), lse.push_back(row.lse());
    exponentials.insert(exponentials.end(), row.exponentials.begin(), row.exponentials.end());
  }
  page.matches("top", tops);
  page.matches("E", exponentials);
  page.matches("sum", row_sums);
  page.matches("lse", lse);
  page.matches("P", pass.P);
  page.matches("out", pass.out);
}

void check_backward(WorkedPage& page, const Pass& pass, const Doubles& v, const Doubles& dout) {
  const Doubles dP = seen_products(dout, v);
  page.matches("dP", dP);
  page.matches("Δ", pass.delta(dP));
  page.matches("dout·out", Doubles{dot(dout, 0, pass.out, 0), dot(dout, 1, pass.out, 1), dot(dout, 2, pass.out, 2)});
  page.matches("dS", pass.dS(dP));
  page.matches("dq", pass.dq());
  page.matches("dk", pass.dk());
  page.matches("dv", pass.dv());
}

// The last row in two pieces: keys 0 and 1, then key 2.
void check_running_softmax(WorkedPage& page, const Doubles& q, const Doubles& k, const Doubles& v) {
  Doubles S;
  for (int j = 0; j < T; ++j) S.push_back(kScale * dot(q, 2, k, j));
  const Row first({S[0], S[1]});
  Doubles out(D);
  for (int d = 0; d < D; ++d) out[d] = first.exponentials[0] * v[d] + first.exponentials[1] * v[D + d];
  page.matches("top₁", Doubles{first.top});
  page.matches("E₁", first.exponentials);
  page.matches("sum₁", Doubles{first.sum});
  page.matches("out₁", out);

  const double top = std::max(first.top, S[2]), shrink = std::exp(first.top - top), e = std::exp(S[2] - top);
  const double sum = first.sum * shrink + e, lse = top + std::log(sum);
  for (int d = 0; d < D; ++d) out[d] = out[d] * shrink + e * v[2 * D + d];
  page.matches("top₂", Doubles{top});
  page.matches("shrink", Doubles{shrink});
  page.matches("E₂", Doubles{e});
  page.matches("sum₂", Doubles{sum});
  page.matches("out₂", out);
  page.matches("out₃", Doubles{out[0] / sum, out[1] / sum});
  page.matches("lse₃", Doubles{lse});
  page.matches("P₃", Doubles{std::exp(S[0] - lse), std::exp(S[1] - lse), std::exp(S[2] - lse)});
}

// The fast version on the page's example.
void check_product(WorkedPage& page, const Doubles& qkv, const Doubles& dout) {
  const std::vector<float> x(qkv.begin(), qkv.end()), dy(dout.begin(), dout.end());
  std::vector<float> out(T * D), lse(T), dqkv(x.size());
  const AttentionShape shape{1, T, 1, 1, D};
  attention_forward(out.data(), lse.data(), x.data(), shape, {}, 0);
  attention_backward(dqkv.data(), dy.data(), out.data(), lse.data(), x.data(), shape, {}, 0);
  page.matches("out", widen(out));
  page.matches("lse", widen(lse));
  page.matches("dq", part_of(widen(dqkv), 0));
  page.matches("dk", part_of(widen(dqkv), 1));
  page.matches("dv", part_of(widen(dqkv), 2));
}

// The same example with a sink.
void check_sink(WorkedPage& page, const Doubles& qkv, const Doubles& v, const Doubles& dout) {
  const double sink = page.numbers("sink")[0];
  const textbook::AttentionShape shape{1, T, 1, 1, D};
  Doubles P(T * T), out(T * D), dqkv(qkv.size()), lse, p_sink, delta(T), dsinks(1), each;
  textbook::attention_forward<double>(out.data(), P.data(), qkv.data(), nullptr, shape, {}, &sink);
  textbook::attention_backward<double>(dqkv.data(), dout.data(), P.data(), qkv.data(), nullptr, shape);
  textbook::sinks_backward(dsinks.data(), dout.data(), out.data(), P.data(), shape, T);
  const Doubles q = part_of(qkv, 0), k = part_of(qkv, 1), dP = seen_products(dout, v);
  Doubles S = seen_products(q, k), dS(T * T);
  for (int i = 0, at = 0; i < T; ++i) {
    double sum = std::exp(sink);
    for (int j = 0; j <= i; ++j) sum += std::exp(kScale * S[at + j]);
    for (int j = 0; j <= i; ++j) delta[i] += P[i * T + j] * dP[at + j];
    for (int j = 0; j <= i; ++j) dS[i * T + j] = P[i * T + j] * (dP[at + j] - delta[i]);
    at += i + 1, lse.push_back(std::log(sum)), p_sink.push_back(std::exp(sink) / sum);
    each.push_back(-p_sink[i] * delta[i]);
  }
  page.matches("lse_s", lse);
  page.matches("P_s", P);
  page.matches("p_sink", p_sink);
  page.matches("out_s", out);
  page.matches("Δ_s", delta);
  page.matches("dS_s", dS);
  page.matches("dS_sink", each);
  page.matches("dsink", dsinks);
}

}  // namespace

TEST_CASE("layers/attention/attention.md is worked out right", "[worked][pages][attention]") {
  WorkedPage page("attention/attention");
  const Doubles q = page.numbers("q"), k = page.numbers("k"), v = page.numbers("v"), dout = page.numbers("dout");
  const Pass pass({q}, k, v, {dout});
  check_forward(page, pass, q, k);
  check_backward(page, pass, v, dout);
  check_running_softmax(page, q, k, v);
  check_product(page, joined_rows({q, k, v}), dout);
  check_sink(page, joined_rows({q, k, v}), v, dout);

  // The exercise: a second query head on the same keys and values.
  const Doubles q2 = page.numbers("q'"), dout2 = page.numbers("dout'"), dP2 = seen_products(dout2, v);
  const Pass second({q2}, k, v, {dout2}), both({q, q2}, k, v, {dout, dout2});
  page.matches("P'", second.P);
  page.matches("Δ'", second.delta(dP2));
  page.matches("dS'", second.dS(dP2));
  page.matches("dk'", second.dk());
  page.matches("dv'", second.dv());
  page.matches("dk+dk'", both.dk());
  page.matches("dv+dv'", both.dv());
  CHECK(both.dq() == pass.dq());
}
