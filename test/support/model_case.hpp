#pragma once
// The models of test/reference/model and pairs, with PyTorch's weights and batches.

#include <algorithm>
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

// What the encoders of test/reference/pairs read, for all steps.
struct SourceArrays {
  std::vector<int> tokens, begins, from, to;  // (10,B,S) (10,B,S) (10,B,T) (10,B,T)

  explicit SourceArrays(const Reference& r)
      : tokens(r.ints("source")), begins(r.ints("source_begins")), from(r.ints("source_from")),
        to(r.ints("source_to")) {}
  EncoderInput input(int step, int B, int T) const {
    const int S = int(tokens.size()) / 10 / B, at = step * B * S, row = step * B * T;
    return {&tokens[at], S, &begins[at], &from[row], &to[row]};
  }
};

// A model of which the adapters alone train, if it has some.
inline Model model_of(const Config& config) {
  Model model(config);
  if (model.config.lora_rank == 0) return model;
  for (TensorSpec& spec : model.table) spec.trained = spec.role == Role::adapter;
  allocate_gradients(model);
  return model;
}

// One case of test/reference/model or pairs: a model with PyTorch's weights, and its batches.
struct ModelCase {
  std::string name;
  Reference reference;
  json expected = reference.json();
  Model model = model_of(config_of(expected["config"]));
  std::vector<int> tokens, targets, begins;  // for all steps; `begins` is empty if every row is one example
  std::optional<SourceArrays> sources;
  int B = 3, T;
  Activations activations;

  explicit ModelCase(const std::string& n, const std::string& folder = "model")
      : name(n), reference(folder, n) {
    folder == "pairs" ? read_pairs() : read_rows();
    T = int(tokens.size()) / 10 / B;
    activations = allocate_activations(model.config, B, T, true);
    const std::vector<float> params = reference.floats("params");
    size_t at = 0;
    for (const TensorSpec& spec : model.table) {
      REQUIRE(at + spec.size() <= params.size());
      std::copy_n(&params[at], spec.size(), &model.weights[spec.offset]);
      at += spec.size();
    }
    REQUIRE(at == params.size());
  }

  Batch batch(int step) const {
    const size_t at = size_t(step) * B * T;
    Batch batch{&tokens[at], &targets[at], B, T, begins.empty() ? nullptr : &begins[at]};
    if (sources) batch.encoder = sources->input(step, B, T);
    return batch;
  }

  // The targets of a step that count.
  int counted(int step) const {
    const auto first = targets.begin() + size_t(step) * B * T;
    return B * T - int(std::count(first, first + B * T, kIgnore));
  }
  // Computes the mean loss of a step's batch and its gradients. Returns the loss.
  double loss_and_gradients(int step, Observer* observer = nullptr) {
    std::fill_n(model.gradients.get(), model.gradient_floats, 0.f);
    const LossScale scale(counted(step), B * T);
    return model_loss_and_gradients(model, activations, batch(step), scale, {}, observer) / counted(step);
  }

 private:
  void read_rows() {
    const std::vector<int> all = reference.ints("tokens");  // (10,B,T+1)
    const int row = int(all.size()) / 10 / B;
    for (size_t i = 0; i < all.size(); ++i) {
      if (int(i % row) + 1 < row) tokens.push_back(all[i]);
      if (i % row > 0) targets.push_back(all[i]);
    }
  }
  void read_pairs() {
    tokens = reference.ints("tokens"), targets = reference.ints("targets"), begins = reference.ints("begins");
    sources.emplace(reference);
  }
};

// A case's folder and name: every model of test/reference/model and pairs.
struct ModelName {
  std::string folder, name;
  std::string title() const { return folder + "/" + name; }
};
inline std::vector<ModelName> model_names() {
  std::vector<ModelName> list;
  for (const char* folder : {"model", "pairs"})
    for (const std::string& name : Reference::cases(folder)) list.push_back({folder, name});
  return list;
}
