#include "normed_weights.hpp"

#include <cmath>
#include <stdexcept>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

UnitVectors unit_vectors(const TensorSpec& spec, const Config& config) {
  if (!config.normed_weights || spec.shape.size() != 2) return UnitVectors::none;
  switch (spec.role) {
    case Role::embedding: return spec.part == "embedding.token.weight" ? UnitVectors::rows : UnitVectors::none;
    case Role::classifier: case Role::v: case Role::ffn_in: return UnitVectors::rows;
    case Role::qk: return spec.part.find("output_gate.") == spec.part.npos ? UnitVectors::rows : UnitVectors::none;
    case Role::o: case Role::ffn_out: return UnitVectors::columns;
    default: return UnitVectors::none;
  }
}

namespace {

float reciprocal_root(double squares) { return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0; }

void normalize_rows(float* w, int rows, int cols) {
  parallel_each(rows, 3 * static_cast<size_t>(cols), [&](size_t i) {
    float* row = w + i * cols;
    const float r = reciprocal_root(simd::dot(row, row, cols));
    simd::sweep(cols, [&](int j, int lanes) { simd::store(row + j, r * simd::load(row + j, lanes), lanes); });
  });
}

// Each piece has a few whole columns, whose squares are added in the order of the rows.
void normalize_columns(float* w, int rows, int cols) {
  constexpr int kColumns = 32;
  parallel_for(cols, kColumns, 4 * static_cast<size_t>(rows), [&](int first, int last) {
    for (int begin = first; begin < last; begin += kColumns) {
      const int width = std::min(last - begin, kColumns);
      double squares[kColumns] = {};
      float scale[kColumns];
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
        for (int j = 0; j < width; ++j) {
          const double x = static_cast<double>(w[i * cols + begin + j]);
          squares[j] += x * x;
        }
      for (int j = 0; j < width; ++j) scale[j] = reciprocal_root(squares[j]);
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
        for (int j = 0; j < width; ++j) w[i * cols + begin + j] *= scale[j];
    }
  });
}

}  // namespace

void normalize_vectors(float* w, UnitVectors vectors, int rows, int cols) {
  if (vectors == UnitVectors::rows) normalize_rows(w, rows, cols);
  if (vectors == UnitVectors::columns) normalize_columns(w, rows, cols);
}

void normalize_weights(float* weights, const std::vector<TensorSpec>& table, const Config& config) {
  for (const TensorSpec& spec : table) {
    const UnitVectors vectors = unit_vectors(spec, config);
    if (vectors == UnitVectors::none || !spec.trained) continue;
    if (spec.numbers != NumberType::fp32) throw std::logic_error("weights of 16 bits are not normalized");
    normalize_vectors(weights + spec.offset, vectors, spec.shape[0], spec.shape[1]);
  }
}
