#include "moe.hpp"

#include <cstring>
#include <numeric>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

namespace {

// Returns "ffn.expert.3"; numbers from E on are shared experts: "ffn.shared.0".
std::string name_of_expert(const Config& config, const std::string& name, int i) {
  return name + (i < config.experts ? ".expert." + std::to_string(i) : ".shared." + std::to_string(i - config.experts));
}

// The choices sorted by expert. Row r belongs to token[r], and is choice slot[r] of all N·k.
struct Sorted {
  std::vector<int> first, token, slot;  // (E + 1), (N·k), (N·k)
};
Sorted sort_by_expert(const RouterSaved& saved, const Config& config, int N) {
  const int E = config.experts, k = config.experts_per_token;
  const std::vector<int> load = router_load(saved, config, N);
  Sorted sorted{std::vector<int>(E + 1), std::vector<int>(size_t(N) * k), std::vector<int>(size_t(N) * k)};
  std::partial_sum(load.begin(), load.end(), sorted.first.begin() + 1);
  std::vector<int> next(sorted.first.begin(), sorted.first.end() - 1);
  for (int i = 0; i < N * k; ++i) {
    const int row = next[int(saved.chosen[i])]++;
    sorted.token[row] = i / k;
    sorted.slot[row] = i;
  }
  return sorted;
}

// The rows of one expert. A shared expert has a row for each token; token and slot are null.
struct Rows {
  size_t begin;  // first row, among all R
  int count;
  const int *token, *slot;
};

// Calls f(rows, number) for each expert that has rows.
template <class F>
void each_expert(const Sorted& sorted, const Config& config, int N, F f) {
  const int E = config.experts;
  for (int i = 0; i < E + config.shared_experts; ++i) {
    const int first = i < E ? sorted.first[i] : 0, count = i < E ? sorted.first[i + 1] - first : N;
    const size_t begin = i < E ? first : sorted.first[E] + static_cast<size_t>(i - E) * N;
    const int *token = i < E ? sorted.token.data() + first : nullptr;
    const int* slot = i < E ? sorted.slot.data() + first : nullptr;
    if (count > 0) f(Rows{begin, count, token, slot}, i);
  }
}

// Calls f(row of the expert, row of the token) for all rows of C numbers.
template <class F>
void each_row(const Rows& rows, int C, F f) {
  parallel_each(rows.count, C, [&](size_t r) { f(r, rows.token ? static_cast<size_t>(rows.token[r]) : r); });
}

// Returns the expert's rows of x (N,C). Copies them to `to`, unless the expert has all rows.
const float* gathered(float* to, const float* x, const Rows& rows, int C) {
  if (!rows.token) return x;
  each_row(rows, C, [=](size_t r, size_t n) { std::memcpy(to + r * C, x + n * C, C * sizeof(float)); });
  return to;
}

// y[token] += weight·from[row]
void scatter_add(float* y, const float* from, const float* weights, const Rows& rows, int C) {
  each_row(rows, C, [=, slot = rows.slot](size_t r, size_t n) {
    const float weight = weights && slot ? weights[slot[r]] : 1;
    for (int c = 0; c < C; ++c) y[n * C + c] += weight * from[r * C + c];
  });
}

float dot(const float* a, const float* b, int n) {
  simd::Vec sum = {};
  simd::sweep(n, [&](int i, int lanes) { sum += simd::load(a + i, lanes) * simd::load(b + i, lanes); });
  return static_cast<float>(simd::sum(sum));
}

int up_width(const Config& config) { return config.gated() ? 2 * config.hidden : config.hidden; }

}  // namespace

int expert_rows(const Config& config, int N) { return N * config.experts_run(); }

void declare_moe_in(Moe& p, Layout& layout, const Config& config, const std::string& name) {
  p.router = declare_router(layout, config, name + ".router");
  p.experts.resize(config.experts + config.shared_experts);
  std::vector<LinearPart> up = {{"up", Role::ffn_in, config.hidden}};
  if (config.gated()) up.insert(up.begin(), {"gate", Role::ffn_in, config.hidden});
  for (size_t i = 0; i < p.experts.size(); ++i)
    p.experts[i].up = declare_linear(layout, config, name_of_expert(config, name, int(i)), up, config.channels);
}

void declare_moe_out(Moe& p, Layout& layout, const Config& config, const std::string& name) {
  const std::vector<LinearPart> down = {{"down", Role::ffn_out, config.channels}};
  for (size_t i = 0; i < p.experts.size(); ++i)
    p.experts[i].down = declare_linear(layout, config, name_of_expert(config, name, int(i)), down, config.hidden);
}

void moe_up_forward(float* up, const RouterSaved& saved, const float* u, const Moe& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, width = up_width(c.config);
  router_forward(saved, u, p.router, c.config, N);
  if (c.load) {
    const std::vector<int> load = router_load(saved, c.config, N);
    for (size_t i = 0; i < load.size(); ++i) c.load[c.layer * load.size() + i] += load[i];
  }
  each_expert(sort_by_expert(saved, c.config, N), c.config, N, [&](const Rows& rows, int i) {
    const float* x = gathered(c.scratch.rows, u, rows, C);
    linear_forward(up + rows.begin * width, x, p.experts[i].up, {rows.count, C, width});
  });
}

void moe_down_forward(float* f, const RouterSaved& saved, const float* m, const Moe& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden;
  set_zero(f, static_cast<size_t>(N) * C);
  each_expert(sort_by_expert(saved, c.config, N), c.config, N, [&](const Rows& rows, int i) {
    linear_forward(c.scratch.rows, m + rows.begin * F, p.experts[i].down, {rows.count, F, C});
    scatter_add(f, c.scratch.rows, saved.weights, rows, C);
  });
}

void moe_down_backward(float* dm, const Moe& g, const float* df, const float* m, const RouterSaved& saved, const Moe& p,
                       const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden, E = c.config.experts;
  set_zero(c.scratch.dscores, static_cast<size_t>(N) * E);
  each_expert(sort_by_expert(saved, c.config, N), c.config, N, [&](const Rows& rows, int i) {
    const Linear& down = p.experts[i].down;
    float *dy = c.scratch.rows, *dm_rows = dm + rows.begin * F;
    const float* m_rows = m + rows.begin * F;
    if (rows.token)
      each_row(rows, C, [&](size_t r, size_t n) {  // f += p·y
        for (int k = 0; k < C; ++k) dy[r * C + k] = saved.weights[rows.slot[r]] * df[n * C + k];
      });
    linear_backward(dm_rows, g.experts[i].down, rows.token ? dy : df, m_rows, down, {rows.count, F, C});
    if (rows.token)
      each_row(rows, F, [&](size_t r, size_t n) {  // t = p·(df·y), y = down m + bias
        c.scratch.dscores[n * E + i] = dot(dm_rows + r * F, m_rows + r * F, F) +
                                       (down.bias ? dot(dy + r * C, down.bias, C) : 0);
      });
  });
}

void moe_up_backward(float* du, const Moe& g, const float* dup, const float* u, const RouterSaved& saved, const Moe& p,
                     const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, width = up_width(c.config);
  router_backward(c.scratch.dscores, saved, c.config, c.router_scale, N);
  linear_backward(du, g.router.linear, c.scratch.dscores, u, p.router.linear, {N, C, c.config.experts});
  each_expert(sort_by_expert(saved, c.config, N), c.config, N, [&](const Rows& rows, int i) {
    const float* x = gathered(c.scratch.rows, u, rows, C);
    linear_backward(c.scratch.drows, g.experts[i].up, dup + rows.begin * width, x, p.experts[i].up,
                    {rows.count, C, width});
    scatter_add(du, c.scratch.drows, nullptr, rows, C);
  });
}
