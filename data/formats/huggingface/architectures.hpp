#pragma once
// Tables of the model classes of Hugging Face's transformers that can express a Config: their config.json and the names
// of their tensors.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "class_fields.hpp"
#include "class_modules.hpp"
#include "pair_fields.hpp"

// A tensor that a file may hold a second time: the embedding or the bias of a tied head, or an embedding that both
// stacks read.
struct TiedCopy {
  const char *theirs, *ours;
  bool always = false;  // also if the head is not tied
};

struct Architecture {
  const char *model_type, *model_class;
  const char* preset;   // our preset with the same wiring
  bool always_biased;   // a model without biases gets zeros
  ConfigFields fields;  // the rest of the Config is the preset's
  Modules modules;      // if empty, our names
  nlohmann::json variant = nlohmann::json::object();  // values in config.json that tell rows with one model_type apart
  const char* prefix = "";  // replaces '^' in the names of its modules
  std::vector<TiedCopy> copies = {{"lm_head.weight", "embedding.token.weight"}};
  std::vector<const char*> sinusoids = {};  // tensors that hold the positions, all sines before the cosines
  bool weights_tie = false;  // the head is tied unless the file has another one, whatever config.json says
};
const std::vector<Architecture>& architectures();
const Architecture* find_architecture(const nlohmann::json& file);  // by its config.json; or null

// Returns the resolved Config of a config.json. Throws std::runtime_error or std::invalid_argument.
Config config_of(const Architecture& architecture, const nlohmann::json& file);
nlohmann::json config_json(const Architecture& architecture, const Config& config);

// Returns "--placement post instead of pre" for the first setting by which a model computes something else than another
// with the same weights; "" if there is none.
std::string changed_setting(const Config& of, const Config& from);
inline bool same_model(const Config& a, const Config& b) { return changed_setting(a, b).empty(); }

// The first row that computes the same as a model with this Config.
struct Expressed {
  const Architecture& architecture;
  Config config;    // that Config, plus the biases that the class always has
  std::string why;  // why not the nearest earlier row: "LlamaForCausalLM has no --logit-cap 3 (it has 0)"; or ""
};
// Throws std::invalid_argument that names the option that the nearest row cannot express. `kind` is what errors call a
// row. The last rows of architectures(), which are ours, express every Config.
Expressed expressed(const Config& config, const std::vector<Architecture>& rows = architectures(),
                    const std::string& kind = "model class of transformers");
