#include "reading.hpp"

#include <algorithm>
#include <cmath>

#include "layers/attention/scores.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/simd.hpp"

using nlohmann::ordered_json;

namespace {

// P (T,T) of one head, from the joined rows q|k|v after RoPE: the formulas of layers/attention/attention.hpp.
ordered_json attention_weights(const float* qkv, const float* lse, const AttentionShape& shape, int h) {
  const int D = shape.head_dim, kv_head = h / (shape.n_head / shape.kv_heads);
  const size_t stride = shape.qkv_width();
  const float *q = qkv + size_t(h) * D, *k = qkv + size_t(shape.n_head + kv_head) * D;
  ordered_json rows = ordered_json::array();
  for (int i = 0; i < shape.T; ++i) {
    std::vector<float> row(shape.T);
    for (int j = first_key(shape, 0, i); j < end_of_keys(shape, 0, i); ++j) {
      double score = shape.scale * simd::dot(q + i * stride, k + j * stride, D);
      if (shape.cap > 0) score = shape.cap * std::tanh(score / shape.cap);
      if (shape.slopes) score -= shape.slopes[h] * std::abs(i - j);
      if (shape.relative.present()) score += shape.relative.of(h)[i - j];
      row[j] = static_cast<float>(std::exp(score - lse[size_t(h) * shape.T + i]));
    }
    rows.push_back(row);
  }
  return rows;
}

void logits_of(float* logits, const Model& m, const float* features, int N) {
  const Head head{{m.p.head ? m.p.head : m.p.token, m.p.head_bias, m.config.matmul}, m.config.logit_cap};
  head_forward(logits, features, head, N, m.config.channels, m.config.vocab_size);
}

void log_softmax(float* x, int n) {
  const float top = *std::max_element(x, x + n);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i] - top));
  const float log_sum = top + static_cast<float>(std::log(sum));
  for (int i = 0; i < n; ++i) x[i] -= log_sum;
}

// The RMS of each token's stream (S,N,C).
std::vector<double> rms_by_token(const float* stream, int S, int N, int C) {
  std::vector<double> rms(N);
  for (int n = 0; n < N; ++n) {
    for (int s = 0; s < S; ++s) {
      const float* row = stream + (size_t(s) * N + n) * C;
      rms[n] += simd::dot(row, row, C);
    }
    rms[n] = std::sqrt(rms[n] / (S * C));
  }
  return rms;
}

}  // namespace

// The activations keep what each block computes.
const Activations& Reading::read(const std::vector<int>& tokens) {
  if (!activations_) {
    Config config = model_.config;
    config.recompute = Recompute::none;
    activations_ = allocate_activations(config, 1, config.context, true);
  }
  model_features(model_, *activations_, {tokens.data(), nullptr, 1, static_cast<int>(tokens.size())});
  return *activations_;
}

// BatchNorm uses the statistics of these tokens. Works on a copy, because the backward pass updates running statistics.
std::vector<float> Reading::logits_in_training(const std::vector<int>& tokens) const {
  const int T = static_cast<int>(tokens.size());
  Model copy(model_.config);
  std::copy_n(model_.weights.get(), copy.floats, copy.weights.get());
  const Activations a = allocate_activations(copy.config, 1, T, true);
  const std::vector<int> ignored(T, kIgnore);
  model_loss_and_gradients(copy, a, {tokens.data(), ignored.data(), 1, T}, 0, {});
  std::vector<float> logits(size_t(T) * copy.config.vocab_size);
  logits_of(logits.data(), copy, a.end.h ? a.end.h : a.blocks.back().ffn.y, T);
  return logits;
}

ordered_json Reading::texts(const std::vector<int>& tokens) const {
  ordered_json list = ordered_json::array();
  for (int token : tokens) list.push_back(tokenizer_.decode(token));
  return list;
}

ordered_json Reading::attention(const std::vector<int>& tokens, int layer) {
  const Activations& a = read(tokens);
  const AttentionSaved& saved = a.blocks[layer].attention;
  const PositionBiases biases{model_.slopes.get(), model_.buckets.bias(a.relative)};
  const AttentionShape shape = attention_shape(model_.config, layer, biases, {1, static_cast<int>(tokens.size())});
  ordered_json heads = ordered_json::array();
  for (int h = 0; h < shape.n_head; ++h) heads.push_back(attention_weights(saved.qkv, saved.lse, shape, h));
  return {{"tokens", texts(tokens)}, {"layer", layer}, {"heads", heads}};
}

ordered_json Reading::trace(const std::vector<int>& tokens) {
  const Activations& a = read(tokens);
  const int N = static_cast<int>(tokens.size()), C = model_.config.channels, V = model_.config.vocab_size;
  ordered_json layers = ordered_json::array();
  std::vector<float> logits(size_t(N) * V);
  for (int l = -1; l < model_.config.n_layer; ++l) {
    const float* stream = l < 0 ? a.streams : a.blocks[l].ffn.y;
    logits_of(logits.data(), model_, streams_end(a.end, stream, model_.p, {N, C, false}), N);
    ordered_json next = ordered_json::array(), probability = ordered_json::array();
    for (int n = 0; n < N; ++n) {
      float* row = &logits[size_t(n) * V];
      log_softmax(row, V);
      const auto best = static_cast<int>(std::max_element(row, row + V) - row);
      next.push_back(tokenizer_.decode(best));
      probability.push_back(std::exp(row[best]));
    }
    layers.push_back({{"rms", rms_by_token(stream, stream_count(model_.config), N, C)}, {"next", next},
                      {"probability", probability}});
  }
  return {{"tokens", texts(tokens)}, {"layers", layers}};
}

ordered_json Reading::logits(const std::vector<int>& tokens, bool training) {
  const int N = static_cast<int>(tokens.size()), V = model_.config.vocab_size;
  std::vector<float> logits(size_t(N) * V);
  if (training) logits = logits_in_training(tokens);
  else batch_logits(logits.data(), model_, read(tokens), {tokens.data(), nullptr, 1, N});
  ordered_json rows = ordered_json::array(), alphabet = ordered_json::array();
  for (int n = 0; n < N; ++n) {
    log_softmax(&logits[size_t(n) * V], V);
    rows.push_back(std::vector<float>(&logits[size_t(n) * V], &logits[size_t(n) * V] + V));
  }
  for (int token = 0; token < V; ++token) alphabet.push_back(tokenizer_.decode(token));
  return {{"tokens", texts(tokens)}, {"training", training}, {"alphabet", alphabet}, {"rows", rows}};
}
