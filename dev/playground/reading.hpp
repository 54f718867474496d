#pragma once
// What a model does with one text, as JSON. Texts have at most as many tokens as the context.

#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/model.hpp"

class Reading {
 public:
  // Keeps references to both.
  Reading(const Model& model, const Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {}

  nlohmann::ordered_json attention(const std::vector<int>& tokens, int layer);
  nlohmann::ordered_json trace(const std::vector<int>& tokens);
  nlohmann::ordered_json logits(const std::vector<int>& tokens, bool training);

 private:
  const Activations& read(const std::vector<int>& tokens);
  std::vector<float> logits_in_training(const std::vector<int>& tokens) const;
  nlohmann::ordered_json texts(const std::vector<int>& tokens) const;

  const Model& model_;
  const Tokenizer& tokenizer_;
  std::optional<Activations> activations_;  // for a whole context
};
