#include "sublayer.hpp"

Carried declare_carried(Layout& layout, const Config& config, const float* x, int N, bool backward) {
  const int C = config.channels, width = config.kv_heads * config.head_dim;
  Carried carried;
  if (config.stream_mix) carried.x = x;
  if (config.stream_mix && backward) carried.dx = layout.take("scratch.first_x", Role::scratch, {N, C});
  if (config.shares_values()) carried.values = layout.take("first_v", Role::v, {N, width});
  if (config.shares_values() && backward) carried.dvalues = layout.take("scratch.first_v", Role::scratch, {N, width});
  return carried;
}

namespace {

LoraDropout lora_dropout(const BlockContext& c, const LinearShape& shape, DropoutSite site) {
  LoraDropout d{c.dropout, c.layer, site, c.B, shape.N / c.B};
  d.dropout.p = c.training ? c.config.lora_dropout : 0;
  return d;
}

}  // namespace

void adapted_forward(float* y, const float* x, const Linear& p, const LinearShape& shape, const BlockContext& c,
                     DropoutSite site) {
  linear_forward(y, x, p, shape);
  lora_forward(y, x, p.lora, shape, c.scratch.lora, lora_dropout(c, shape, site));
}

void adapted_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p,
                      const LinearShape& shape, const BlockContext& c, DropoutSite site) {
  linear_backward(dx, g, dy, x, p, shape);
  lora_backward(dx, g.lora, dy, x, p.lora, shape, c.scratch.lora, lora_dropout(c, shape, site));
}
