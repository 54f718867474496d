#pragma once
// The models of test/reference/model, with PyTorch's weights and batches.

#include <nlohmann/json.hpp>

#include "check.hpp"
#include "layers/config/fields.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/model/model.hpp"
#include "reference.hpp"

using nlohmann::json;

inline void set(Config& c, const char* name, const FieldChoice& choice, const json& value) {
  choice.set(c, name, value.get<std::string>());
}
template <class T>
void set(Config& c, const char*, T Config::*member, const json& value) {
  c.*member = value.get<T>();
}
template <class T>
void set(Config& c, const char*, std::optional<T> Config::*member, const json& value) {
  c.*member = value.get<T>();
}

inline Config config_of(const json& j) {
  Config c;
  for (const Field& field : model_fields()) {
    if (!j.contains(field.name)) continue;
    const json& value = j[field.name];
    std::visit([&](const auto& member) { set(c, field.name, member, value); }, field.member);
  }
  return c;
}

// One case of test/reference/model: a model with PyTorch's weights, and its batches.
struct ModelCase {
  std::string name;
  Reference reference{"model", name};
  json expected = reference.json();
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
