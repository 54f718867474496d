// The numbers of layers/embedding/position.md.

#include <algorithm>

#include "textbook.hpp"
#include "worked.hpp"

namespace {

// T equal rows x, one for each position.
Doubles at_positions(const Doubles& x, size_t T) {
  Doubles rows;
  for (size_t t = 0; t < T; ++t) rows.insert(rows.end(), x.begin(), x.end());
  return rows;
}

using textbook::dot;

void check_learned(WorkedPage& page) {
  const size_t B = 2, T = 2, C = 3;
  Doubles y = page.numbers("x"), dW(T * C);
  const Doubles W = page.numbers("W"), dy = page.numbers("dy");
  textbook::learned_position_forward(y.data(), W.data(), textbook::positions(B, T), C);
  textbook::learned_position_backward(dW.data(), dy.data(), textbook::positions(B, T), C);
  page.matches("y", y);
  page.matches("dW", dW);
}

void check_sinusoids(WorkedPage& page) {
  Doubles E(3 * 4);
  textbook::sinusoidal_position_forward(E.data(), textbook::positions(1, 3), 4);
  page.matches("E", E);
}

void check_rope(WorkedPage& page) {
  const size_t T = 3, D = 4;
  const double theta = 100;
  Doubles q = at_positions(page.numbers("q"), T), k = at_positions(page.numbers("k"), T), partial = q;
  Doubles angles, cosines, sines, scores, lengths, dq = page.numbers("dq_turned");
  for (size_t t = 0; t < T; ++t)
    for (size_t i = 0; i < D / 2; ++i) {
      angles.push_back(double(t) * std::pow(theta, -2. * double(i) / D));
      cosines.push_back(std::cos(angles.back())), sines.push_back(std::sin(angles.back()));
    }
  page.matches("φ", angles);
  page.matches("cosφ", cosines);
  page.matches("sinφ", sines);

  textbook::rope_forward(q.data(), {theta, D}, textbook::positions(1, T), 1, D, D);
  textbook::rope_forward(k.data(), {theta, D}, textbook::positions(1, T), 1, D, D);
  textbook::rope_forward(partial.data(), {theta, 2}, textbook::positions(1, T), 1, D, D);
  for (size_t i = 0; i < T; ++i)
    for (size_t j = 0; j <= i; ++j) scores.push_back(dot(&q[i * D], &k[j * D], D));
  page.matches("q_turned", q);
  page.matches("k_turned", k);
  page.matches("score", scores);
  page.matches("partial", partial);

  for (size_t t = 0; t < T; ++t) lengths.push_back(std::sqrt(dot(&dq[t * D], &dq[t * D], D)));
  page.matches("length", lengths);
  textbook::rope_backward(dq.data(), {theta, D}, textbook::positions(1, T), 1, D, D);
  page.matches("dq", dq);
  for (size_t t = 0; t < T; ++t) CHECK(std::sqrt(dot(&dq[t * D], &dq[t * D], D)) == Approx(lengths[t]).epsilon(1e-14));
}

// The textbook's attention for the last query: softmax of z − slope·distance. q = z, scale = 1 and the keys are unit
// vectors, so the scores are z.
struct LastQuery {
  size_t T;
  Doubles z;
  textbook::Scoring scoring;
  textbook::Relative<double> relative = {};

  Doubles qkv() const {
    Doubles rows(T * 3 * T);
    for (size_t t = 0; t < T; ++t) {
      std::copy(z.begin(), z.end(), &rows[t * 3 * T]);
      rows[t * 3 * T + T + t] = rows[t * 3 * T + 2 * T + t] = 1;
    }
    return rows;
  }
  Doubles P() const {
    Doubles out(T * T), all(T * T);
    textbook::attention_forward<double>(out.data(), all.data(), qkv().data(), nullptr, {1, T, 1, 1, T}, scoring,
                                        nullptr, relative);
    return {all.end() - static_cast<ptrdiff_t>(T), all.end()};
  }
  // The keys are unit vectors, so dq is the gradient of the scores. So are the values, so dout is dP.
  Doubles dz(const Doubles& dP, const textbook::Relative<double>& drelative = {}) const {
    Doubles out(T * T), all(T * T), dqkv(T * 3 * T), dout(T * T);
    std::copy(dP.begin(), dP.end(), dout.end() - static_cast<ptrdiff_t>(T));
    textbook::attention_forward<double>(out.data(), all.data(), qkv().data(), nullptr, {1, T, 1, 1, T}, scoring,
                                        nullptr, relative);
    textbook::attention_backward<double>(dqkv.data(), dout.data(), all.data(), qkv().data(), nullptr, {1, T, 1, 1, T},
                                         scoring, drelative);
    const double* last = &dqkv[(T - 1) * 3 * T];
    return {last, last + T};
  }
};

void check_alibi(WorkedPage& page) {
  const size_t T = 3;
  Doubles slopes, S;
  for (size_t h = 0; h < 3; ++h) slopes.push_back(textbook::alibi_slope(h, 3));
  page.matches("slopes", slopes);
  const Doubles z = page.numbers("z");
  for (size_t j = 0; j < T; ++j) S.push_back(z[j] - slopes[2] * double(T - 1 - j));
  const LastQuery query{T, z, {.scale = 1, .slopes = {slopes[2]}}};
  page.matches("S", S);
  page.matches("P", query.P());
  page.matches("P_flat", LastQuery{T, z, {.scale = 1}}.P());
  page.matches("dz", query.dz(page.numbers("dP")));
}

void check_relative(WorkedPage& page) {
  const textbook::RelativeRule rule{6, 9}, both{6, 9, false};
  Doubles buckets, in_both, S;
  for (size_t d = 0; d < 10; ++d) buckets.push_back(double(textbook::relative_bucket(d, 0, rule)));
  page.matches("bucket", buckets);
  for (const int d : {-4, -2, -1, 0, 1, 2, 4})
    in_both.push_back(double(textbook::relative_bucket(size_t(std::max(d, 0)), size_t(std::max(-d, 0)), both)));
  page.matches("both", in_both);
  Doubles R = page.numbers("R"), dR(R.size());
  const Doubles z = page.numbers("z_last");
  for (size_t j = 0; j < z.size(); ++j) S.push_back(z[j] + R[textbook::relative_bucket(z.size() - 1, j, rule)]);
  page.matches("S_relative", S);
  const LastQuery query{z.size(), z, {.scale = 1}, {R.data(), rule}};
  page.matches("P_relative", query.P());
  page.matches("dz_last", query.dz(page.numbers("dP_last"), {dR.data(), rule}));
  page.matches("dR", dR);
}

}  // namespace

TEST_CASE("layers/embedding/position.md is worked out right", "[worked][pages][position]") {
  WorkedPage page("embedding/position");
  check_learned(page);
  check_sinusoids(page);
  check_rope(page);
  check_alibi(page);
  check_relative(page);
}
