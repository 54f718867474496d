#include "architectures.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "data/host/utf8.hpp"
#include "data/options/settings.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/resolve.hpp"
#include "layers/norm/norm.hpp"

using nlohmann::json;

namespace {

// ---- parts of config.json --------------------------------------------------------------------------------

[[noreturn]] void reject(const std::string& key, const std::string& why) { throw std::runtime_error(key + " " + why); }

// The value, or null.
json value_at(const json& file, const char* key) { return file.contains(key) ? file.at(key) : json(); }

int whole(const std::string& key, const json& value) {
  if (!value.is_number_integer() || value < 0 || value > (1 << 30)) reject(key, "is not a whole number in range");
  return value;
}

double number(const std::string& key, const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) reject(key, "is not a number");
  return value;
}

// The double with the same shortest digits: 1e-5f becomes 1e-5.
double shortest(float x) {
  char digits[32];
  double same = 0;
  std::from_chars(digits, std::to_chars(digits, digits + sizeof digits, x).ptr, same);
  return same;
}

// A whole number; without a fallback it must be there. 0 lets resolve() derive a size.
ConfigField size(const char* key, int Config::*member, std::optional<int> fallback = std::nullopt) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            if (value.is_null() && !fallback) reject(key, "is missing");
            c.*member = value.is_null() ? *fallback : whole(key, value);
          },
          [=](json& file, const Config& c) { file[key] = c.*member; }};
}

// A number that is in config.json for other programs.
ConfigField written(const char* key, int Config::*member) {
  return {[](Config&, const json&) {}, [=](json& file, const Config& c) { file[key] = c.*member; }};
}

// A number that null turns off, as 0 does in ours.
template <class T>
ConfigField optional_number(const char* key, T Config::*member) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            c.*member = value.is_null() ? T(0) : static_cast<T>(number(key, value));
          },
          [=](json& file, const Config& c) { file[key] = c.*member == 0 ? json() : json(c.*member); }};
}

ConfigField epsilon(const char* key, double fallback) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            c.norm_eps = static_cast<float>(value.is_null() ? fallback : number(key, value));
          },
          [=](json& file, const Config& c) { file[key] = shortest(c.norm_eps); }};
}

ConfigField tied(bool fallback) {
  constexpr const char* kKey = "tie_word_embeddings";
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, kKey);
            if (!value.is_null() && !value.is_boolean()) reject(kKey, "is not true or false");
            c.tied = value.is_null() ? fallback : value.get<bool>();
          },
          [=](json& file, const Config& c) { file[kKey] = c.tied; }};
}

// The only value that our layers have. An absent key has it too.
ConfigField fixed(const char* key, const json& only) {
  return {[=](Config&, const json& file) {
            const json value = value_at(file, key);
            if (!value.is_null() && value != only)
              reject(key, "is " + for_terminal(value.dump()) + "; train_gpt has " + only.dump() + " only");
          },
          [=](json& file, const Config&) { file[key] = only; }};
}

ConfigField activation(const char* key) {
  struct Name {
    const char* theirs;
    Activation ours;
  };
  static constexpr Name kNames[] = {{"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                    {"gelu", Activation::gelu},          {"relu", Activation::relu},
                                    {"silu", Activation::silu},          {"swish", Activation::silu}};
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const auto name = std::find_if(std::begin(kNames), std::end(kNames),
                                           [&](const Name& n) { return value.is_null() || value == n.theirs; });
            if (name == std::end(kNames)) reject(key, "is " + for_terminal(value.dump()) + ", which train_gpt lacks");
            c.activation = name->ours;
          },
          [=](json& file, const Config& c) {
            for (const Name& n : kNames)
              if (n.ours == c.activation && !file.contains(key)) file[key] = n.theirs;
          }};
}

// transformers 5 has rope_parameters; earlier versions have rope_theta and rope_scaling.
ConfigField rope() {
  return {[](Config& c, const json& file) {
            json values = value_at(file, "rope_parameters");
            if (values.is_null()) values = value_at(file, "rope_scaling");
            if (values.is_null()) values = json::object();
            if (!values.is_object()) reject("rope_parameters", "is not an object");
            const json type = values.value("rope_type", values.value("type", json("default")));
            if (type != "default")
              reject("rope_type", "is " + for_terminal(type.dump()) + "; train_gpt has default only");
            const json theta = values.value("rope_theta", value_at(file, "rope_theta"));
            c.rope_theta = theta.is_null() ? 10000.f : static_cast<float>(number("rope_theta", theta));
          },
          [](json& file, const Config& c) {
            file["rope_theta"] = shortest(c.rope_theta);
            file["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", shortest(c.rope_theta)}};
          }};
}

// Gemma's scale of the scores is query_pre_attn_scalar^-½ of a whole number. Attention computes with it in float.
ConfigField score_scale() {
  constexpr const char* kKey = "query_pre_attn_scalar";
  return {[=](Config& c, const json& file) {
            c.attention_scale = 1 / std::sqrt(static_cast<float>(number(kKey, value_at(file, kKey))));
          },
          [=](json& file, const Config& c) {
            file[kKey] = std::llround(1 / (*c.attention_scale * *c.attention_scale));
          }};
}

// Which layers have the window. Comes after the window and the number of layers.
ConfigField layer_types() {
  const auto list = [](const Config& c) {
    json types = json::array();
    for (int l = 0; l < c.n_layer; ++l) types.push_back(c.window_of(l) > 0 ? "sliding_attention" : "full_attention");
    return types;
  };
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, "layer_types");
            if (!value.is_null() && value != list(c)) reject("layer_types", "is not the order that train_gpt has");
          },
          [=](json& file, const Config& c) { file["layer_types"] = list(c); }};
}

std::vector<ConfigField> joined(std::vector<ConfigField> a, const std::vector<ConfigField>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<ConfigField> gpt2_fields() {
  return {size("n_layer", &Config::n_layer), size("n_head", &Config::n_head), size("n_embd", &Config::channels),
          size("n_inner", &Config::hidden, 0), size("n_positions", &Config::context),
          size("vocab_size", &Config::vocab_size), epsilon("layer_norm_epsilon", 1e-5),
          activation("activation_function"), tied(true), written("n_ctx", &Config::context),  // for llama.cpp
          fixed("scale_attn_weights", true), fixed("scale_attn_by_inverse_layer_idx", false),
          fixed("add_cross_attention", false)};
}

// The fields of Llama and its relatives.
std::vector<ConfigField> llama_fields(const std::vector<ConfigField>& more, bool tied_by_default = false,
                                      double eps = 1e-6) {
  return joined({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 size("num_key_value_heads", &Config::kv_heads, 0), size("head_dim", &Config::head_dim, 0),
                 size("hidden_size", &Config::channels), size("intermediate_size", &Config::hidden),
                 size("max_position_embeddings", &Config::context), size("vocab_size", &Config::vocab_size),
                 epsilon("rms_norm_eps", eps), rope(), tied(tied_by_default)},
                more);
}

// ---- names of tensors ------------------------------------------------------------------------------------

// q, k and v of all heads, one behind the other.
template <int part>
size_t third(size_t r, const Config& c) {
  return r + part * static_cast<size_t>(c.n_head) * c.head_dim;
}

const std::vector<ModuleRow> kGpt2 = {
    {"embedding.token", "transformer.wte"},
    {"embedding.position", "transformer.wpe"},
    {"block.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"block.#.attention.q", "transformer.h.#.attn.c_attn", third<0>, true},
    {"block.#.attention.k", "transformer.h.#.attn.c_attn", third<1>, true},
    {"block.#.attention.v", "transformer.h.#.attn.c_attn", third<2>, true},
    {"block.#.attention.o", "transformer.h.#.attn.c_proj", nullptr, true},
    {"block.#.ffn.norm_in", "transformer.h.#.ln_2"},
    {"block.#.ffn.up", "transformer.h.#.mlp.c_fc", nullptr, true},
    {"block.#.ffn.down", "transformer.h.#.mlp.c_proj", nullptr, true},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};

const std::vector<ModuleRow> kLlamaCommon = {
    {"embedding.token", "model.embed_tokens"},
    {"block.#.attention.q", "model.layers.#.self_attn.q_proj"},
    {"block.#.attention.k", "model.layers.#.self_attn.k_proj"},
    {"block.#.attention.v", "model.layers.#.self_attn.v_proj"},
    {"block.#.attention.q_norm", "model.layers.#.self_attn.q_norm"},
    {"block.#.attention.k_norm", "model.layers.#.self_attn.k_norm"},
    {"block.#.attention.o", "model.layers.#.self_attn.o_proj"},
    {"block.#.ffn.gate", "model.layers.#.mlp.gate_proj"},
    {"block.#.ffn.up", "model.layers.#.mlp.up_proj"},
    {"block.#.ffn.down", "model.layers.#.mlp.down_proj"},
    {"final_norm", "model.norm"},
    {"head", "lm_head"},
};

// Names of the two norms of a block.
const std::vector<ModuleRow> kPreNorms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.ffn.norm_in", "model.layers.#.post_attention_layernorm"},
};
const std::vector<ModuleRow> kSandwichNorms = {
    {"block.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"block.#.attention.norm_out", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_in", "model.layers.#.pre_feedforward_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_feedforward_layernorm"},
};
const std::vector<ModuleRow> kReorderedNorms = {
    {"block.#.attention.norm_out", "model.layers.#.post_attention_layernorm"},
    {"block.#.ffn.norm_out", "model.layers.#.post_feedforward_layernorm"},
};

std::vector<ModuleRow> llama_modules(const std::vector<ModuleRow>& norms) {
  std::vector<ModuleRow> rows = kLlamaCommon;
  rows.insert(rows.end(), norms.begin(), norms.end());
  return rows;
}

}  // namespace

// ---- the classes -----------------------------------------------------------------------------------------

const std::vector<Architecture>& architectures() {
  const ConfigField silu = fixed("hidden_act", "silu"), unbiased = fixed("attention_bias", false);
  const ConfigField no_window = fixed("use_sliding_window", false);
  static const std::vector<Architecture> rows = {
      {"gpt2", "GPT2LMHeadModel", "gpt2", true, gpt2_fields(), kGpt2},
      {"llama", "LlamaForCausalLM", "llama", false, llama_fields({silu, unbiased, fixed("mlp_bias", false)}),
       llama_modules(kPreNorms)},
      {"mistral", "MistralForCausalLM", "mistral", false,
       llama_fields({silu, optional_number("sliding_window", &Config::window)}), llama_modules(kPreNorms)},
      {"qwen2", "Qwen2ForCausalLM", "qwen2", false, llama_fields({silu, no_window, layer_types()}),
       llama_modules(kPreNorms)},
      {"qwen3", "Qwen3ForCausalLM", "qwen3", false, llama_fields({silu, unbiased, no_window, layer_types()}),
       llama_modules(kPreNorms)},
      {"olmo2", "Olmo2ForCausalLM", "olmo2", false, llama_fields({silu, unbiased}, false, 1e-5),
       llama_modules(kReorderedNorms)},
      {"gemma2", "Gemma2ForCausalLM", "gemma2", false,
       llama_fields({fixed("hidden_activation", "gelu_pytorch_tanh"), unbiased, score_scale(),
                     optional_number("sliding_window", &Config::window), layer_types(),
                     optional_number("attn_logit_softcapping", &Config::attention_cap),
                     optional_number("final_logit_softcapping", &Config::logit_cap)},
                    true),
       llama_modules(kSandwichNorms)},
  };
  return rows;
}

const Architecture* find_architecture(const std::string& model_type) {
  for (const Architecture& row : architectures())
    if (model_type == row.model_type) return &row;
  return nullptr;
}

Config config_of(const Architecture& architecture, const json& file) {
  Config c = preset_config(architecture.preset, "nano");
  c.kv_heads = c.head_dim = c.hidden = 0;
  for (const ConfigField& field : architecture.fields) field.read(c, file);
  return resolve(c);
}

json config_json(const Architecture& architecture, const Config& config) {
  json file = {{"model_type", architecture.model_type},
               {"architectures", {architecture.model_class}},
               {"torch_dtype", "float32"},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr}};
  for (const ConfigField& field : architecture.fields) field.write(file, config);
  return file;
}

// ---- which class a model is ------------------------------------------------------------------------------

namespace {

// The settings that decide what a model computes. Training settings and settings without effect have their defaults.
TrainOptions essence(Config c) {
  const Config standard;
  c = resolve(c);
  c.attention_scale = static_cast<float>(*c.attention_scale);
  c.dropout = 0, c.matmul = standard.matmul, c.recompute = false;
  c.init = standard.init, c.residual_gain.reset(), c.init_gain.reset(), c.layer_scale_init.reset();
  c.dyt_alpha = standard.dyt_alpha, c.mix_fraction = standard.mix_fraction;
  if (c.position != Position::rope) c.rope_theta = standard.rope_theta, c.rope_fraction = standard.rope_fraction;
  if (c.window == 0) c.window_every = 1;
  TrainOptions options;
  options.config = c;
  return options;
}

// "--window 64 instead of 0" for each option that config.json loses.
std::vector<std::string> losses(const Architecture& architecture, const Config& config) {
  TrainOptions given = essence(config), kept;
  try {
    kept = essence(config_of(architecture, config_json(architecture, config)));
  } catch (const std::exception& error) {
    return {error.what(), "", ""};  // further away than any class that has a Config
  }
  const auto ours = settings_of(given, false), theirs = settings_of(kept, false);
  std::vector<std::string> list;
  for (size_t i = 0; i < ours.size(); ++i)
    if (ours[i].value() != theirs[i].value())
      list.push_back("--" + ours[i].name + " " + ours[i].value() + " (it has " + theirs[i].value() + ")");
  return list;
}

Config with_biases(Config c) {
  c.bias = true;
  c.qkv_bias = true;
  c.norm_bias = norm_row(c.norm).bias;
  return c;
}

}  // namespace

Expressed expressed(const Config& config, const std::vector<Architecture>& rows, const std::string& kind) {
  const Architecture* nearest = nullptr;
  std::vector<std::string> fewest;
  for (const Architecture& row : rows) {
    const Config c = row.always_biased ? with_biases(config) : config;
    const std::vector<std::string> lost = losses(row, c);
    if (lost.empty()) return {row, resolve(c)};
    if (nearest && lost.size() >= fewest.size()) continue;
    nearest = &row;
    fewest = lost;
  }
  throw std::invalid_argument("no " + kind + " is this model: the nearest, " + std::string(nearest->model_class) +
                              ", has no " + fewest.front());
}
