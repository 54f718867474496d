#include "gguf_architectures.hpp"

#include <cmath>
#include <stdexcept>
#include <string_view>

#include "data/formats/huggingface/modeling.hpp"
#include "layers/config/placements.hpp"

using nlohmann::json;

namespace {

// ---- keys ------------------------------------------------------------------------------------------------

// A key that holds a member of Config.
template <class T>
ConfigField key(const char* name, T Config::*member) {
  return {[=](Config& c, const json& keys) { c.*member = keys.at(name); },
          [=](json& keys, const Config& c) { keys[name] = c.*member; }};
}

// A key that repeats another key. It is written and not read.
ConfigField written(const char* name, int Config::*member) {
  return {[](Config&, const json&) {}, [=](json& keys, const Config& c) { keys[name] = c.*member; }};
}

// A choice that has no key: the file's tensors show it.
constexpr const char* kShown = "shown by tensors";
template <class T>
ConfigField shown(const char* name, T Config::*member) {
  return {[=](Config& c, const json& keys) { c.*member = keys.at(kShown).at(name).template get<bool>(); },
          [=](json& keys, const Config& c) { keys[kShown][name] = std::optional<bool>(c.*member).value(); }};
}

// The number of channels of a head that RoPE rotates.
ConfigField rotated_channels() {
  constexpr const char* kKey = "rope.dimension_count";
  return {[=](Config& c, const json& keys) { c.rope_fraction = keys.at(kKey).get<float>() / c.head_dim; },
          [=](json& keys, const Config& c) { keys[kKey] = c.rope_dims(); }};
}

// In llama.cpp, Gemma 2 always has a window. A window as long as the context has no effect.
ConfigField window() {
  constexpr const char* kKey = "attention.sliding_window";
  return {[=](Config& c, const json& keys) { c.window = keys.at(kKey) < c.context ? keys.at(kKey).get<int>() : 0; },
          [=](json& keys, const Config& c) { keys[kKey] = c.window > 0 ? c.window : c.context; }};
}

// In llama.cpp, Gemma 2 always has caps. A missing key reads as `standard`, so a model without caps is not taken for
// Gemma 2.
ConfigField cap(const char* name, float Config::*member, float standard) {
  return {[=](Config& c, const json& keys) { c.*member = keys.contains(name) ? keys.at(name).get<float>() : standard; },
          [=](json& keys, const Config& c) {
            if (c.*member > 0) keys[name] = c.*member;
          }};
}

// llama.cpp derives the scale of Gemma 2's scores from the number of layers: the 27B model has 46.
ConfigField score_scale() {
  return {[](Config& c, const json&) {
            if (c.n_layer == 46) c.attention_scale = 1 / std::sqrt(static_cast<double>(c.channels / c.n_head));
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

// The file holds the gains that llama.cpp multiplies by, so a gain with an offset is stored as 1 + w.
std::vector<ConfigField> common(const std::vector<ConfigField>& more) {
  return concat({key("block_count", &Config::n_layer), key("context_length", &Config::context),
                 key("embedding_length", &Config::channels), key("feed_forward_length", &Config::hidden),
                 key("attention.head_count", &Config::n_head), key("attention.head_count_kv", &Config::kv_heads),
                 key("vocab_size", &Config::vocab_size), shown("gain", &Config::norm_unit_offset)},
                more);
}

// Keys of models with RMSNorm and RoPE. Heads are C/H wide unless `more` says otherwise.
std::vector<ConfigField> llama_like(const std::vector<ConfigField>& more) {
  return common(concat({key("attention.layer_norm_rms_epsilon", &Config::norm_eps),
                        key("rope.freq_base", &Config::rope_theta), written("rope.dimension_count", &Config::head_dim)},
                       more));
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

const Modules kGpt2 = {{"embedding.position", "position_embd"},
                       {"block.#.attention.q", "blk.#.attn_qkv"},
                       {"block.#.attention.k", "blk.#.attn_qkv", behind_q},
                       {"block.#.attention.v", "blk.#.attn_qkv", behind_k}};

// llama.cpp stores the matrices of all experts as one tensor.
const Modules kExperts = {{"block.#.ffn.router", "blk.#.ffn_gate_inp"},
                          {"block.#.ffn.expert.@.gate", "blk.#.ffn_gate_exps"},
                          {"block.#.ffn.expert.@.up", "blk.#.ffn_up_exps"},
                          {"block.#.ffn.expert.@.down", "blk.#.ffn_down_exps"}};

// ---- the architectures -----------------------------------------------------------------------------------

// The first row that can express the model is used.
const std::vector<Architecture>& rows() {
  const ConfigField tied = shown("output", &Config::tied), any_bias = shown("bias", &Config::bias);
  const ConfigField qkv_bias = shown("qkv bias", &Config::qkv_bias), head_bias = shown("head", &Config::head_bias);
  const ConfigField head_dim = key("attention.key_length", &Config::head_dim);
  const ConfigField value_dim = written("attention.value_length", &Config::head_dim);
  const ConfigField eps = key("attention.layer_norm_epsilon", &Config::norm_eps);
  const auto row = [](const char* name, bool biased, std::vector<ConfigField> fields, Modules modules) {
    return Architecture{name, name, name, biased, std::move(fields), with_common(modules)};
  };
  const ConfigField experts = key("expert_count", &Config::experts);
  const ConfigField used = key("expert_used_count", &Config::experts_per_token);
  static const std::vector<Architecture> all = {
      row("gpt2", true, common({eps, tied}), concat(kGpt2, kPreNorms)),
      row("qwen2", false, llama_like({tied, head_bias}), concat(qkv(nullptr), kPreNorms)),
      row("qwen3", false, llama_like({tied, head_dim, value_dim, qkv_bias}),
          concat(concat(qkv(nullptr), kPreNorms), kQkNorms)),
      row("olmo2", false, llama_like({tied}), concat(concat(qkv(nullptr), kOutputNorms), kQkNorms)),
      row("gemma2", false,
          llama_like({head_dim, value_dim, rotated_channels(), window(), score_scale(),
                      cap("attn_logit_softcapping", &Config::attention_cap, 50),
                      cap("final_logit_softcapping", &Config::logit_cap, 30)}),
          concat(concat(qkv(nullptr), kPreNorms), kOutputNorms)),
      row("llama", false, llama_like({tied, head_dim, value_dim, any_bias, qkv_bias}),
          concat(qkv(of_neighbors), kPreNorms)),
      // Mixtral is arch llama, too.
      {"llama", "llama", "mixtral", false,
       llama_like({tied, head_dim, value_dim, qkv_bias, experts, used}),
       with_common(concat(concat(qkv(of_neighbors), kPreNorms), kExperts))},
      {"qwen3moe", "qwen3moe", "qwen3-moe", false,
       llama_like({tied, head_dim, value_dim, qkv_bias, experts, used,
                   written("expert_feed_forward_length", &Config::hidden)}),
       with_common(concat(concat(concat(qkv(nullptr), kPreNorms), kQkNorms), kExperts))},
      row("olmoe", false, llama_like({tied, ungrouped(), experts, used}),
          concat(concat(concat(qkv(nullptr), kPreNorms), kQkNorms), kExperts)),
  };
  return all;
}

// Suggests what to do with a model that no row can express.
std::string other_way(const Config& config) {
  const std::string hf = expressed(config).architecture.model_class;
  return "; llama.cpp has more architectures, and --to hf writes " +
         (hf == kModelingClass ? "any model, with its own code"
                               : hf + ", which its convert_hf_to_gguf.py may know");
}

}  // namespace

Expressed gguf_expressed(Config config) {
  if (config.window >= config.context) config.window = 0;  // a window of the whole context has no effect
  const std::string kind = "architecture of llama.cpp that train_gpt writes";
  if (config.placement_row->streams != StreamRule::single) return expressed(config, rows(), kind);
  try {
    return expressed(config, rows(), kind);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(error.what() + other_way(config));
  }
}

json gguf_keys(const Expressed& model) {
  json keys;
  for (const ConfigField& field : model.architecture.fields) field.write(keys, model.config);
  keys.erase(kShown);
  return keys;
}

bool needs_own_head(const Expressed& model) {
  return std::string_view(model.architecture.model_type).starts_with("olmo");
}
