#include "gguf_architectures.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "data/files/json.hpp"
#include "data/formats/huggingface/modeling.hpp"
#include "data/strings/utf8.hpp"
#include "gguf_rope.hpp"
#include "gguf_windows.hpp"
#include "layers/config/placements.hpp"
#include "layers/model/presets.hpp"

using nlohmann::json;

namespace {

// ---- keys ------------------------------------------------------------------------------------------------

// A key that holds a member of Config. llama.cpp takes `absent` if a file lacks it. Without `absent`, it is required.
template <class T>
ConfigField key(const char* name, T Config::*member, std::optional<T> absent = {}) {
  return {[=](Config& c, const json& keys) {
            if (keys.contains(name)) set_member(c.*member, name, keys.at(name));
            else if (absent) c.*member = *absent;
            else throw std::runtime_error(std::string(name) + " is missing");
          },
          [=](json& keys, const Config& c) { keys[name] = c.*member; }};
}

// A factor that a file may leave out.
ConfigField factor(const char* name, std::optional<double> Config::*member) {
  return {[=](Config& c, const json& keys) {
            float value = 1;
            if (!keys.contains(name)) return;
            set_member(value, name, keys.at(name));
            c.*member = value;
          },
          [=](json& keys, const Config& c) { keys[name] = static_cast<float>(*(c.*member)); }};
}

// Granite's logits are divided by this key.
ConfigField logit_divisor() {
  constexpr const char* kKey = "logit_scale";
  return {[=](Config& c, const json& keys) {
            float divisor = 1;
            if (keys.contains(kKey)) set_member(divisor, kKey, keys.at(kKey));
            if (divisor <= 0) throw std::runtime_error(std::string(kKey) + " is not positive");
            c.logit_scale = 1 / divisor;
          },
          [=](json& keys, const Config& c) { keys[kKey] = 1 / static_cast<float>(*c.logit_scale); }};
}

// Granite is without RoPE if this key is false. The other architectures ignore it.
ConfigField never_without_rope() {
  constexpr const char* kKey = "rope.scaling.finetuned";
  return {[=](Config&, const json& keys) {
            if (keys.value(kKey, json(true)) != true) refuse_key(kKey, "is not true; train_gpt has true only");
          },
          [](json&, const Config&) {}};
}

constexpr int kDerived = 0;  // resolve() derives the size from others, as llama.cpp does

// A key that repeats another key. It is written and not read.
ConfigField written(const char* name, int Config::*member) {
  return {[](Config&, const json&) {}, [=](json& keys, const Config& c) { keys[name] = c.*member; }};
}

// A choice that has no key. It is on if the file has the tensor, or, if `absent`, if the file lacks it.
constexpr const char* kTensors = "names of tensors";
template <class T>
ConfigField shown(const char* tensor, T Config::*member, bool absent = false) {
  return {[=](Config& c, const json& keys) { c.*member = keys.at(kTensors).contains(tensor) != absent; },
          [=](json& keys, const Config& c) {
            keys[kTensors];
            if (std::optional<bool>(c.*member).value() != absent) keys[kTensors][tensor] = true;
          }};
}

// A parallel block with one norm for both branches has no norm before its feed-forward layer.
ConfigField block_shown() {
  constexpr const char* kNorm = "blk.0.ffn_norm.weight";
  return {[=](Config& c, const json& keys) {
            c.block = keys.at(kTensors).contains(kNorm) ? BlockForm::sequential : BlockForm::parallel_shared;
          },
          [=](json& keys, const Config& c) {
            keys[kTensors];
            if (c.block != BlockForm::parallel_shared) keys[kTensors][kNorm] = true;
          }};
}

ConfigField parallel_block() {
  constexpr const char* kKey = "use_parallel_residual";
  return {[=](Config& c, const json& keys) {
            const json value = keys.value(kKey, json());
            if (!value.is_boolean()) throw std::runtime_error(std::string(kKey) + " is not true or false");
            c.block = value == true ? BlockForm::parallel : BlockForm::sequential;
          },
          [=](json& keys, const Config& c) { keys[kKey] = c.block == BlockForm::parallel; }};
}

// A property of the architecture that no key states.
ConfigField always(void (*set)(Config&)) {
  return {[=](Config& c, const json&) { set(c); }, [](json&, const Config&) {}};
}

// A window that llama.cpp ignores, so a model with one is read, but not written.
ConfigField ignored_window() {
  constexpr const char* kKey = "attention.sliding_window";
  return {[=](Config& c, const json& keys) {
            c.window = 0;
            if (keys.contains(kKey)) set_member(c.window, kKey, keys.at(kKey));
          },
          [](json&, const Config&) {}};
}

// The file holds the gains that llama.cpp multiplies by, so a gain with an offset is stored as 1 + w. A file does not
// show whether its gains had an offset. So they have one if the preset's gains do.
constexpr const char* kGains = "gains have an offset";
ConfigField offset_of_gains() {
  return {[=](Config& c, const json& keys) { c.norm_unit_offset = keys.value(kGains, c.norm_unit_offset); },
          [=](json& keys, const Config& c) { keys[kGains] = c.norm_unit_offset; }};
}

// The number of channels of a head that RoPE rotates.
ConfigField rotated_channels() {
  constexpr const char* kKey = "rope.dimension_count";
  return {[=](Config& c, const json& keys) {
            int channels = 0;
            if (keys.contains(kKey)) set_member(channels, kKey, keys.at(kKey));
            const int width = c.head_dim > 0 ? c.head_dim : c.channels / std::max(c.n_head, 1);
            c.rope_fraction = channels > 0 ? static_cast<float>(channels) / static_cast<float>(std::max(width, 1)) : 1;
          },
          [=](json& keys, const Config& c) { keys[kKey] = c.rope_dims(); }};
}

// In llama.cpp, Gemma 2 always has a window. A window as long as the context has no effect.
ConfigField window() {
  constexpr const char* kKey = "attention.sliding_window";
  return {[=](Config& c, const json& keys) {
            c.window = 4096;
            if (keys.contains(kKey)) set_member(c.window, kKey, keys.at(kKey));
            if (c.window >= c.context) c.window = 0;
          },
          [=](json& keys, const Config& c) { keys[kKey] = c.window > 0 ? c.window : c.context; }};
}

// In llama.cpp, Gemma 2 always has caps. A missing key reads as `standard`, so a model without caps is not taken for
// Gemma 2.
ConfigField cap(const char* name, float Config::*member, float standard) {
  return {[=](Config& c, const json& keys) {
            c.*member = standard;
            if (keys.contains(name)) set_member(c.*member, name, keys.at(name));
          },
          [=](json& keys, const Config& c) {
            if (c.*member > 0) keys[name] = c.*member;
          }};
}

// llama.cpp derives the scale of Gemma's scores from the number of layers: the 27B model has `largest`.
ConfigField score_scale(int largest) {
  return {[=](Config& c, const json&) {
            if (c.n_layer == largest) c.attention_scale = 1 / std::sqrt(static_cast<double>(c.channels / c.n_head));
          },
          [](json&, const Config&) {}};
}

// In llama.cpp, OLMoE normalizes all keys with a norm as wide as the queries', so keys need as many heads.
ConfigField ungrouped() {
  return {[](Config& c, const json&) { c.kv_heads = c.n_head; }, [](json&, const Config&) {}};
}

std::vector<ConfigField> concat(std::vector<ConfigField> a, const std::vector<ConfigField>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<ConfigField> common(const std::vector<ConfigField>& more) {
  return concat({key("block_count", &Config::n_layer), key("context_length", &Config::context),
                 key("embedding_length", &Config::channels), key("feed_forward_length", &Config::hidden),
                 key("attention.head_count", &Config::n_head),
                 key("attention.head_count_kv", &Config::kv_heads, std::optional(kDerived)),
                 key("vocab_size", &Config::vocab_size), offset_of_gains()},
                more);
}

std::vector<ConfigField> with_rope(const std::vector<ConfigField>& more,
                                   const ConfigField& scaling = rope_scaling_keys()) {
  return common(concat(concat({key("rope.freq_base", &Config::rope_theta, std::optional(10000.f))}, more), {scaling}));
}

// Keys of models with RMSNorm and RoPE. Heads are C/H wide unless `more` says otherwise.
std::vector<ConfigField> llama_like(const std::vector<ConfigField>& more,
                                    const ConfigField& scaling = rope_scaling_keys()) {
  return with_rope(concat({key("attention.layer_norm_rms_epsilon", &Config::norm_eps),
                           written("rope.dimension_count", &Config::head_dim)},
                          more),
                   scaling);
}

// ---- names of tensors ------------------------------------------------------------------------------------

using Modules = std::vector<ModuleRow>;

Modules concat(Modules a, const Modules& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Modules with_common(const Modules& more) {
  return concat({{"embedding.token", "token_embd"},
                 {"block.#.attention.o", "blk.#.attn_output"},
                 {"block.#.ffn.gate", "blk.#.ffn_gate"},
                 {"block.#.ffn.up", "blk.#.ffn_up"},
                 {"block.#.ffn.down", "blk.#.ffn_down"},
                 {"final_norm", "output_norm"},
                 {"head", "output"}},
                more);
}

const Modules kPreNorms = {{"block.#.attention.norm_in", "blk.#.attn_norm"}, {"block.#.ffn.norm_in", "blk.#.ffn_norm"}};
const Modules kOutputNorms = {{"block.#.attention.norm_out", "blk.#.post_attention_norm"},
                              {"block.#.ffn.norm_out", "blk.#.post_ffw_norm"}};
const Modules kQkNorms = {{"block.#.attention.q_norm", "blk.#.attn_q_norm"},
                          {"block.#.attention.k_norm", "blk.#.attn_k_norm"}};

// Our RoPE rotates the pairs (i, i + D/2), like all architectures with LLAMA_ROPE_TYPE_NEOX. Arch llama has
// LLAMA_ROPE_TYPE_NORM, which rotates neighbors.
Modules qkv(ForeignRow foreign_row) {
  return {{"block.#.attention.q", "blk.#.attn_q", foreign_row},
          {"block.#.attention.k", "blk.#.attn_k", foreign_row},
          {"block.#.attention.v", "blk.#.attn_v"}};
}

const Modules kJoinedQkv = {{"block.#.attention.q", "blk.#.attn_qkv"},
                            {"block.#.attention.k", "blk.#.attn_qkv", behind_q},
                            {"block.#.attention.v", "blk.#.attn_qkv", behind_k}};
const Modules kGpt2 = concat({{"embedding.position", "position_embd"}}, concat(kJoinedQkv, kPreNorms));

// llama.cpp stores the matrices of all experts as one tensor.
const Modules kExperts = {{"block.#.ffn.router", "blk.#.ffn_gate_inp"},
                          {"block.#.ffn.expert.@.gate", "blk.#.ffn_gate_exps"},
                          {"block.#.ffn.expert.@.up", "blk.#.ffn_up_exps"},
                          {"block.#.ffn.expert.@.down", "blk.#.ffn_down_exps"}};

// ---- the architectures -----------------------------------------------------------------------------------

// The first row that can express the model is used.
const std::vector<Architecture>& rows() {
  const ConfigField tied = shown("output.weight", &Config::tied, true);
  const ConfigField ffn_bias = shown("blk.0.ffn_up.bias", &Config::bias);
  const ConfigField o_bias = shown("blk.0.attn_output.bias", &Config::o_bias);
  const ConfigField qkv_bias = shown("blk.0.attn_q.bias", &Config::qkv_bias);
  const ConfigField head_bias = shown("output.bias", &Config::head_bias);
  const ConfigField whole_heads = written("rope.dimension_count", &Config::head_dim);
  const ConfigField head_dim = key("attention.key_length", &Config::head_dim, std::optional(kDerived));
  const ConfigField value_dim = written("attention.value_length", &Config::head_dim);
  const ConfigField eps = key("attention.layer_norm_epsilon", &Config::norm_eps);
  const auto row = [](const char* name, bool biased, std::vector<ConfigField> fields, Modules modules) {
    return Architecture{name, name, name, biased, std::move(fields), with_common(modules)};
  };
  const ConfigField experts = key("expert_count", &Config::experts);
  const ConfigField used = key("expert_used_count", &Config::experts_per_token);
  static const std::vector<Architecture> all = {
      row("gpt2", true, common({eps, tied}), kGpt2),
      row("qwen2", false, llama_like({tied, head_bias}), concat(qkv(nullptr), kPreNorms)),
      row("qwen3", false, llama_like({tied, head_dim, value_dim, qkv_bias}),
          concat(concat(qkv(nullptr), kPreNorms), kQkNorms)),
      // OLMo 3 is olmo2 with windows.
      row("olmo2", false, llama_like({tied, windows({.absent = "3 of 4", .base = {}})}),
          concat(concat(qkv(nullptr), kOutputNorms), kQkNorms)),
      row("gemma2", false,
          llama_like({head_dim, value_dim, rotated_channels(), window(), score_scale(46),
                      cap("attn_logit_softcapping", &Config::attention_cap, 50),
                      cap("final_logit_softcapping", &Config::logit_cap, 30)}),
          concat(concat(qkv(nullptr), kPreNorms), kOutputNorms)),
      // In layers with a window, llama.cpp multiplies by rope.scaling.attn_factor without stretching.
      row("gemma3", false,
          llama_like({tied, head_dim, value_dim, rotated_channels(), score_scale(62),
                      windows({.absent = "5 of 6", .base = 10000.f}),
                      cap("final_logit_softcapping", &Config::logit_cap, 0)},
                     rope_scaling_keys(false)),
          concat(concat(concat(qkv(nullptr), kPreNorms), kOutputNorms), kQkNorms)),
      row("llama", false,
          concat(llama_like({tied, head_dim, value_dim, ffn_bias, o_bias, qkv_bias}), {rope_factors_tensor()}),
          concat(qkv(of_neighbors), kPreNorms)),
      // Mixtral is arch llama, too.
      {"llama", "llama", "mixtral", false,
       concat(llama_like({tied, head_dim, value_dim, qkv_bias, experts, used}), {rope_factors_tensor()}),
       with_common(concat(concat(qkv(of_neighbors), kPreNorms), kExperts))},
      {"qwen3moe", "qwen3moe", "qwen3-moe", false,
       llama_like({tied, head_dim, value_dim, qkv_bias, experts, used,
                   key("expert_feed_forward_length", &Config::hidden)}),
       with_common(concat(concat(concat(qkv(nullptr), kPreNorms), kQkNorms), kExperts))},
      row("olmoe", false, llama_like({tied, ungrouped(), experts, used}),
          concat(concat(concat(qkv(nullptr), kPreNorms), kQkNorms), kExperts)),
      // Its norms have no tensors.
      row("olmo", false, with_rope({eps, tied, whole_heads}), qkv(of_neighbors)),
      {"granite", "granite", "llama", false,
       concat(llama_like({tied, head_dim, value_dim, ffn_bias, o_bias, qkv_bias,
                          factor("attention.scale", &Config::attention_scale),
                          factor("embedding_scale", &Config::embedding_scale),
                          factor("residual_scale", &Config::branch_scale), logit_divisor(), never_without_rope()}),
              {rope_factors_tensor()}),
       with_common(concat(qkv(of_neighbors), kPreNorms))},
      {"smollm3", "smollm3", "llama", false, llama_like({tied, head_dim, value_dim, qkv_bias, always([](Config& c) {
                                                            c.rope_layers = "3 of 4";
                                                          })}),
       with_common(concat(qkv(of_neighbors), kPreNorms))},
      {"starcoder", "starcoder", "gpt2", true, common({eps, tied}), with_common(kGpt2)},
      {"starcoder2", "starcoder2", "gpt2", true, with_rope({eps, tied, whole_heads, always([](Config& c) {
                                                              c.position = Position::rope;
                                                            })}),
       with_common(concat(qkv(nullptr), kPreNorms))},
      row("bloom", true, common({eps, tied}),
          concat({{"embedding.norm", "token_embd_norm"}}, concat(kJoinedQkv, kPreNorms))),
      {"gptneox", "gptneox", "gpt-neox", true, with_rope({eps, tied, rotated_channels(), parallel_block()}),
       with_common(concat(kJoinedQkv, kPreNorms))},
      {"phi2", "phi2", "phi-2", true, with_rope({eps, tied, rotated_channels()}),
       with_common(concat(qkv(nullptr), kPreNorms))},
      {"stablelm", "stablelm", "llama", false,
       with_rope({eps, tied, rotated_channels(), qkv_bias, block_shown(), always([](Config& c) {
                    c.norm = NormKind::layernorm;
                    c.norm_bias = true;
                  })}),
       with_common(concat(qkv(nullptr), kPreNorms))},
      {"gemma", "gemma", "gemma2", false, llama_like({head_dim, value_dim, rotated_channels(), always(like_gemma)}),
       with_common(concat(qkv(nullptr), kPreNorms))},
      {"phi3", "phi3", "mistral", false,
       concat(llama_like({tied, rotated_channels(), ignored_window()}), {longrope_tensors()}),
       concat({{"block.#.ffn.gate", "blk.#.ffn_up"}, {"block.#.ffn.up", "blk.#.ffn_up", behind_gate}},
              with_common(concat(kJoinedQkv, kPreNorms)))},
  };
  return all;
}

// Suggests what to do with a model that no row can express.
std::string other_way(const Config& config) {
  const Architecture& row = expressed(config).architecture;
  const std::string hf = row.model_class;
  return "; llama.cpp has more architectures, and --to hf writes " +
         (row.model_type == std::string_view(kModelingType) ? "any model, with its own code"
                               : hf + ", which its convert_hf_to_gguf.py may know");
}

// Turns off what has no effect: a window without layers or of the whole context, unless RoPE has another base there,
// and stretching that begins only beyond the context.
Config without_effectless_choices(Config c) {
  if (c.window_layers == "none" || (c.window >= c.context && !c.window_rope_theta)) c.window = 0;
  if (c.rope_scaling == RopeScaling::dynamic && *c.rope_magnitude == 1) c.rope_scaling = RopeScaling::none;
  return c;
}

}  // namespace

Expressed gguf_expressed(Config config) {
  config = without_effectless_choices(config);
  const std::string kind = "architecture of llama.cpp that train_gpt writes";
  if (config.placement_row->streams != StreamRule::single) return expressed(config, rows(), kind);
  try {
    return expressed(config, rows(), kind);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(error.what() + other_way(config));
  }
}

namespace {

// The keys of a file, and what else the fields of its architecture write.
json written_fields(const Architecture& architecture, const Config& config) {
  json keys;
  for (const ConfigField& field : architecture.fields) field.write(keys, config);
  return keys;
}

}  // namespace

json gguf_keys(const Expressed& model) {
  json keys = written_fields(model.architecture, model.config);
  for (const char* no_key : {kTensors, kGains, kRopeAsGiven, kFactorAsGiven, kOpenBase}) keys.erase(no_key);
  for (const char* tensor : kRopeTensors) keys.erase(tensor);
  return keys;
}

bool needs_own_head(const Expressed& model) {
  for (const std::string_view name : {"olmo2", "olmoe", "gptneox", "phi2", "stablelm"})
    if (name == model.architecture.model_type) return true;
  return false;
}

bool may_have_rope_tensor(const Expressed& model, const std::string& name) {
  Config c = model.config;
  c.rope_scaling = name == kRopeFactors ? RopeScaling::llama3 : RopeScaling::longrope;
  return written_fields(model.architecture, c).contains(name);
}

// ---- reading ---------------------------------------------------------------------------------------------

namespace {

// Returns the keys of an architecture, without its name. A list of equal values is one value for all layers.
json keys_of(const json& file, const std::string& architecture) {
  const std::string prefix = architecture + ".";
  json keys = json::object();
  for (const auto& [name, value] : file.items()) {
    if (!name.starts_with(prefix)) continue;
    json& one = keys[name.substr(prefix.size())] = value;
    if (!value.is_array() || name.ends_with(kWindowPattern)) continue;
    const auto differs = [&list = value](const json& other) { return other != list.front(); };
    if (value.empty() || std::any_of(value.begin(), value.end(), differs))
      throw std::runtime_error(in_quotes(name) + " differs between layers, and train_gpt has one value for all");
    one = value.front();
  }
  return keys;
}

// Llama and Mixtral are one architecture for llama.cpp. Their tensors tell them apart.
const Architecture& row_of(const std::string& name, const std::set<std::string>& tensors) {
  const bool mixture = tensors.contains("blk.0.ffn_gate_inp.weight");
  std::set<std::string> known;
  for (const Architecture& row : rows()) {
    known.insert(row.model_type);
    if (name == row.model_type && mixture == (preset_config(row.preset, "nano").experts > 0)) return row;
  }
  std::string list;
  for (const std::string& one : known) list += " " + one;
  throw std::runtime_error("general.architecture is " + in_quotes(name) + (mixture ? " with experts" : "") +
                           ", and train_gpt reads" + list);
}

// Keys that a file may have besides those that we write, with the only values that we compute. Null: the key changes
// nothing.
json other_keys(const Config& c) {
  return {{"attention.key_length", c.head_dim},
          {"attention.value_length", c.head_dim},
          {"attention.causal", true},
          {"attention.sliding_window", c.window},
          {"expert_count", c.experts},
          {"expert_used_count", c.experts > 0 ? c.experts_per_token : 0},
          {"expert_feed_forward_length", c.hidden},
          {"expert_shared_count", 0},
          {"pooling_type", 0},
          {"rope.dimension_count", c.rope_dims()},
          {"rope.freq_base_swa", c.window > 0 ? json(c.window_rope_theta.value_or(c.rope_theta)) : json()},
          {"rope.scaling.attn_factor", 1.},
          {"rope.scaling.finetuned", nullptr},
          // llama.cpp ignores these in the architectures above, so they must say what it computes.
          {"rope.scaling.yarn_attn_factor", static_cast<float>(c.rope_magnitude.value_or(1))},
          {"rope.scaling.yarn_beta_fast", 32.},
          {"rope.scaling.yarn_beta_slow", 1.},
          {"rope.scaling.yarn_ext_factor", 1.},
          {"rope.scaling.yarn_log_multiplier", 0.},
          {"tensor_data_layout", nullptr},
          {"use_parallel_residual", nullptr}};
}

std::string shown_value(const json& value) {
  return value.is_string() ? in_quotes(value.get<std::string>()) : to_text(value);
}

// True if llama.cpp reads which layers have a window. Otherwise a file may not say it.
bool reads_window_pattern(const Expressed& model) {
  Config c = model.config;
  c.window = 1;
  c.window_layers = "none";
  return written_fields(model.architecture, c).contains(kWindowPattern);
}

// Throws unless the keys say what we would write for this model.
void require_known(const json& keys, const Expressed& model) {
  json expected = other_keys(model.config);
  expected.update(gguf_keys(model));
  for (const char* name : kRopeScalingKeys) expected[name] = nullptr;  // what they say is in the Config
  if (reads_window_pattern(model)) expected[kWindowPattern] = nullptr;
  // In Qwen3 MoE it is the width of layers without experts, which the published models lack.
  if (std::string_view(model.architecture.model_type) == "qwen3moe") expected["feed_forward_length"] = nullptr;
  for (const auto& [name, value] : keys.items()) {
    if (!expected.contains(name))
      throw std::runtime_error(in_quotes(name) + " is a key that train_gpt does not know, and it may change what the "
                                                 "model computes");
    if (const json& one = expected.at(name); !one.is_null() && one != value)
      throw std::runtime_error(name + " is " + shown_value(value) + "; train_gpt has " + shown_value(one) +
                               " only, with the other keys as they are");
  }
}

}  // namespace

Expressed expressed_by_gguf(const json& file, const std::set<std::string>& tensors,
                            const std::map<std::string, std::vector<float>>& rope_tensors) {
  const json name = file.value("general.architecture", json());
  if (!name.is_string()) throw std::runtime_error("general.architecture is missing");
  json keys = keys_of(file, name.get<std::string>());
  const Architecture& row = row_of(name.get<std::string>(), tensors);
  json marked = keys;
  marked[kTensors] = json::object();
  for (const std::string& tensor : tensors) marked[kTensors][tensor] = true;
  for (const auto& [tensor, numbers] : rope_tensors)
    for (const float number : numbers) marked[tensor].push_back(shortest(number));
  const Expressed model{row, config_of(row, marked), ""};
  require_known(keys, model);
  return model;
}
