#include "modeling.hpp"

#include <cmath>
#include <stdexcept>

#include "data/host/json.hpp"
#include "data/options/settings.hpp"
#include "data/options/settings_file.hpp"
#include "layers/config/placements.hpp"

using nlohmann::json;

namespace {

constexpr const char* kSettings = "train_gpt_settings";
constexpr char kText[] =
#include "modeling_train_gpt.inc"
    ;

// Returns the norms of a block's branches, by their names in modeling_train_gpt.py.
json norms_of(const Placement& row) {
  json norms = json::array();
  for (const auto& [present, name] : {std::pair{row.norm_in, "in"}, std::pair{row.norm_inner, "inner"},
                                      std::pair{row.norm_out, "out"}, std::pair{row.norm_sum, "sum"}})
    if (present) norms.push_back(name);
  return norms;
}

const char* name_of_gain(LearnedGain gain) {
  return gain == LearnedGain::none ? "none" : gain == LearnedGain::channel ? "channel" : "block";
}

json model_settings(const Config& config) {
  TrainOptions options;
  options.config = config;
  const std::vector<std::string> names = names_of(settings_of(options, false));
  json settings = to_json(options), kept = json::object();
  for (const std::string& name : names)
    if (settings.contains(name)) kept[name] = settings[name];
  return kept;
}

}  // namespace

std::string modeling_text() { return kText + 1; }  // skips the line break that opens the literal

void write_modeling_config(json& file, const Config& c) {
  const std::string module = "modeling_train_gpt.";
  file["auto_map"] = {{"AutoConfig", module + "TrainGPTConfig"}, {"AutoModelForCausalLM", module + kModelingClass}};
  file["num_hidden_layers"] = c.n_layer, file["num_attention_heads"] = c.n_head;
  file["num_key_value_heads"] = c.kv_heads, file["head_dim"] = c.head_dim;
  file["hidden_size"] = c.channels, file["intermediate_size"] = c.hidden;
  file["max_position_embeddings"] = c.context, file["vocab_size"] = c.vocab_size;
  file["tie_word_embeddings"] = c.tied, file["head_bias"] = c.head_bias, file["logit_cap"] = shortest(c.logit_cap);
  file["embedding_scale"] = shortest(static_cast<float>(*c.embedding_scale)), file["embedding_norm"] = c.embedding_norm;

  file["experts"] = c.experts, file["experts_per_token"] = c.experts_per_token;
  file["shared_experts"] = c.shared_experts, file["router_renormalize"] = c.router_renormalize;
  file["router_bias"] = c.router_bias > 0;

  file["norm"] = name_of(kNormKinds, c.norm), file["norm_eps"] = shortest(c.norm_eps);
  file["norm_bias"] = *c.norm_bias, file["norm_unit_offset"] = c.norm_unit_offset;
  file["qk_norm"] = name_of(kQkNormKinds, c.qk_norm), file["final_norm"] = *c.final_norm;
  file["block"] = name_of(kBlockForms, c.block), file["skip_scale"] = shortest(static_cast<float>(*c.skip_scale));
  file["learned_gain"] = name_of_gain(placement_row(c.placement).gain);
  file["bypass"] = placement_row(c.placement).bypass;
  file["norms"] = file["ffn_norms"] = file["in_scales"] = file["windows"] = json::array();
  for (int l = 0; l < c.n_layer; ++l) {
    const Placement& row = placement_at(c, l, "attention");
    file["norms"].push_back(norms_of(row));
    file["ffn_norms"].push_back(norms_of(placement_at(c, l, "ffn")));
    file["in_scales"].push_back(shortest(static_cast<float>(row.in_scale(l))));
    file["windows"].push_back(c.window_of(l));
  }

  file["position"] = name_of(kPositions, c.position), file["rotary_base"] = shortest(c.rope_theta);
  file["rotary_dims"] = c.position == Position::rope ? c.rope_dims() : 0;
  file["attention_scale"] = shortest(static_cast<float>(*c.attention_scale));
  file["attention_cap"] = shortest(c.attention_cap);
  file["activation"] = name_of(kActivations, c.activation), file["bias"] = c.bias, file["qkv_bias"] = *c.qkv_bias;
  file["output_gate"] = name_of(kOutputGates, c.output_gate), file["stream_mix"] = c.stream_mix;
  file["head_scale"] = *c.head_scale;
  file["value_residual"] = name_of(kValueResiduals, c.value_residual);
  file[kSettings] = model_settings(c);
}

Config read_modeling_config(const json& file) {
  const auto settings = file.find(kSettings);
  if (settings == file.end() || !settings->is_object())
    throw std::runtime_error(std::string(kSettings) + " is missing");
  return train_options_of(*settings).config;
}
