// Threads share products of whole matrices by panels of rows. The two symmetric products, A = X Xᵀ and A², are computed
// only on and above the diagonal. With the identity in the polynomial, P = aI + bA + cA², a round is X ← P X.
//
// A tall X (rows > cols) is not transposed: A = Xᵀ X, and X ← X P.

#include "muon.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "decay.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

constexpr int kPanel = 128;             // rows per task
constexpr size_t kTogether = 1 << 21;   // floats of matrices that are orthogonalized together; they fit in L3

constexpr OddPolynomial kJordan[] = {{3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                     {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                     {3.4445f, -4.7750f, 2.0315f}};

constexpr OddPolynomial with_safety(double a, double b, double c) {
  constexpr double s = 1.01;
  return {float(a / s), float(b / (s * s * s)), float(c / (s * s * s * s * s))};
}
constexpr OddPolynomial kPolarExpress[] = {
    with_safety(8.28721201814563, -23.595886519098837, 17.300387312530933),
    with_safety(4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    with_safety(3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    with_safety(3.3184196573706015, -2.488488024314874, 0.51004894012372),
    with_safety(2.300652019954817, -1.6689039845747493, 0.4188073119525673)};

// A matrix in an update: X (rows,cols) and its next value Y, and A and P (n,n), n = min(rows, cols).
struct Matrix {
  const TensorSpec* spec;
  int rows, cols;
  float *x = nullptr, *y = nullptr, *a = nullptr, *p = nullptr;

  explicit Matrix(const TensorSpec& tensor) : spec(&tensor), rows(tensor.shape[0]), cols(tensor.shape[1]) {}

  int n() const { return std::min(rows, cols); }
  bool tall() const { return rows > cols; }
  size_t size() const { return spec->size(); }
  size_t square() const { return size_t(n()) * n(); }
  size_t scratch() const { return 2 * round_up(size(), 16) + 2 * round_up(square(), 16); }
  MatrixView view(const float* from) const { return {from, size_t(cols), 1}; }
};

// Rows `begin` to `end` of one of the matrices.
struct Panel {
  Matrix* matrix;
  int begin, end;
  int rows() const { return end - begin; }
};

// Returns all panels of the matrices; row_count(matrix) is the number of their rows.
template <class RowCount>
std::vector<Panel> panels_of(std::span<Matrix> matrices, RowCount row_count) {
  std::vector<Panel> panels;
  for (Matrix& matrix : matrices)
    for (int i = 0; i < row_count(matrix); i += kPanel)
      panels.push_back({&matrix, i, std::min(i + kPanel, row_count(matrix))});
  return panels;
}

// Calls f(panel, its number) on all threads, the most expensive panels first.
template <class Cost, class F>
void share_panels(const std::vector<Panel>& panels, Cost cost, F f) {
  std::vector<int> order(panels.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int i) { return cost(panels[i]); });
  parallel_tasks(static_cast<int>(order.size()), [&](int task) { f(panels[order[task]], order[task]); });
}

// Copies the part above the diagonal of a symmetric matrix (n,n), in a panel's rows, to below the diagonal.
void mirror(float* a, int n, const Panel& panel) {
  for (int j = panel.begin + 1; j < n; ++j)
    for (int i = panel.begin; i < std::min(j, panel.end); ++i) a[size_t(j) * n + i] = a[size_t(i) * n + j];
}

// Computes a panel's rows of left · right, on and above the diagonal. `left` begins at the panel.
void upper_rows(float* a, MatrixView left, MatrixView right, int n, int inner, const Panel& panel) {
  const int begin = panel.begin;
  right.data += begin * right.col;
  gemm_serial({a + size_t(begin) * n + begin, size_t(n)}, left, right, panel.rows(), n - begin, inner, false,
              {Triangle::c_upper});
}

// Runs one round on all matrices. X is the result, Y scratch.
void iterate(std::span<Matrix> matrices, const OddPolynomial& q) {
  const auto side = [](const Matrix& m) { return m.n(); };
  const std::vector<Panel> squares = panels_of(matrices, side);
  const auto gram_cost = [](const Panel& p) {
    return double(p.rows()) * (p.matrix->n() - p.begin) * std::max(p.matrix->rows, p.matrix->cols);
  };
  share_panels(squares, gram_cost, [](const Panel& panel, int) {
    const Matrix& m = *panel.matrix;
    const size_t cols = m.cols;
    if (m.tall()) upper_rows(m.a, {m.x + panel.begin, 1, cols}, {m.x, cols, 1}, m.n(), m.rows, panel);
    else upper_rows(m.a, {m.x + panel.begin * cols, cols, 1}, {m.x, 1, cols}, m.n(), m.cols, panel);
    mirror(m.a, m.n(), panel);
  });
  share_panels(squares, gram_cost, [&](const Panel& panel, int) {
    const Matrix& m = *panel.matrix;
    const size_t n = m.n();
    upper_rows(m.p, {m.a + panel.begin * n, n, 1}, {m.a, n, 1}, m.n(), m.n(), panel);
    for (int i = panel.begin; i < panel.end; ++i) {
      float* p = m.p + i * n + i;  // on the diagonal
      sweep(m.n() - i, [&](int j, int lanes) {
        store(p + j, q.b * load(m.a + i * n + i + j, lanes) + q.c * load(p + j, lanes), lanes);
      });
      *p += q.a;
    }
    mirror(m.p, m.n(), panel);
  });
  const auto rows = [](const Matrix& m) { return m.rows; };
  const auto product_cost = [](const Panel& p) { return double(p.rows()) * p.matrix->cols * p.matrix->n(); };
  share_panels(panels_of(matrices, rows), product_cost, [](const Panel& panel, int) {
    const Matrix& m = *panel.matrix;
    const size_t cols = m.cols, n = m.n();
    const float* left = m.tall() ? m.x + panel.begin * cols : m.p + panel.begin * n;
    gemm_serial({m.y + panel.begin * cols, cols}, {left, n, 1}, m.view(m.tall() ? m.p : m.x), panel.rows(), m.cols,
                m.n(), false);
  });
  for (Matrix& m : matrices) std::swap(m.x, m.y);
}

// Σx² of each row of a panel, in double.
template <class Add>
void each_row_square(const float* x, const Panel& panel, Add add) {
  const int cols = panel.matrix->cols;
  for (int i = panel.begin; i < panel.end; ++i) {
    simd::Squares squares;
    sweep(cols, [&](int j, int lanes) { squares.add(load(x + size_t(i) * cols + j, lanes)); });
    add(i, squares.sum());
  }
}

double sum_of(const std::vector<Panel>& panels, const std::vector<double>& squares, const Matrix& matrix) {
  double sum = 0;
  for (size_t i = 0; i < panels.size(); ++i) sum += panels[i].matrix == &matrix ? squares[i] : 0;
  return sum;
}

class MuonUpdate {
 public:
  MuonUpdate(const UpdateBuffers& b, const OptimizerOptions& options, const UpdateStep& step)
      : buffers(b), o(options), now(step) {}

  void take(std::span<Matrix> matrices) {
    panels = panels_of(matrices, [](const Matrix& m) { return m.rows; });
    const PolarRounds rounds = polar_rounds(o.polar);
    const std::vector<double> squares = each([&](const Panel& p) { return average(p); });
    each([&](const Panel& p) {
      const double size = std::sqrt(sum_of(panels, squares, *p.matrix)) * rounds.margin + 1e-7;
      multiply(p, static_cast<float>(1 / size));
      return 0.;
    });
    for (const OddPolynomial& polynomial : rounds.polynomials) iterate(matrices, polynomial);
    const bool by_rows = matrices[0].spec->optimizer->slots.size() > 1;
    std::vector<double> before, after;
    if (by_rows) {
      before = each([&](const Panel& p) { return square(p); });
      after = each([&](const Panel& p) { return equalize_rows(p); });
    }
    each([&](const Panel& p) {
      const double restored =
          by_rows ? std::sqrt(sum_of(panels, before, *p.matrix)) / (std::sqrt(sum_of(panels, after, *p.matrix)) + 1e-10)
                  : 1;
      move(p, static_cast<float>(restored));
      return 0.;
    });
  }

 private:
  // Returns f(panel) for each panel.
  template <class F>
  std::vector<double> each(F f) {
    std::vector<double> results(panels.size());
    share_panels(panels, [](const Panel& p) { return double(p.rows()) * p.matrix->cols; },
                 [&](const Panel& panel, int number) { results[number] = f(panel); });
    return results;
  }

  // Returns a slot's state from the panel's first row on.
  float* slot(const Panel& panel, size_t number) const {
    const TensorSpec state = state_table(*panel.matrix->spec)[number];
    return buffers.state + state.offset + panel.begin * (state.size() / panel.matrix->rows);
  }
  size_t first(const Panel& panel) const { return size_t(panel.begin) * panel.matrix->cols; }
  int size(const Panel& panel) const { return panel.rows() * panel.matrix->cols; }

  static double square(const Panel& panel) {
    double sum = 0;
    each_row_square(panel.matrix->x, panel, [&](int, double squares) { sum += squares; });
    return sum;
  }

  // Averages the gradients and writes X. Returns Σx².
  double average(const Panel& panel) const {
    const float* gradients = buffers.gradients + panel.matrix->spec->gradient + first(panel);
    float *b = slot(panel, 0), *x = panel.matrix->x + first(panel);
    const float mu = static_cast<float>(o.momentum), to_newest = static_cast<float>(1 - o.momentum);
    sweep(size(panel), [&](int i, int lanes) {
      const Vec g = load(gradients + i, lanes) * now.gradient_factor;
      Vec mean = load(b + i, lanes);
      mean += to_newest * (g - mean);
      store(b + i, mean, lanes);
      store(x + i, o.nesterov ? g + mu * (mean - g) : mean, lanes);
    });
    return square(panel);
  }

  void multiply(const Panel& panel, float factor) const {
    float* x = panel.matrix->x + first(panel);
    sweep(size(panel), [&](int i, int lanes) { store(x + i, load(x + i, lanes) * factor, lanes); });
  }

  // For NorMuon. Returns the new Σx².
  double equalize_rows(const Panel& panel) const {
    float* v = slot(panel, 1);
    const int cols = panel.matrix->cols;
    double sum = 0;
    each_row_square(panel.matrix->x, panel, [&](int i, double squares) {
      float& mean = v[i - panel.begin];
      mean += static_cast<float>(1 - o.beta2) * (static_cast<float>(squares / cols) - mean);
      const float factor = 1 / (std::sqrt(mean) + 1e-10f);
      multiply({panel.matrix, i, i + 1}, factor);
      sum += squares * factor * factor;
    });
    return sum;
  }

  void move(const Panel& panel, float restored) const {
    const TensorSpec& spec = *panel.matrix->spec;
    const float lr = now.lr * spec.rate, keep = 1 - lr * decay_of(spec, o);
    const float rate = lr * muon_scale(o.muon_scale, panel.matrix->rows, panel.matrix->cols) * restored;
    const float* x = panel.matrix->x + first(panel);
    float* w = buffers.weights + spec.offset + first(panel);
    with_decay(o.cautious_decay, [&](auto cautious) {
      sweep(size(panel), [&](int i, int lanes) {
        store(w + i, moved<cautious>(load(w + i, lanes), rate * load(x + i, lanes), keep), lanes);
      });
    });
  }

  const UpdateBuffers& buffers;
  const OptimizerOptions& o;
  const UpdateStep& now;
  std::vector<Panel> panels;
};

// Calls f(group, floats of scratch) for groups of a table's matrices that are orthogonalized together.
template <class F>
void for_each_group(const std::vector<TensorSpec>& table, F f) {
  std::vector<Matrix> group;
  size_t floats = 0, scratch = 0;
  const auto finish = [&] {
    if (!group.empty()) f(std::span<Matrix>(group), scratch);
    group.clear();
    floats = scratch = 0;
  };
  for (const TensorSpec& spec : table) {
    if (floats + spec.size() > kTogether) finish();
    group.emplace_back(spec);
    floats += spec.size();
    scratch += group.back().scratch();
  }
  finish();
}

size_t scratch_of(const std::vector<TensorSpec>& table) {
  size_t most = 0;
  for_each_group(table, [&](std::span<Matrix>, size_t scratch) { most = std::max(most, scratch); });
  return most;
}

void muon(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
          const UpdateStep& now) {
  for_each_group(table, [&](std::span<Matrix> matrices, size_t) {
    float* next = buffers.scratch;
    for (Matrix& m : matrices)
      for (const auto& [part, floats] : {std::pair{&Matrix::x, m.size()}, {&Matrix::y, m.size()},
                                         {&Matrix::a, m.square()}, {&Matrix::p, m.square()}}) {
        m.*part = next;
        next += round_up(floats, 16);
      }
    MuonUpdate(buffers, options, now).take(matrices);
  });
}

// True for matrices of linear layers in blocks. LoRA's adapters are factors of a matrix, so AdamW updates them.
bool is_hidden_matrix(const TensorSpec& spec) {
  constexpr std::array kRoles = {Role::qk, Role::v, Role::o, Role::ffn_in, Role::ffn_out};
  return spec.shape.size() == 2 && spec.layer != kOutside && std::ranges::find(kRoles, spec.role) != kRoles.end();
}

// Five rounds of 2 n² (m/2 + n/2 + m) operations, because half of A and of A² is computed.
double flops_of(const TensorSpec& spec) {
  const double n = std::min(spec.shape[0], spec.shape[1]), m = std::max(spec.shape[0], spec.shape[1]);
  return 5 * n * n * (3 * m + n) + 12 * n * m;
}

constexpr Slot kMomentum[] = {{"momentum_buffer"}};
constexpr Slot kMomentumAndRows[] = {{"momentum_buffer"}, {"second_momentum_buffer", Per::row}};

}  // namespace

PolarRounds polar_rounds(PolarIteration iteration) {
  if (iteration == PolarIteration::polar_express) return {kPolarExpress, 1.01f};
  return {kJordan, 1};
}

float muon_scale(MuonScale scale, int rows, int cols) {
  const float r = static_cast<float>(rows), c = static_cast<float>(cols);
  return scale == MuonScale::spectral ? std::sqrt(std::max(1.f, r / c)) : .2f * std::sqrt(std::max(r, c));
}

const Optimizer kMuon = {.name = "Muon", .slots = kMomentum, .takes = is_hidden_matrix, .update = muon,
                         .flops = flops_of, .bytes = 28, .whole = true, .scratch = scratch_of,
                         .momentum = true, .polar = true, .rule = StepRule::orthogonal};
const Optimizer kNorMuon = {.name = "NorMuon", .slots = kMomentumAndRows, .takes = is_hidden_matrix, .update = muon,
                            .flops = flops_of, .bytes = 28, .whole = true, .scratch = scratch_of,
                            .betas = true, .momentum = true, .polar = true, .rule = StepRule::orthogonal};
