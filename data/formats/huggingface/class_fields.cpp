#include "class_fields.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "class_modules.hpp"
#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "layer_fields.hpp"
#include "rope_fields.hpp"

using nlohmann::json;

namespace {

constexpr const char* kObjective = "train_gpt_objective";

bool flag_value(const json& file, const char* key, bool absent) {
  if (!file.contains(key)) return absent;
  if (!file.at(key).is_boolean()) refuse_key(key, "is not true or false");
  return file.at(key);
}

// In the fields below, `absent` is what the class takes if config.json lacks the key.

// A whole number. Without `absent`, the key is required.
ConfigField size(const ConfigKey& key, int Config::*member, std::optional<int> absent = std::nullopt) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            if (value.is_null() && (!absent || has_key(file, key))) refuse_key(key.name, "is missing");
            c.*member = value.is_null() ? *absent : whole_value(key.name, value);
          },
          [=](json& file, const Config& c) { file[key.name] = c.*member; }};
}

// A size. If it is null, resolve() derives it from others.
ConfigField optional_size(const char* key, int Config::*member, int absent = 0) {
  return {[=](Config& c, const json& file) {
            c.*member = absent;
            if (file.contains(key)) c.*member = file.at(key).is_null() ? 0 : whole_value(key, file.at(key));
          },
          [=](json& file, const Config& c) { file[key] = c.*member; }};
}

// A number that is null if the feature is off; ours is 0 then.
template <class T>
ConfigField optional_number(const char* key, T Config::*member, T absent = 0) {
  return {[=](Config& c, const json& file) {
            c.*member = file.contains(key) ? 0 : absent;
            if (!value_at(file, key).is_null()) set_member(c.*member, key, file.at(key));
          },
          [=](json& file, const Config& c) { file[key] = c.*member == 0 ? json() : json(c.*member); }};
}

// A number that is written for other programs and not read.
ConfigField written(const char* key, int Config::*member) {
  return {[](Config&, const json&) {}, [=](json& file, const Config& c) { file[key] = c.*member; }};
}

// A factor that a model always has.
ConfigField factor(const char* key, std::optional<double> Config::*member, double absent) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            c.*member = static_cast<float>(value.is_null() ? absent : number_value(key, value));
          },
          [=](json& file, const Config& c) { file[key] = shortest(static_cast<float>(*(c.*member))); }};
}

// What the logits are divided by.
ConfigField logits_scaling() {
  constexpr const char* kKey = "logits_scaling";
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, kKey);
            const double divisor = value.is_null() ? 1 : number_value(kKey, value);
            if (divisor <= 0) refuse_key(kKey, "is not positive");
            c.logit_scale = static_cast<float>(1 / divisor);
          },
          [=](json& file, const Config& c) {
            const double exact = 1 / *c.logit_scale, near = shortest(static_cast<float>(exact));
            file[kKey] = static_cast<float>(1 / near) == static_cast<float>(*c.logit_scale) ? near : exact;
          }};
}

// How many channels of a head RoPE rotates.
ConfigField rotary_dim() {
  constexpr const char* kKey = "rotary_dim";
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, kKey);
            const int rotated = file.contains(kKey) ? value.is_null() ? 0 : whole_value(kKey, value) : 64;
            const int D = c.n_head > 0 ? c.channels / c.n_head : 0;
            if (rotated < 2 || rotated % 2 != 0 || rotated > D)
              refuse_key(kKey, "is not an even number from 2 to " + std::to_string(D) + ", the size of a head");
            c.rope_fraction = static_cast<float>(rotated) / static_cast<float>(D);
          },
          [=](json& file, const Config& c) { file[kKey] = c.rope_dims(); }};
}

ConfigField epsilon(const char* key, double absent) {
  return {[=](Config& c, const json& file) {
            c.norm_eps = static_cast<float>(file.contains(key) ? number_value(key, file.at(key)) : absent);
          },
          [=](json& file, const Config& c) { file[key] = shortest(c.norm_eps); }};
}

ConfigField tied(bool absent) {
  constexpr const char* kKey = "tie_word_embeddings";
  return {[=](Config& c, const json& file) {
            c.tied = flag_value(file, kKey, absent);
          },
          [=](json& file, const Config& c) { file[kKey] = c.tied; }};
}

// A key that must have the only value that our layers support, or be absent. Null counts, too, if Python takes both for
// false. `same` is another value that the class takes for it.
ConfigField fixed(const char* key, const json& only, const json& same = json()) {
  return {[=](Config&, const json& file) {
            const json value = value_at(file, key);
            const bool off = only.empty() || only == false;
            if (file.contains(key) && value != only && !(value.is_null() ? off : value == same))
              refuse_key(key, "is " + for_terminal(to_text(value)) + "; train_gpt has " + to_text(only) + " only");
          },
          [=](json& file, const Config&) { file[key] = only; }};
}

struct ActivationName {
  const char* theirs;
  Activation ours;
};

// Names in transformers' ACT2FN. An activation is written with its first name.
const std::vector<ActivationName> kActivationNames = {
    {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}, {"gelu", Activation::gelu}, {"relu", Activation::relu},
    {"silu", Activation::silu}, {"swish", Activation::silu}};
// The names in openai-gpt, where "gelu" is the tanh form.
const std::vector<ActivationName> kGpt1Activations = {
    {"gelu", Activation::gelu_tanh}, {"relu", Activation::relu}, {"silu", Activation::silu},
    {"swish", Activation::silu}};

ConfigField activation(const char* key, const char* absent,
                       const std::vector<ActivationName>& names = kActivationNames) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const auto name = std::find_if(names.begin(), names.end(), [&](const ActivationName& n) {
              return file.contains(key) ? value == n.theirs : std::string_view(n.theirs) == absent;
            });
            if (name == names.end()) refuse_key(key, "is " + for_terminal(to_text(value)) + ", which train_gpt lacks");
            c.activation = name->ours;
          },
          [=](json& file, const Config& c) {
            for (const ActivationName& n : names)
              if (n.ours == c.activation && !file.contains(key)) file[key] = n.theirs;
          }};
}

// Gemma scales scores by query_pre_attn_scalar^-½, where that scalar is a whole number. Attention uses the scale as a
// float.
ConfigField score_scale() {
  constexpr const char* kKey = "query_pre_attn_scalar";
  return {[=](Config& c, const json& file) {
            const double scalar = file.contains(kKey) ? number_value(kKey, file.at(kKey)) : 256;
            if (scalar <= 0) refuse_key(kKey, "is not positive");
            c.attention_scale = 1 / std::sqrt(static_cast<float>(scalar));
          },
          [=](json& file, const Config& c) {
            file[kKey] = std::llround(1 / (*c.attention_scale * *c.attention_scale));
          }};
}

// A choice between two wirings.
ConfigField choice(const char* key, bool absent, void (*set)(Config&, bool), bool (*get)(const Config&)) {
  return {[=](Config& c, const json& file) {
            set(c, flag_value(file, key, absent));
          },
          [=](json& file, const Config& c) { file[key] = get(c); }};
}

// A key that few files have, and that must have this value then. It is not written.
ConfigField unless(const char* key, const json& only) { return {fixed(key, only).read, [](json&, const Config&) {}}; }

// One of these keys must be there.
ConfigField required(const char* key, const char* other) {
  return {[=](Config&, const json& file) {
            if (value_at(file, {key, other}).is_null()) refuse_key(key, "is missing");
          },
          [](json&, const Config&) {}};
}

// A property of the class that config.json does not state.
ConfigField always(void (*set)(Config&)) {
  return {[=](Config& c, const json&) { set(c); }, [](json&, const Config&) {}};
}

ConfigFields concat(ConfigFields a, const ConfigFields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The sizes by the names in GPT-1 and GPT-2.
ConfigFields gpt_sizes(const ConfigFields& more) {
  return concat({size({"n_layer", "num_hidden_layers"}, &Config::n_layer),
                 size({"n_head", "num_attention_heads"}, &Config::n_head),
                 size({"n_embd", "hidden_size"}, &Config::channels),
                 size({"n_positions", "max_position_embeddings"}, &Config::context),
                 size("vocab_size", &Config::vocab_size)},
                more);
}

// The sizes by their usual names.
ConfigFields usual_fields(const ConfigFields& more, const ConfigKey& channels = "hidden_size") {
  return concat({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 size(channels, &Config::channels), size("vocab_size", &Config::vocab_size)},
                more);
}

const ConfigField kFourfold = always([](Config& c) { c.hidden = 4 * c.channels; });

ConfigField qkv_bias(const char* key, bool absent) {
  return choice(key, absent, [](Config& c, bool has) { c.qkv_bias = has; },
                [](const Config& c) { return *c.qkv_bias; });
}

// The biases of q, k, v and o.
ConfigField attention_bias(bool absent) {
  constexpr const char* kKey = "attention_bias";
  return {[=](Config& c, const json& file) {
            const bool null = file.contains(kKey) && file.at(kKey).is_null();
            c.qkv_bias = c.o_bias = !null && flag_value(file, kKey, absent);
          },
          [=](json& file, const Config& c) { file[kKey] = *c.qkv_bias; }};
}
const ConfigField kAttentionBias = attention_bias(false);

const ConfigField kSilu = fixed("hidden_act", "silu");
const ConfigField kNoWindow = fixed("use_sliding_window", false);

ConfigField window(int absent = 0) { return optional_number("sliding_window", &Config::window, absent); }

// The number of key and value heads. It is the number of query heads unless the class says otherwise.
ConfigField kv_heads(int absent = 0) { return optional_size("num_key_value_heads", &Config::kv_heads, absent); }

const ConfigField kHeadDim = optional_size("head_dim", &Config::head_dim);

// The values that relatives of Llama use for keys that config.json lacks.
struct Absent {
  bool tied = false;
  double eps = 1e-6;
  float theta = 10000;
  int kv_heads = 0, head_dim = 0;  // 0: derived from the other sizes
  bool partial_rope = false;       // partial_rope() follows
};

// The fields of Llama and its relatives, without RoPE.
ConfigFields like_llama_but_rope(const ConfigFields& more, const Absent& absent = {}) {
  return concat({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 kv_heads(absent.kv_heads), optional_size("head_dim", &Config::head_dim, absent.head_dim),
                 size("hidden_size", &Config::channels), size("intermediate_size", &Config::hidden),
                 size("max_position_embeddings", &Config::context), size("vocab_size", &Config::vocab_size),
                 epsilon("rms_norm_eps", absent.eps), tied(absent.tied)},
                more);
}

ConfigFields like_llama(const ConfigFields& more, const Absent& absent = {}) {
  return like_llama_but_rope(concat({rope(absent.theta, absent.partial_rope)}, more), absent);
}

// The number of experts, under either of its names; transformers 5 reads both. Llama's own fields have no experts.
ConfigFields expert_fields(const ConfigKey& key, int fallback, int fallback_per_token, const ConfigFields& more) {
  const ConfigField experts = size(key, &Config::experts, fallback);
  const auto write = [=](json& file, const Config& c) {
    if (c.experts == 0) refuse_key(key.name, "is 0");
    experts.write(file, c);
  };
  return concat({{experts.read, write}, size("num_experts_per_tok", &Config::experts_per_token, fallback_per_token)},
                more);
}

ConfigField renormalize() {
  return choice("norm_topk_prob", false, [](Config& c, bool on) { c.router_renormalize = on; },
                [](const Config& c) { return c.router_renormalize; });
}

ConfigFields falcon_fields(const ConfigFields& more) {
  return concat(usual_fields({optional_size("ffn_hidden_size", &Config::hidden),
                              size("max_position_embeddings", &Config::context, 2048),
                              epsilon("layer_norm_epsilon", 1e-5), activation("activation", "gelu"), rope(),
                              tied(true), fixed("alibi", false), fixed("bias", false), fixed("parallel_attn", true)},
                             {"hidden_size", "n_embed"}),
                more);
}

ConfigFields cohere_fields(float theta, const ConfigFields& more) {
  return usual_fields(concat({size("intermediate_size", &Config::hidden),
                              size("max_position_embeddings", &Config::context), kv_heads(), kHeadDim,
                              epsilon("layer_norm_eps", 1e-5), rope(theta), tied(true), kSilu, kAttentionBias,
                              factor("logit_scale", &Config::logit_scale, .0625), always([](Config& c) {
                                c.norm = NormKind::layernorm;
                                c.norm_bias = false;
                                c.block = BlockForm::parallel_shared;
                              })},
                             more));
}

// CodeGen's joined matrix of q, v and k has four equal parts.
ConfigField whole_parts() {
  const auto require = [](const Config& c) {
    if (c.channels % kCodegenParts != 0) refuse_key("n_embd", "is not a multiple of 4");
  };
  return {[=](Config& c, const json&) { require(c); }, [=](json&, const Config& c) { require(c); }};
}

// GPT-J and CodeGen: biases in the feed-forward layer and the classifier only.
ConfigFields gptj_fields(const ConfigFields& more) {
  return gpt_sizes(concat({optional_size("n_inner", &Config::hidden), epsilon("layer_norm_epsilon", 1e-5),
                           activation("activation_function", "gelu_new"), rotary_dim(), tied(false),
                           always([](Config& c) { c.qkv_bias = c.o_bias = false; })},
                          more));
}

// RoBERTa numbers positions from 2 on, because 1 is the position of the padding.
ConfigField context_behind_two() {
  constexpr const char* kKey = "max_position_embeddings";
  return {[=](Config& c, const json& file) {
            size(kKey, &Config::context).read(c, file);
            c.context -= 2;
            if (c.context < 1) refuse_key(kKey, "is less than 3");
          },
          [=](json& file, const Config& c) { file[kKey] = c.context + 2; }};
}

ConfigFields bert_fields(const ConfigFields& more) {
  return usual_fields(concat({size("intermediate_size", &Config::hidden),
                              size("type_vocab_size", &Config::token_types, 2), epsilon("layer_norm_eps", 1e-12),
                              fixed("tie_word_embeddings", true), fixed("position_embedding_type", "absolute"),
                              fixed("is_decoder", false), fixed("add_cross_attention", false)},
                             more));
}

// The feed-forward layer of T5. transformers derives two keys from its name, and stores them: they hold if they are
// there.
ConfigField feed_forward_proj(const char* absent) {
  constexpr const char *kName = "feed_forward_proj", *kDense = "dense_act_fn", *kGated = "is_gated_act";
  const std::string prefix = "gated-";
  static const std::map<Activation, Activation> kGates = {
      {Activation::gelu, Activation::geglu}, {Activation::gelu_tanh, Activation::geglu_tanh},
      {Activation::silu, Activation::swiglu}};
  const auto refuse = [](const char* key, const json& value) {
    refuse_key(key, "is " + for_terminal(to_text(value)) + ", which train_gpt lacks");
  };
  return {[=](Config& c, const json& file) {
            const json name = file.value(kName, json(absent));
            if (!name.is_string()) refuse(kName, name);
            const auto text = name.get<std::string>();
            const bool gated = flag_value(file, kGated, text.starts_with(prefix));
            const std::string inner = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
            const json usual = text == "gated-gelu" ? "gelu_new" : inner;
            const auto dense = std::ranges::find(kActivationNames, file.value(kDense, usual), &ActivationName::theirs);
            if (dense == kActivationNames.end())
              refuse(file.contains(kDense) ? kDense : kName, file.value(kDense, name));
            const auto gate = kGates.find(dense->ours);
            if (gated && gate == kGates.end()) refuse(kName, name);
            c.activation = gated ? gate->second : dense->ours;
          },
          [=](json& file, const Config& c) {
            const auto is_inner = [&](const ActivationName& row) {
              return row.ours == c.activation || (kGates.contains(row.ours) && kGates.at(row.ours) == c.activation);
            };
            const auto dense = std::ranges::find_if(kActivationNames, is_inner);
            if (dense == kActivationNames.end()) return;
            const std::string name = dense->theirs;
            file[kName] = c.gated() ? prefix + (name == "gelu_new" ? "gelu" : name) : name;
            file[kDense] = name;
            file[kGated] = c.gated();
          }};
}

// Whether T5 multiplies its logits by C^-1/2. Published files of T5 1.1 say it by tie_word_embeddings.
ConfigField scaled_outputs() {
  constexpr const char* kKey = "scale_decoder_outputs";
  return {[=](Config& c, const json& file) {
            const bool scaled = flag_value(file, kKey, flag_value(file, "tie_word_embeddings", true));
            c.root_logit_scale = scaled;
          },
          [=](json& file, const Config& c) { file[kKey] = *c.logit_scale != 1; }};
}

// The number of a decoder's layers. The encoder's, which it is if it is open, comes first.
ConfigField decoder_layers(const char* key) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            c.n_layer = value.is_null() ? c.encoder_layers : whole_value(key, value);
          },
          [=](json& file, const Config& c) { file[key] = c.n_layer; }};
}

// What a model of sources and targets was trained on: another program reads pairs.
const ConfigField kSpans = {[](Config& c, const json& file) {
                              c.objective = file.value(kObjective, json()) == "span" ? Objective::span
                                                                                     : Objective::pairs;
                            },
                            [](json& file, const Config& c) {
                              if (c.objective == Objective::span) file[kObjective] = "span";
                            }};

// The values that T5 and mT5 use for keys that config.json lacks.
struct AbsentT5 {
  int layers, heads, hidden, vocabulary;
  const char* feed_forward;
};

ConfigFields t5_fields(const AbsentT5& absent, const ConfigFields& more) {
  return concat({size({"num_layers", "num_hidden_layers"}, &Config::encoder_layers, absent.layers),
                 decoder_layers("num_decoder_layers"),
                 size({"num_heads", "num_attention_heads"}, &Config::n_head, absent.heads),
                 size({"d_model", "hidden_size"}, &Config::channels, 512),
                 size({"d_kv", "head_dim"}, &Config::head_dim, 64), size("d_ff", &Config::hidden, absent.hidden),
                 size("n_positions", &Config::context, 512),  // which no layer of the class reads
                 size("vocab_size", &Config::vocab_size, absent.vocabulary),
                 size("relative_attention_num_buckets", &Config::relative_buckets, 32),
                 size("relative_attention_max_distance", &Config::relative_distance, 128),
                 epsilon("layer_norm_epsilon", 1e-6), feed_forward_proj(absent.feed_forward), tied(true),
                 fixed("is_encoder_decoder", true), kSpans},
                more);
}

// A size that another one must be equal to. nullopt: that is its value if it is open, too.
ConfigField same_size(const char* key, int Config::*member, std::optional<int> absent = std::nullopt) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const int number = value.is_null() ? absent.value_or(c.*member) : whole_value(key, value);
            if (number != c.*member)
              refuse_key(key, "is " + std::to_string(number) + "; train_gpt has " + std::to_string(c.*member) +
                                  " in both stacks only");
          },
          [=](json& file, const Config& c) { file[key] = c.*member; }};
}

// A token that every text ends with, which our models choose themselves.
const ConfigField kForcedEnd = {[](Config&, const json&) {},
                                [](json& file, const Config&) { file["forced_eos_token_id"] = nullptr; }};

// BART and its relatives, whose modules have the names of fairseq. Their norms' eps is in their code.
ConfigFields bart_fields(int vocabulary, const ConfigFields& more) {
  return concat({size({"encoder_layers", "num_hidden_layers"}, &Config::encoder_layers, 12),
                 size("decoder_layers", &Config::n_layer, 12),
                 size({"encoder_attention_heads", "num_attention_heads"}, &Config::n_head, 16),
                 same_size("decoder_attention_heads", &Config::n_head, 16),
                 size({"d_model", "hidden_size"}, &Config::channels, 1024),
                 size("encoder_ffn_dim", &Config::hidden, 4096), same_size("decoder_ffn_dim", &Config::hidden, 4096),
                 size("max_position_embeddings", &Config::context, 1024),
                 size("vocab_size", &Config::vocab_size, vocabulary), activation("activation_function", "gelu"),
                 choice("scale_embedding", false, [](Config& c, bool scaled) { c.root_embedding_scale = scaled; },
                        [](const Config& c) { return *c.embedding_scale != 1; }),
                 fixed("tie_word_embeddings", true), fixed("is_encoder_decoder", true), kForcedEnd, kSpans,
                 always([](Config& c) {
                   c.head_bias = true;
                   c.label_smoothing = 0;
                 })},
                more);
}

const ConfigField kPreLn = always([](Config& c) { c.placement = "pre"; });
const ConfigField kLearned = always([](Config& c) {
  c.position = Position::learned;
  c.embedding_norm = true;
});

}  // namespace

void like_gemma(Config& c) {
  c.placement = "pre";
  c.window = 0;
  c.window_layers = "all";
  c.attention_cap = c.logit_cap = 0;
}

// ---- the classes -----------------------------------------------------------------------------------------

const ConfigFields kCausalFields = {unless("is_causal", true), unless("use_bidirectional_attention", false)};

const ConfigFields kLlamaFields = like_llama({kSilu, kAttentionBias, fixed("mlp_bias", false)});

const ConfigFields kMistralFields = like_llama({kSilu, window(4096)}, {.kv_heads = 8});

const ConfigFields kQwen2Fields = like_llama({kSilu, kNoWindow, full_layers()}, {.kv_heads = 32});

const ConfigFields kQwen3Fields =
    like_llama({kSilu, kAttentionBias, kNoWindow, full_layers()}, {.kv_heads = 32, .head_dim = 128});

const ConfigFields kMixtralFields =
    like_llama(expert_fields({"num_local_experts", "num_experts"}, 8, 2, {kSilu, window()}),
               {.eps = 1e-5, .theta = 1e6f, .kv_heads = 8});

// intermediate_size belongs to layers without experts, which train_gpt does not have.
const ConfigFields kQwen3MoeFields =
    like_llama(expert_fields({"num_experts", "num_local_experts"}, 128, 8,
                             {kSilu, kAttentionBias, kNoWindow, renormalize(),
                              size("moe_intermediate_size", &Config::hidden, 768), fixed("decoder_sparse_step", 1),
                              fixed("mlp_only_layers", json::array())}),
               {.kv_heads = 4});

// Without rope_parameters, the class would stretch RoPE.
const ConfigFields kGptOssFields =
    like_llama(expert_fields({"num_local_experts", "num_experts"}, 128, 4,
                             {kSilu, attention_bias(true), window(128), layer_types("1 of 2"),
                              required("rope_parameters", "rope_scaling"), fixed("swiglu_alpha", 1.702),
                              fixed("swiglu_limit", 7.)}),
               {.eps = 1e-5, .theta = 150000, .kv_heads = 8, .head_dim = 64});

const ConfigFields kOlmoeFields =
    like_llama(expert_fields({"num_experts", "num_local_experts"}, 64, 8,
                             {kSilu, kAttentionBias, renormalize(), fixed("clip_qkv", nullptr)}),
               {.eps = 1e-5});

const ConfigFields kOlmo2Fields = like_llama({kSilu, kAttentionBias}, {.eps = 1e-5});

const ConfigFields kOlmo3Fields =
    like_llama_but_rope({rope_by_window(500000, 500000), kSilu, kAttentionBias, window(4096), layer_types("3 of 4")},
                        {.eps = 1e-5});

// The class has its norms' eps in its code.
const ConfigFields kOlmoFields = like_llama({kSilu, kAttentionBias, fixed("clip_qkv", nullptr), always([](Config& c) {
                                               c.norm = NormKind::layernorm;
                                               c.norm_gain = false;
                                               c.norm_bias = false;
                                               c.norm_eps = 1e-5f;
                                             })});

const ConfigFields kGraniteFields =
    like_llama({kSilu, kAttentionBias, fixed("mlp_bias", false),
                factor("embedding_multiplier", &Config::embedding_scale, 1),
                factor("attention_multiplier", &Config::attention_scale, 1),
                factor("residual_multiplier", &Config::branch_scale, 1), logits_scaling()});

const ConfigFields kCohereFields = cohere_fields(500000, {fixed("use_qk_norm", false)});

// Layers with a window have RoPE, and the others no position.
const ConfigFields kCohere2Fields =
    cohere_fields(10000, {window(4096), layer_types("3 of 4", "sliding_window_pattern"),
                          always([](Config& c) { c.rope_layers = c.window > 0 ? c.window_layers : "none"; })});

const ConfigFields kNanochatFields =
    usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                  kv_heads(), kHeadDim, epsilon("rms_norm_eps", 1e-6), rope(), tied(false), kAttentionBias,
                  fixed("hidden_act", "relu2"),
                  optional_number("final_logit_softcapping", &Config::logit_cap, 15.f), always([](Config& c) {
                    c.activation = Activation::relu2;
                    c.qk_norm = QkNormKind::head;
                    c.norm_gain = false;
                    c.embedding_norm = true;
                  })});

const ConfigFields kSmollm3Fields =
    like_llama({kSilu, kAttentionBias, fixed("mlp_bias", false), kNoWindow, full_layers(), no_rope_layers()},
               {.tied = true, .theta = 2e6f, .kv_heads = 4});

const ConfigFields kPhi3Fields = like_llama({kSilu, partial_rope(1), window()}, {.eps = 1e-5, .partial_rope = true});

const ConfigFields kGlmFields =
    like_llama({kSilu, partial_rope(.5f), qkv_bias("attention_bias", true)},
               {.eps = 1.5625e-7, .kv_heads = 2, .head_dim = 128, .partial_rope = true});

const ConfigFields kGlm4Fields =
    concat(kGlmFields, {always([](Config& c) { c.placement = "sandwich"; })});

const ConfigFields kGemma2Fields =
    like_llama({fixed("hidden_activation", "gelu_pytorch_tanh"), kAttentionBias, score_scale(), window(4096),
                layer_types("1 of 2"), optional_number("attn_logit_softcapping", &Config::attention_cap, 50.f),
                optional_number("final_logit_softcapping", &Config::logit_cap, 30.f)},
               {.tied = true, .kv_heads = 4, .head_dim = 256});

const ConfigFields kGemma3Fields = like_llama_but_rope(
    {rope_by_window(1e6f, 1e4f, "rope_local_base_freq"), fixed("hidden_activation", "gelu_pytorch_tanh"),
     kAttentionBias, score_scale(), window(4096), layer_types("5 of 6", "sliding_window_pattern"),
     optional_number("attn_logit_softcapping", &Config::attention_cap, 0.f),
     optional_number("final_logit_softcapping", &Config::logit_cap, 0.f)},
    {.tied = true, .kv_heads = 4, .head_dim = 256});

const ConfigFields kFalcon7bFields =
    falcon_fields({fixed("multi_query", true), always([](Config& c) { c.kv_heads = 1; })});

const ConfigFields kFalcon40bFields =
    falcon_fields({fixed("num_ln_in_parallel_attn", 2), optional_size("num_kv_heads", &Config::kv_heads)});

const ConfigFields kGpt2Fields =
    gpt_sizes({optional_size("n_inner", &Config::hidden), epsilon("layer_norm_epsilon", 1e-5),
               activation("activation_function", "gelu_new"), tied(true),
               written("n_ctx", &Config::context),  // for llama.cpp
               fixed("scale_attn_weights", true), fixed("scale_attn_by_inverse_layer_idx", false),
               fixed("add_cross_attention", false)});

const ConfigFields kGptNeoFields =
    {size({"num_layers", "num_hidden_layers"}, &Config::n_layer, 24),
     size({"num_heads", "num_attention_heads"}, &Config::n_head, 16), size("hidden_size", &Config::channels, 2048),
     optional_size("intermediate_size", &Config::hidden),
     size("max_position_embeddings", &Config::context, 2048), size("vocab_size", &Config::vocab_size),
     epsilon("layer_norm_epsilon", 1e-5), activation("activation_function", "gelu_new"), tied(true),
     size("window_size", &Config::window, 256), attention_types(), always([](Config& c) {
       c.attention_scale = 1;
       c.qkv_bias = false;
     })};

const ConfigFields kBertFields =
    bert_fields({size("max_position_embeddings", &Config::context), activation("hidden_act", "gelu")});

const ConfigFields kRobertaFields =
    bert_fields({context_behind_two(), fixed("hidden_act", "gelu"), fixed("pad_token_id", 1)});

const ConfigFields kT5Fields = t5_fields({6, 8, 2048, 32128, "relu"}, {scaled_outputs()});

const ConfigFields kMt5Fields =
    t5_fields({8, 6, 1024, 250112, "gated-gelu"}, {always([](Config& c) { c.root_logit_scale = false; })});

const ConfigFields kBartFields = bart_fields(50265, {kLearned});

const ConfigFields kMbartFields = bart_fields(50265, {kLearned, kPreLn});

const ConfigFields kMarianFields =
    bart_fields(58101, {same_size("decoder_vocab_size", &Config::vocab_size),
                        fixed("share_encoder_decoder_embeddings", true)});

const ConfigFields kPegasusFields = bart_fields(50265, {kPreLn});

const ConfigFields kGpt1Fields =
    gpt_sizes({kFourfold, epsilon("layer_norm_epsilon", 1e-5), activation("afn", "gelu", kGpt1Activations),
               tied(true)});

const ConfigFields kGptBigcodeFields =
    concat(kGpt2Fields, {fixed("multi_query", true), always([](Config& c) { c.kv_heads = 1; })});

const ConfigFields kGptjFields = gptj_fields({});

const ConfigFields kCodegenFields = gptj_fields({written("n_ctx", &Config::context), whole_parts()});

const ConfigFields kOptFields =
    usual_fields({size("ffn_dim", &Config::hidden), size("max_position_embeddings", &Config::context),
                  activation("activation_function", "relu"), tied(true), fixed("enable_bias", true),
                  fixed("layer_norm_elementwise_affine", true), fixed("_remove_final_layer_norm", false),
                  optional_size("word_embed_proj_dim", &Config::embedding_channels),
                  choice("do_layer_norm_before", true,
                         [](Config& c, bool before) { c.placement = before ? "pre" : "post"; },
                         [](const Config& c) { return c.placement == "pre"; })});

const ConfigFields kBloomFields =
    {size({"n_layer", "num_hidden_layers"}, &Config::n_layer),
     size({"n_head", "num_attention_heads"}, &Config::n_head),
     size({"hidden_size", "n_embed"}, &Config::channels), size("vocab_size", &Config::vocab_size),
     size("seq_length", &Config::context, 2048), kFourfold, epsilon("layer_norm_epsilon", 1e-5), tied(true),
     fixed("apply_residual_connection_post_layernorm", false)};

const ConfigFields kGptNeoxFields =
    usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                  epsilon("layer_norm_eps", 1e-5), activation("hidden_act", "gelu"),
                  rope(10000, true, "rotary_emb_base"), partial_rope(.25f, "rotary_pct"),
                  tied(false), fixed("attention_bias", true),
                  choice("use_parallel_residual", true,
                         [](Config& c, bool parallel) {
                           c.block = parallel ? BlockForm::parallel : BlockForm::sequential;
                         },
                         [](const Config& c) { return c.block == BlockForm::parallel; })});

const ConfigFields kPhiFields =
    usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                  kv_heads(), kHeadDim, epsilon("layer_norm_eps", 1e-5), activation("hidden_act", "gelu_new"),
                  rope(10000, true), partial_rope(.5f), tied(false), fixed("qk_layernorm", false)});

const ConfigFields kStablelmFields =
    usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                  kv_heads(32), epsilon("layer_norm_eps", 1e-5), rope(10000, true), partial_rope(.25f), tied(false),
                  fixed("hidden_act", "silu"), fixed("qk_layernorm", false), qkv_bias("use_qkv_bias", false),
                  choice("use_parallel_residual", false,
                         [](Config& c, bool parallel) {
                           c.block = parallel ? BlockForm::parallel_shared : BlockForm::sequential;
                         },
                         [](const Config& c) { return c.block == BlockForm::parallel_shared; }),
                  always([](Config& c) { c.norm = NormKind::layernorm; c.norm_bias = true; })});

const ConfigFields kStarcoder2Fields =
    usual_fields({size("intermediate_size", &Config::hidden), size("max_position_embeddings", &Config::context),
                  kv_heads(2), kHeadDim, epsilon("norm_epsilon", 1e-5), rope(), tied(true),
                  activation("hidden_act", "gelu_pytorch_tanh"), fixed("use_bias", true), window(),
                  always([](Config& c) { c.position = Position::rope; })});

const ConfigFields kGemmaFields =
    like_llama({fixed("hidden_act", "gelu_pytorch_tanh", "gelu"), kAttentionBias, always(like_gemma)},
               {.tied = true, .kv_heads = 16, .head_dim = 256});
