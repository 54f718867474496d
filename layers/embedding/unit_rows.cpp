#include "unit_rows.hpp"

#include <cmath>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::dot;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

UnitRows declare_unit_rows(Layout& layout, const std::string& name, int V, int C, bool training) {
  UnitRows rows;
  rows.unit = layout.take(name + ".unit", Role::embedding, {V, C});
  rows.scale = layout.take(name + ".unit_scale", Role::embedding, {V});
  if (training) rows.gradient = layout.take(name + ".unit_gradient", Role::scratch, {V, C});
  return rows;
}

void unit_rows_forward(const UnitRows& rows, const Matrix& weight, int V, int C) {
  as_numbers(weight.data, weight.numbers, [&](const auto* numbers) {
    parallel_each(V, 3 * static_cast<size_t>(C), [&](size_t v) {
      float* u = rows.unit + v * C;
      sweep(C, [&](int i, int lanes) { store(u + i, load(numbers + v * C + i, lanes), lanes); });
      const double squares = dot(u, u, C);
      rows.scale[v] = squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0;
      sweep(C, [&](int i, int lanes) { store(u + i, rows.scale[v] * load(u + i, lanes), lanes); });
    });
  });
}

void unit_rows_backward(float* dweight, const UnitRows& rows, int V, int C) {
  parallel_each(V, 6 * static_cast<size_t>(C), [&](size_t v) {
    const float *u = rows.unit + v * C, *du = rows.gradient + v * C;
    float* dw = dweight + v * C;
    const float r = rows.scale[v], along = static_cast<float>(dot(u, du, C));
    sweep(C, [&](int i, int lanes) {
      store(dw + i, load(dw + i, lanes) + r * (load(du + i, lanes) - along * load(u + i, lanes)), lanes);
    });
  });
}

void scaled_rows_forward(const UnitRows& rows, const Matrix& weight, const RowGain& gain, int V, int C) {
  as_numbers(weight.data, weight.numbers, [&](const auto* numbers) {
    parallel_each(V, C, [&](size_t v) {
      rows.scale[v] = gain.factor * gain.weight[v];
      sweep(C, [&](int i, int lanes) {
        store(rows.unit + v * C + i, rows.scale[v] * load(numbers + v * C + i, lanes), lanes);
      });
    });
  });
}

void scaled_rows_backward(float* dweight, const RowGain& g, const UnitRows& rows, const Matrix& weight,
                          const RowGain& gain, int V, int C) {
  as_numbers(weight.data, weight.numbers, [&](const auto* numbers) {
    parallel_each(V, 4 * static_cast<size_t>(C), [&](size_t v) {
      const float* d = rows.gradient + v * C;
      Vec products = {};
      sweep(C, [&](int i, int lanes) { products += load(numbers + v * C + i, lanes) * load(d + i, lanes); });
      g.weight[v] += gain.factor * static_cast<float>(simd::sum(products));
      if (!dweight) return;
      float* dw = dweight + v * C;
      sweep(C, [&](int i, int lanes) {
        store(dw + i, load(dw + i, lanes) + rows.scale[v] * load(d + i, lanes), lanes);
      });
    });
  });
}
