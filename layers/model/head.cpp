#include "head.hpp"

#include <algorithm>

#include "layers/feed_forward/activation.hpp"

const float* head_input(const ModelTensors& p, const Activations& a, const Config& c, const float* h, int N,
                        bool training) {
  const int C = c.channels;
  if (c.head_transform) {
    const TransformSaved& t = a.transform;
    linear_forward(t.up, h, p.transform, {N, C, C});
    activation_forward(t.active, t.up, c.activation, N, C);
    h = norm_forward(t.y, t.norm, t.active, p.transform_norm, N, C, training);
  }
  if (!a.narrow) return h;
  linear_forward(a.narrow, h, p.project_out, {N, C, c.embedding_channels});
  return a.narrow;
}

namespace {

// The classifier's own matrix, or the token embedding; or the gradient of either, which is null if it does not train.
const Matrix& head_matrix(const Config& config, const ModelTensors& t) { return config.tied ? t.token : t.head; }

Head head_with(const Config& c, const Matrix& weight, float* bias) {
  return {{weight.data, bias, c.matmul, {}, weight.numbers},
          {c.logit_cap, c.z_loss, static_cast<float>(*c.logit_scale), c.label_smoothing}};
}

Head head_gradients(const ModelTensors& g, const Activations& a, const Config& c) {
  const Matrix& weight = head_matrix(c, g);
  const bool of_rows = a.head_rows.present() && (weight || c.logit_gain);
  return head_with(c, of_rows ? Matrix(a.head_rows.gradient) : weight, g.head_bias);
}

}  // namespace

Head head_of(const ModelTensors& p, const Activations& a, const Config& c) {
  const Matrix& weight = head_matrix(c, p);
  if (!a.head_rows.present()) return head_with(c, weight, p.head_bias);
  if (c.logit_gain)
    scaled_rows_forward(a.head_rows, weight, p.logit_gain, c.vocab_size, c.embedding_channels);
  else if (!c.tied) unit_rows_forward(a.head_rows, weight, c.vocab_size, c.embedding_channels);
  return head_with(c, a.head_rows.unit, p.head_bias);
}

void head_backward(const ModelTensors& g, const ModelTensors& p, const Activations& a, const Config& config,
                   const float* h, const int* targets, float scale, int N) {
  const int C = config.channels, E = config.embedding_channels;
  float* d = a.narrow ? a.dnarrow : a.d;
  classifier({a.losses, a.logits}, d, head_gradients(g, a, config), head_input(p, a, config, h, N, true),
             head_of(p, a, config), targets, scale, {N, E, config.vocab_size});
  const TransformSaved& t = a.transform;
  if (a.narrow) linear_backward(a.d, g.project_out, d, t.y ? t.y : h, p.project_out, {N, C, E});
  if (!config.head_transform) return;
  norm_backward(a.d, g.transform_norm, a.d, t.active, t.norm, p.transform_norm, N, C);
  activation_backward(t.active, a.d, t.up, config.activation, N, C);
  linear_backward(a.d, g.transform, t.active, h, p.transform, {N, C, C});
}

void clear_unit_gradients(const Activations& a, const Config& config) {
  const size_t floats = static_cast<size_t>(config.vocab_size) * config.embedding_channels;
  for (const UnitRows& rows : {a.token_rows, a.head_rows})
    if (rows.present()) std::fill_n(rows.gradient, floats, 0.f);
}

void unit_gradients_backward(const ModelTensors& g, const ModelTensors& p, const Activations& a, const Config& config) {
  const int V = config.vocab_size, E = config.embedding_channels;
  if (a.token_rows.present() && g.token) unit_rows_backward(g.token, a.token_rows, V, E);
  if (config.logit_gain)
    return scaled_rows_backward(head_matrix(config, g).data, g.logit_gain, a.head_rows, head_matrix(config, p),
                                p.logit_gain, V, E);
  if (!config.tied && g.head && a.head_rows.present()) unit_rows_backward(g.head, a.head_rows, V, E);
}
