#include "base_model.hpp"

#include <cstdint>

bool scales_depth(const Config& c) {
  return c.parametrization == Parametrization::completep || c.parametrization == Parametrization::nugpt;
}

Ratios ratios_of(const Config& c) {
  if (c.parametrization == Parametrization::sp) return {};
  Ratios ratios{.width = double(c.channels) / c.base_channels};
  if (c.base_heads > 0) ratios.heads = double(c.n_head) / c.base_heads;
  if (scales_depth(c)) ratios.depth = double(c.n_layer) / c.base_layers;
  return ratios;
}

int base_width(const Config& c) { return c.parametrization == Parametrization::sp ? c.channels : c.base_channels; }

int base_depth(const Config& c) { return scales_depth(c) ? c.base_layers : c.n_layer; }

int base_layer(const Config& c, int layer) {
  return static_cast<int>(int64_t(layer) * base_depth(c) / c.n_layer);
}
