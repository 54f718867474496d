#include "class_fields.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "data/host/json.hpp"
#include "data/host/utf8.hpp"

using nlohmann::json;

namespace {

[[noreturn]] void reject(const std::string& key, const std::string& why) { throw std::runtime_error(key + " " + why); }

// The value, or null.
json value_at(const json& file, const std::string& key) { return file.contains(key) ? file.at(key) : json(); }

int whole(const std::string& key, const json& value) {
  const auto number = integer_between(value, 0, 1 << 30);
  if (!number) reject(key, "is not a whole number in range");
  return static_cast<int>(*number);
}

double number(const std::string& key, const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) reject(key, "is not a number");
  return value;
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
              reject(key, "is " + for_terminal(to_text(value)) + "; train_gpt has " + to_text(only) + " only");
          },
          [=](json& file, const Config&) { file[key] = only; }};
}

struct ActivationName {
  const char* theirs;
  Activation ours;
};

// ACT2FN of transformers. The first name of an activation is written.
const std::vector<ActivationName> kActivationNames = {
    {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}, {"gelu", Activation::gelu}, {"relu", Activation::relu},
    {"silu", Activation::silu}, {"swish", Activation::silu}};
// The names of openai-gpt, whose gelu is the tanh form.
const std::vector<ActivationName> kGpt1Activations = {
    {"gelu", Activation::gelu_tanh}, {"relu", Activation::relu}, {"silu", Activation::silu},
    {"swish", Activation::silu}};

ConfigField activation(const char* key, const char* fallback,
                       const std::vector<ActivationName>& names = kActivationNames) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const auto name = std::find_if(names.begin(), names.end(), [&](const ActivationName& n) {
              return value.is_null() ? std::string_view(n.theirs) == fallback : value == n.theirs;
            });
            if (name == names.end()) reject(key, "is " + for_terminal(to_text(value)) + ", which train_gpt lacks");
            c.activation = name->ours;
          },
          [=](json& file, const Config& c) {
            for (const ActivationName& n : names)
              if (n.ours == c.activation && !file.contains(key)) file[key] = n.theirs;
          }};
}

// transformers 5 has rope_parameters; earlier versions have rope_theta, rope_scaling and partial_rotary_factor.
// GPT-NeoX has names of its own.
json rope_values(const json& file) {
  json values = value_at(file, "rope_parameters");
  if (values.is_null()) values = value_at(file, "rope_scaling");
  if (values.is_null()) values = json::object();
  if (!values.is_object()) reject("rope_parameters", "is not an object");
  for (const auto& [ours, theirs] : {std::pair{"rope_theta", "rope_theta"}, std::pair{"rope_theta", "rotary_emb_base"},
                                     std::pair{"partial_rotary_factor", "partial_rotary_factor"},
                                     std::pair{"partial_rotary_factor", "rotary_pct"}})
    if (!values.contains(ours) && file.contains(theirs)) values[ours] = file.at(theirs);
  return values;
}

ConfigField rope() {
  return {[](Config& c, const json& file) {
            const json values = rope_values(file), theta = value_at(values, "rope_theta");
            const json type = values.value("rope_type", values.value("type", json("default")));
            if (type != "default")
              reject("rope_type", "is " + for_terminal(to_text(type)) + "; train_gpt has default only");
            c.rope_theta = theta.is_null() ? 10000.f : static_cast<float>(number("rope_theta", theta));
          },
          [](json& file, const Config& c) {
            file["rope_theta"] = shortest(c.rope_theta);
            file["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", shortest(c.rope_theta)}};
          }};
}

// RoPE on a share of each head. Comes after rope().
ConfigField partial_rope(float fallback) {
  constexpr const char* kKey = "partial_rotary_factor";
  return {[=](Config& c, const json& file) {
            const json value = value_at(rope_values(file), kKey);
            c.rope_fraction = value.is_null() ? fallback : static_cast<float>(number(kKey, value));
          },
          [=](json& file, const Config& c) {
            file["rope_parameters"][kKey] = file[kKey] = file["rotary_pct"] = shortest(c.rope_fraction);
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

// A choice between two wirings.
ConfigField choice(const char* key, bool fallback, void (*set)(Config&, bool), bool (*get)(const Config&)) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            if (!value.is_null() && !value.is_boolean()) reject(key, "is not true or false");
            set(c, value.is_null() ? fallback : value.get<bool>());
          },
          [=](json& file, const Config& c) { file[key] = get(c); }};
}

// A choice of the class that config.json does not state.
ConfigField always(void (*set)(Config&)) {
  return {[=](Config& c, const json&) { set(c); }, [](json&, const Config&) {}};
}

// OPT may have embeddings narrower than its stream.
ConfigField same_width() {
  constexpr const char* kKey = "word_embed_proj_dim";
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, kKey);
            if (!value.is_null() && value != c.channels) reject(kKey, "is not hidden_size, as train_gpt has it");
          },
          [=](json& file, const Config& c) { file[kKey] = c.channels; }};
}

ConfigFields joined(ConfigFields a, const ConfigFields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The sizes under their usual names.
ConfigFields usual_fields(const ConfigFields& more) {
  return joined({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 size("hidden_size", &Config::channels), size("vocab_size", &Config::vocab_size)},
                more);
}

const ConfigField kFourfold = always([](Config& c) { c.hidden = 4 * c.channels; });

ConfigField qkv_bias(const char* key) {
  return choice(key, false, [](Config& c, bool has) { c.qkv_bias = has; }, [](const Config& c) { return *c.qkv_bias; });
}

const ConfigField kSilu = fixed("hidden_act", "silu"), kUnbiased = fixed("attention_bias", false);
const ConfigField kNoWindow = fixed("use_sliding_window", false);
const ConfigField kWindow = optional_number("sliding_window", &Config::window);

// The fields of Llama and its relatives.
ConfigFields like_llama(const ConfigFields& more, bool tied_by_default = false,
                                      double eps = 1e-6) {
  return joined({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 size("num_key_value_heads", &Config::kv_heads, 0), size("head_dim", &Config::head_dim, 0),
                 size("hidden_size", &Config::channels), size("intermediate_size", &Config::hidden),
                 size("max_position_embeddings", &Config::context), size("vocab_size", &Config::vocab_size),
                 epsilon("rms_norm_eps", eps), rope(), tied(tied_by_default)},
                more);
}

// The number of experts, under either of its names. transformers 5 reads both. Llama's fields are without experts.
ConfigFields expert_fields(const char* key, const char* other_key, int fallback, int fallback_per_token,
                           const ConfigFields& more) {
  const ConfigField experts = size(key, &Config::experts, fallback);
  const auto read = [=](Config& c, const json& file) {
    c.experts = whole(other_key, file.contains(key) ? file.at(key) : file.value(other_key, json(fallback)));
  };
  const auto write = [=](json& file, const Config& c) {
    if (c.experts == 0) reject(key, "is 0");
    experts.write(file, c);
  };
  return joined({{read, write}, size("num_experts_per_tok", &Config::experts_per_token, fallback_per_token)}, more);
}

ConfigField renormalize() {
  return choice("norm_topk_prob", false, [](Config& c, bool on) { c.router_renormalize = on; },
                [](const Config& c) { return c.router_renormalize; });
}

ConfigFields falcon_fields(const ConfigFields& more) {
  return joined(usual_fields({size("ffn_hidden_size", &Config::hidden, 0),
                              size("max_position_embeddings", &Config::context, 2048),
                              epsilon("layer_norm_epsilon", 1e-5), activation("activation", "gelu"), rope(),
                              tied(true), fixed("alibi", false), fixed("bias", false)}),
                more);
}

}  // namespace

// ---- the classes -----------------------------------------------------------------------------------------

ConfigFields llama_fields() { return like_llama({kSilu, kUnbiased, fixed("mlp_bias", false)}); }

ConfigFields mistral_fields() { return like_llama({kSilu, kWindow}); }

ConfigFields qwen2_fields() { return like_llama({kSilu, kNoWindow, layer_types()}); }

ConfigFields qwen3_fields() { return like_llama({kSilu, kUnbiased, kNoWindow, layer_types()}); }

ConfigFields mixtral_fields() {
  return like_llama(expert_fields("num_local_experts", "num_experts", 8, 2, {kSilu, kWindow}), false, 1e-5);
}

// intermediate_size is that of layers without experts, which train_gpt does not have.
ConfigFields qwen3_moe_fields() {
  return like_llama(expert_fields("num_experts", "num_local_experts", 128, 8,
                                  {kSilu, kUnbiased, kNoWindow, renormalize(),
                                   size("moe_intermediate_size", &Config::hidden, 768), fixed("decoder_sparse_step", 1),
                                   fixed("mlp_only_layers", json::array())}));
}

ConfigFields olmoe_fields() {
  return like_llama(expert_fields("num_experts", "num_local_experts", 64, 8,
                                  {kSilu, kUnbiased, renormalize(), fixed("clip_qkv", nullptr)}),
                    false, 1e-5);
}

ConfigFields olmo2_fields() { return like_llama({kSilu, kUnbiased}, false, 1e-5); }

ConfigFields phi3_fields() { return like_llama({kSilu, partial_rope(1), kWindow}); }

ConfigFields glm_fields() { return like_llama({kSilu, partial_rope(.5f), qkv_bias("attention_bias")}); }

ConfigFields gemma2_fields() {
  return like_llama({fixed("hidden_activation", "gelu_pytorch_tanh"), kUnbiased, score_scale(), kWindow, layer_types(),
                     optional_number("attn_logit_softcapping", &Config::attention_cap),
                     optional_number("final_logit_softcapping", &Config::logit_cap)},
                    true);
}

ConfigFields falcon_7b_fields() {
  return falcon_fields({fixed("multi_query", true), fixed("parallel_attn", true),
                        always([](Config& c) { c.kv_heads = 1; })});
}

ConfigFields falcon_40b_fields() {
  return falcon_fields({fixed("num_ln_in_parallel_attn", 2), size("num_kv_heads", &Config::kv_heads, 0)});
}

ConfigFields gpt2_fields() {
  return {size("n_layer", &Config::n_layer), size("n_head", &Config::n_head), size("n_embd", &Config::channels),
          size("n_inner", &Config::hidden, 0), size("n_positions", &Config::context),
          size("vocab_size", &Config::vocab_size), epsilon("layer_norm_epsilon", 1e-5),
          activation("activation_function", "gelu_new"), tied(true),
          written("n_ctx", &Config::context),  // for llama.cpp
          fixed("scale_attn_weights", true), fixed("scale_attn_by_inverse_layer_idx", false),
          fixed("add_cross_attention", false)};
}

ConfigFields gpt1_fields() {
  return {size("n_layer", &Config::n_layer), size("n_head", &Config::n_head), size("n_embd", &Config::channels),
          size("n_positions", &Config::context), size("vocab_size", &Config::vocab_size), kFourfold,
          epsilon("layer_norm_epsilon", 1e-5), activation("afn", "gelu", kGpt1Activations), tied(true)};
}

ConfigFields gpt_bigcode_fields() {
  return joined(gpt2_fields(), {fixed("multi_query", true), always([](Config& c) { c.kv_heads = 1; })});
}

ConfigFields opt_fields() {
  return usual_fields({size("ffn_dim", &Config::hidden), size("max_position_embeddings", &Config::context),
                       activation("activation_function", "relu"), tied(true), fixed("enable_bias", true),
                       fixed("layer_norm_elementwise_affine", true), fixed("_remove_final_layer_norm", false),
                       same_width(),
                       choice("do_layer_norm_before", true,
                              [](Config& c, bool before) { c.placement = before ? "pre" : "post"; },
                              [](const Config& c) { return c.placement == "pre"; })});
}

ConfigFields bloom_fields() {
  return {size("n_layer", &Config::n_layer), size("n_head", &Config::n_head), size("hidden_size", &Config::channels),
          size("vocab_size", &Config::vocab_size), size("seq_length", &Config::context, 2048), kFourfold,
          epsilon("layer_norm_epsilon", 1e-5), tied(true), fixed("apply_residual_connection_post_layernorm", false)};
}

ConfigFields gpt_neox_fields() {
  return usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                       epsilon("layer_norm_eps", 1e-5), activation("hidden_act", "gelu"), rope(), partial_rope(.25f),
                       tied(false), fixed("attention_bias", true),
                       choice("use_parallel_residual", true,
                              [](Config& c, bool parallel) {
                                c.block = parallel ? BlockForm::parallel : BlockForm::sequential;
                              },
                              [](const Config& c) { return c.block == BlockForm::parallel; })});
}

ConfigFields phi_fields() {
  return usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                       size("num_key_value_heads", &Config::kv_heads, 0), epsilon("layer_norm_eps", 1e-5),
                       activation("hidden_act", "gelu_new"), rope(), partial_rope(.5f), tied(false),
                       fixed("qk_layernorm", false)});
}

ConfigFields stablelm_fields() {
  return usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                       size("num_key_value_heads", &Config::kv_heads, 0), epsilon("layer_norm_eps", 1e-5), rope(),
                       partial_rope(.25f), tied(false), fixed("hidden_act", "silu"), fixed("qk_layernorm", false),
                       qkv_bias("use_qkv_bias"),
                       choice("use_parallel_residual", false,
                              [](Config& c, bool parallel) {
                                c.block = parallel ? BlockForm::parallel_shared : BlockForm::sequential;
                              },
                              [](const Config& c) { return c.block == BlockForm::parallel_shared; }),
                       always([](Config& c) { c.norm = NormKind::layernorm, c.norm_bias = true; })});
}

ConfigFields starcoder2_fields() {
  return usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                       size("num_key_value_heads", &Config::kv_heads, 0), epsilon("norm_epsilon", 1e-5), rope(),
                       tied(true), activation("hidden_act", "gelu_pytorch_tanh"), fixed("use_bias", true),
                       optional_number("sliding_window", &Config::window),
                       always([](Config& c) { c.position = Position::rope; })});
}

ConfigFields gemma_fields() {
  return like_llama({fixed("hidden_act", "gelu_pytorch_tanh"), fixed("attention_bias", false), always([](Config& c) {
                         c.placement = "pre", c.window = 0, c.window_every = 1, c.attention_cap = c.logit_cap = 0;
                       })},
                      true);
}
