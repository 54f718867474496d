#pragma once
// The models of test/reference/model, with PyTorch's weights and batches.

#include <fstream>
#include <nlohmann/json.hpp>

#include "check.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/model.hpp"
#include "reference.hpp"

using nlohmann::json;

inline Config config_of(const json& j) {
  Config c;
  c.placement = j["placement"];
  c.norm = value_of(kNormKinds, "norm", std::string(j["norm"]));
  c.norm_eps = j["norm-eps"];
  c.norm_unit_offset = j.value("norm-unit-offset", false);
  c.norm_bias = bool(j["norm-bias"]), c.final_norm = bool(j["final-norm"]),
  c.embedding_norm = j["embedding-norm"];
  c.n_layer = j["layers"], c.n_head = j["heads"], c.kv_heads = j["kv-heads"], c.head_dim = j["head-dim"];
  c.channels = j["channels"], c.hidden = j["hidden"], c.context = j["context"],
  c.vocab_size = j["vocab-size"];
  c.position = value_of(kPositions, "position", std::string(j["position"]));
  c.activation = value_of(kActivations, "activation", std::string(j["activation"]));
  c.bias = j["bias"], c.tied = j["tied"];
  c.qk_norm = value_of(kQkNormKinds, "qk-norm", j.value("qk-norm", "none"));
  c.block = value_of(kBlockForms, "block", j.value("block", "sequential"));
  c.mix_fraction = j.value("mix-fraction", c.mix_fraction), c.streams = j.value("streams", c.streams);
  c.rope_fraction = j.value("rope-fraction", 1.f);
  c.window = j.value("window", 0), c.window_every = j.value("window-every", 1);
  c.attention_cap = j.value("attention-cap", 0.f), c.logit_cap = j.value("logit-cap", 0.f);
  c.output_gate = value_of(kOutputGates, "output-gate", j.value("output-gate", "none"));
  c.value_residual = value_of(kValueResiduals, "value-residual", j.value("value-residual", "none"));
  c.stream_mix = j.value("stream-mix", false);
  if (j.contains("head-scale")) c.head_scale = bool(j["head-scale"]);
  if (j.contains("attention-scale")) c.attention_scale = double(j["attention-scale"]);
  if (j.contains("qkv-bias")) c.qkv_bias = bool(j["qkv-bias"]);
  c.experts = j.value("experts", 0), c.experts_per_token = j.value("experts-per-token", c.experts_per_token);
  c.shared_experts = j.value("shared-experts", 0);
  c.router_renormalize = j.value("router-renormalize", true);
  c.router_loss = j.value("router-loss", c.router_loss), c.router_z_loss = j.value("router-z-loss", 0.f);
  c.head_bias = j.value("head-bias", false), c.embedding_scale = j.value("embedding-scale", 1.f);
  return c;
}

// One case of test/reference/model: a model with PyTorch's weights, and its batches.
struct ModelCase {
  std::string name;
  Reference reference{"model", name};
  json expected = json::parse(std::ifstream(reference.json_path()));
  Model model{config_of(expected["config"])};
  std::vector<int> tokens, targets;  // for all steps
  int B = 3, T = int(reference.ints("tokens").size()) / 10 / 3 - 1;
  Activations activations = allocate_activations(model.config, B, T, true);

  explicit ModelCase(const std::string& n) : name(n) {
    const std::vector<int> all = reference.ints("tokens");  // (10,B,T+1)
    for (size_t i = 0; i < all.size(); ++i) {
      if (int(i % (T + 1)) < T) tokens.push_back(all[i]);
      if (i % (T + 1) > 0) targets.push_back(all[i]);
    }
    const std::vector<float> params = reference.floats("params");
    size_t at = 0;
    for (const TensorSpec& spec : model.table) {
      REQUIRE(at + spec.size() <= params.size());
      std::copy_n(&params[at], spec.size(), &model.weights[spec.offset]);
      at += spec.size();
    }
    REQUIRE(at == params.size());
  }

  Batch batch(int step) const { return {&tokens[step * B * T], &targets[step * B * T], B, T}; }

  // Computes the mean loss of a step's batch and its gradients. Returns the loss.
  double loss_and_gradients(int step, Observer* observer = nullptr) {
    std::fill_n(model.gradients.get(), model.floats, 0.f);
    int counted = 0;
    for (int i = 0; i < B * T; ++i) counted += batch(step).targets[i] != kIgnore;
    return model_loss_and_gradients(model, activations, batch(step), 1.f / counted, {}, observer) / counted;
  }
};
