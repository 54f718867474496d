#pragma once
// The model classes of Hugging Face's transformers that a Config can be: their config.json and the names of their
// tensors, as tables.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/config/config.hpp"

// Maps row `r` of our tensor to its row in theirs.
using RowOf = size_t (*)(size_t r, const Config& config);

// One of our modules in theirs. '#' stands for the layer.
struct ModuleRow {
  const char *ours, *theirs;
  RowOf row_of = nullptr;   // null: the same row
  bool transposed = false;  // Conv1D stores (in, out)
};

// A part of config.json. `read` throws std::runtime_error.
struct ConfigField {
  std::function<void(Config&, const nlohmann::json& file)> read;
  std::function<void(nlohmann::json& file, const Config&)> write;
};

struct Architecture {
  const char *model_type, *model_class;
  const char* preset;               // of ours, with the same wiring
  bool always_biased;               // a model without biases has zeros there
  std::vector<ConfigField> fields;  // the rest of the Config is the preset's
  std::vector<ModuleRow> modules;
};
const std::vector<Architecture>& architectures();
const Architecture* find_architecture(const std::string& model_type);  // or null

// The resolved Config of a config.json. Throws std::runtime_error or std::invalid_argument.
Config config_of(const Architecture& architecture, const nlohmann::json& file);
nlohmann::json config_json(const Architecture& architecture, const Config& config);

// The first of the rows that computes what a model of this Config does.
struct Expressed {
  const Architecture& architecture;
  Config config;  // the same, with the biases that the class always has
};
// Throws std::invalid_argument naming the option that the nearest row cannot express. `kind` is what errors call a row.
Expressed expressed(const Config& config, const std::vector<Architecture>& rows = architectures(),
                    const std::string& kind = "model class of transformers");
