// An update makes three passes over the tensors: sums of g² and w², the size of the update, and the update. Threads
// share panels of whole rows. Each panel sums its columns, and the panels' sums are added in order.

#include "adafactor.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "decay.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::Squares;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

constexpr double kDecay = -.8, kSmallestSize = 1e-3;
constexpr float kFloor = 1e-30f;  // the smallest v
constexpr int kMostPanels = 64;   // per tensor; each except the last has at least kStrip floats

// A tensor in an update. Anything but a matrix is treated as one row.
struct Tensor {
  const TensorSpec* spec;
  int rows, cols;
  float *r = nullptr, *c = nullptr;  // the state; only matrices have r
  double mean_row = 0;               // the mean of r
  float rate = 0;                    // the factor on the update

  explicit Tensor(const TensorSpec& tensor) : spec(&tensor) {
    rows = factored() ? tensor.shape[0] : 1;
    cols = static_cast<int>(tensor.size() / rows);
  }
  bool factored() const { return spec->shape.size() == 2; }
  int panel_rows() const {
    return std::max(static_cast<int>(kStrip / cols), (rows + kMostPanels - 1) / kMostPanels);
  }
  int panels() const { return (rows + panel_rows() - 1) / panel_rows(); }
};

// Rows of a tensor, and their sums.
struct Panel {
  const Tensor* tensor;
  int begin, end;
  float* columns;  // Σg² of each column
  double weight_squares = 0, update_squares = 0;
};

size_t columns_of(const Tensor& tensor) { return round_up(tensor.cols, 16); }

size_t scratch_of(const std::vector<TensorSpec>& table) {
  size_t floats = 0;
  for (const TensorSpec& spec : table) floats += Tensor(spec).panels() * columns_of(Tensor(spec));
  return floats;
}

class AdafactorUpdate {
 public:
  AdafactorUpdate(const UpdateBuffers& b, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
                  const UpdateStep& step)
      : buffers(b), o(options), now(step), tensors(table.begin(), table.end()),
        newest(static_cast<float>(std::pow(static_cast<double>(now.t), kDecay))) {
    float* columns = buffers.scratch;
    for (Tensor& x : tensors) {
      const std::vector<TensorSpec> state = state_table(*x.spec);
      x.c = buffers.state + state.back().offset;
      if (x.factored()) x.r = buffers.state + state.front().offset;
      for (int i = 0; i < x.rows; i += x.panel_rows(), columns += columns_of(x))
        panels.push_back({&x, i, std::min(i + x.panel_rows(), x.rows), columns});
    }
  }

  void take() {
    each_panel([&](Panel& panel) { sum(panel); });
    each_tensor([&](Tensor& x, std::span<const Panel> of) { average(x, of); });
    each_panel([&](Panel& panel) { panel.update_squares = measure(panel); });
    each_tensor([&](Tensor& x, std::span<const Panel> of) { set_rate(x, of); });
    each_panel([&](Panel& panel) { move(panel); });
  }

 private:
  template <class F>
  void each_panel(F f) {
    parallel_tasks(static_cast<int>(panels.size()), [&](int i) { f(panels[i]); });
  }
  template <class F>
  void each_tensor(F f) {
    size_t first = 0;
    for (Tensor& x : tensors) {
      f(x, std::span(panels).subspan(first, x.panels()));
      first += x.panels();
    }
  }

  Vec gradient(const Panel& panel, size_t at, int lanes) const {
    return load(buffers.gradients + panel.tensor->spec->gradient + at, lanes) * now.gradient_factor;
  }
  float* weights(const Panel& panel) const { return buffers.weights + panel.tensor->spec->offset; }

  // Computes Σg² of each column and Σw² of a panel, and updates r.
  void sum(Panel& panel) const {
    const Tensor& x = *panel.tensor;
    Squares of_weights;
    std::fill_n(panel.columns, x.cols, 0.f);
    for (int i = panel.begin; i < panel.end; ++i) {
      Squares of_row;
      const size_t row = size_t(i) * x.cols;
      sweep(x.cols, [&](int j, int lanes) {
        const Vec g = gradient(panel, row + j, lanes);
        store(panel.columns + j, load(panel.columns + j, lanes) + g * g, lanes);
        of_row.add(g);
        of_weights.add(load(weights(panel) + row + j, lanes));
      });
      if (x.r) x.r[i] += newest * (static_cast<float>(of_row.sum() / x.cols) - x.r[i]);
    }
    panel.weight_squares = of_weights.sum();
  }

  // Updates c, and computes the mean of r.
  void average(Tensor& x, std::span<const Panel> of) const {
    const float share = 1 / static_cast<float>(x.rows);
    sweep(x.cols, [&](int j, int lanes) {
      Vec squares = {};
      for (const Panel& panel : of) squares += load(panel.columns + j, lanes);
      const Vec before = load(x.c + j, lanes);
      store(x.c + j, before + newest * (squares * share - before), lanes);
    });
    if (x.r) x.mean_row = std::accumulate(x.r, x.r + x.rows, 0.) / x.rows;
  }

  // Calls f(at, lanes, u) for the elements of a panel, with u before it is clipped.
  template <class F>
  void each_update(const Panel& panel, F f) const {
    const Tensor& x = *panel.tensor;
    const double mean = std::max<double>(x.mean_row, kFloor);
    for (int i = panel.begin; i < panel.end; ++i) {
      const float ratio = x.r ? static_cast<float>(x.r[i] / mean) : 1;
      const size_t row = size_t(i) * x.cols;
      sweep(x.cols, [&](int j, int lanes) {
        const Vec v = simd::max(ratio * load(x.c + j, lanes), simd::all(kFloor));
        f(row + j, lanes, gradient(panel, row + j, lanes) / simd::sqrt(v));
      });
    }
  }

  double measure(const Panel& panel) const {
    Squares squares;
    each_update(panel, [&](size_t, int, Vec u) { squares.add(u); });
    return squares.sum();
  }

  void set_rate(Tensor& x, std::span<const Panel> of) const {
    double weight_squares = 0, update_squares = 0;
    for (const Panel& panel : of) {
      weight_squares += panel.weight_squares;
      update_squares += panel.update_squares;
    }
    const double n = static_cast<double>(x.spec->size());
    const double size = std::max(kSmallestSize, std::sqrt(weight_squares / n));
    x.rate = static_cast<float>(now.lr * x.spec->rate * size / std::max(1., std::sqrt(update_squares / n)));
  }

  void move(const Panel& panel) const {
    const Tensor& x = *panel.tensor;
    const float keep = 1 - now.lr * x.spec->rate * decay_of(*x.spec, o);
    float* w = weights(panel);
    with_decay(o.cautious_decay, [&](auto cautious) {
      each_update(panel, [&](size_t at, int lanes, Vec u) {
        store(w + at, moved<cautious>(load(w + at, lanes), x.rate * u, keep), lanes);
      });
    });
  }

  const UpdateBuffers& buffers;
  const OptimizerOptions& o;
  const UpdateStep& now;
  std::vector<Tensor> tensors;
  std::vector<Panel> panels;
  float newest;  // the weight of this step's g² in the averages
};

void adafactor(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
               const UpdateStep& now) {
  AdafactorUpdate(buffers, table, options, now).take();
}

bool is_matrix(const TensorSpec& spec) { return spec.shape.size() == 2; }
bool is_other(const TensorSpec& spec) { return !is_matrix(spec); }

double flops_of(const TensorSpec& spec) { return 21 * static_cast<double>(spec.size()); }

constexpr Slot kFactors[] = {{"row_var", Per::row}, {"col_var", Per::column}}, kVariance[] = {{"variance"}};

}  // namespace

const Optimizer kAdafactor = {.name = "Adafactor", .slots = kFactors, .takes = is_matrix, .update = adafactor,
                              .flops = flops_of, .bytes = 24, .whole = true, .scratch = scratch_of,
                              .rule = StepRule::relative};
const Optimizer kAdafactorVectors = {.name = "Adafactor of vectors", .slots = kVariance, .takes = is_other,
                                     .update = adafactor, .flops = flops_of, .bytes = 40, .whole = true,
                                     .scratch = scratch_of, .rule = StepRule::relative};
