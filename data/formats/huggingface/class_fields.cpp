#include "class_fields.hpp"

#include <cmath>

#include "class_modules.hpp"
#include "data/files/json.hpp"
#include "field_kinds.hpp"
#include "layer_fields.hpp"
#include "rope_fields.hpp"

using nlohmann::json;
using namespace field_kinds;

namespace {

// The names in openai-gpt, where "gelu" is the tanh form.
constexpr ActivationName kGpt1Activations[] = {
    {"gelu", Activation::gelu_tanh}, {"relu", Activation::relu}, {"silu", Activation::silu},
    {"swish", Activation::silu}};

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

// Phi-3 refuses all other ways to stretch RoPE, and makes longrope of yarn.
ConfigField longrope_alone() {
  return {[](Config& c, const json&) {
            if (c.rope_scaling != RopeScaling::none && c.rope_scaling != RopeScaling::longrope)
              refuse_key("rope_type", "is not longrope, the only one that this class takes");
          },
          [](json&, const Config&) {}};
}

// The sizes by the names in GPT-1 and GPT-2.
ConfigFields gpt_sizes(const ConfigFields& more) {
  return append({size({"n_layer", "num_hidden_layers"}, &Config::n_layer),
                 size({"n_head", "num_attention_heads"}, &Config::n_head),
                 size({"n_embd", "hidden_size"}, &Config::channels),
                 size({"n_positions", "max_position_embeddings"}, &Config::context),
                 size("vocab_size", &Config::vocab_size)},
                more);
}

// The sizes by their usual names.
ConfigFields usual_fields(const ConfigFields& more, const ConfigKey& channels = "hidden_size") {
  return append({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
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
  return append({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 kv_heads(absent.kv_heads), optional_size("head_dim", &Config::head_dim, absent.head_dim),
                 size("hidden_size", &Config::channels), size("intermediate_size", &Config::hidden),
                 size("max_position_embeddings", &Config::context), size("vocab_size", &Config::vocab_size),
                 epsilon("rms_norm_eps", absent.eps), tied(absent.tied)},
                more);
}

ConfigFields like_llama(const ConfigFields& more, const Absent& absent = {}) {
  return like_llama_but_rope(append({rope(absent.theta, absent.partial_rope)}, more), absent);
}

// Llama with factors on the embedding and on what branches add.
ConfigFields scaled_llama(const ConfigFields& more) {
  return like_llama(append({kSilu, kAttentionBias, fixed("mlp_bias", false),
                            factor("embedding_multiplier", &Config::embedding_scale, 1),
                            factor("residual_multiplier", &Config::branch_scale, 1)},
                           more));
}

// The number of experts, under either of its names; transformers 5 reads both. Llama's own fields have no experts.
ConfigFields expert_fields(const ConfigKey& key, int fallback, int fallback_per_token, const ConfigFields& more) {
  const ConfigField experts = size(key, &Config::experts, fallback);
  const auto write = [=](json& file, const Config& c) {
    if (c.experts == 0) refuse_key(key.name, "is 0");
    experts.write(file, c);
  };
  return append({{experts.read, write}, size("num_experts_per_tok", &Config::experts_per_token, fallback_per_token)},
                more);
}

ConfigField renormalize() {
  return choice("norm_topk_prob", false, [](Config& c, bool on) { c.router_renormalize = on; },
                [](const Config& c) { return c.router_renormalize; });
}

ConfigFields falcon_fields(const ConfigFields& more) {
  return append(usual_fields({optional_size("ffn_hidden_size", &Config::hidden),
                              size("max_position_embeddings", &Config::context, 2048),
                              epsilon("layer_norm_epsilon", 1e-5), activation("activation", "gelu"), rope(),
                              tied(true), fixed("alibi", false), fixed("bias", false), fixed("parallel_attn", true)},
                             {"hidden_size", "n_embed"}),
                more);
}

ConfigFields cohere_fields(float theta, const ConfigFields& more) {
  return usual_fields(append({size("intermediate_size", &Config::hidden),
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
  return gpt_sizes(append({optional_size("n_inner", &Config::hidden), epsilon("layer_norm_epsilon", 1e-5),
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
  return usual_fields(append({size("intermediate_size", &Config::hidden),
                              size("type_vocab_size", &Config::token_types, 2), epsilon("layer_norm_eps", 1e-12),
                              fixed("tie_word_embeddings", true), fixed("position_embedding_type", "absolute"),
                              fixed("is_decoder", false), fixed("add_cross_attention", false)},
                             more));
}

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

// AutoConfig makes a Ministral of a Mistral with layer_types: layers that see all keys beside those with the window.
const ConfigFields kMistralFields =
    like_llama({kSilu, window(4096), {layer_types("all").read, [](json&, const Config&) {}}}, {.kv_heads = 8});

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
    scaled_llama({factor("attention_multiplier", &Config::attention_scale, 1), logits_scaling()});

// Peri-LN is Sandwich-LN. The logits are multiplied, where Granite's are divided.
const ConfigFields kHyperclovaxFields =
    scaled_llama({factor("attention_multiplier", &Config::attention_scale),
                  factor("logits_scaling", &Config::logit_scale, 1),
                  choice("use_post_norm", true, [](Config& c, bool on) { c.placement = on ? "sandwich" : "pre"; },
                         [](const Config& c) { return c.placement == "sandwich"; })});

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
                    if (c.rope_scaling != RopeScaling::none) c.rope_magnitude = 1;  // a norm follows RoPE
                    c.activation = Activation::relu2;
                    c.qk_norm = QkNormKind::head;
                    c.norm_gain = false;
                    c.embedding_norm = true;
                  })});

const ConfigFields kSmollm3Fields =
    like_llama({kSilu, kAttentionBias, fixed("mlp_bias", false), kNoWindow, full_layers(), no_rope_layers()},
               {.tied = true, .theta = 2e6f, .kv_heads = 4});

const ConfigFields kPhi3Fields =
    like_llama({kSilu, partial_rope(1), longrope_alone(), window()}, {.eps = 1e-5, .partial_rope = true});

const ConfigFields kGlmFields =
    like_llama({kSilu, partial_rope(.5f), qkv_bias("attention_bias", true)},
               {.eps = 1.5625e-7, .kv_heads = 2, .head_dim = 128, .partial_rope = true});

const ConfigFields kGlm4Fields =
    append(kGlmFields, {always([](Config& c) { c.placement = "sandwich"; })});

const ConfigFields kGemma2Fields =
    like_llama({fixed("hidden_activation", "gelu_pytorch_tanh"), kAttentionBias, score_scale(), window(4096),
                layer_types("1 of 2"), optional_number("attn_logit_softcapping", &Config::attention_cap, 50.f),
                optional_number("final_logit_softcapping", &Config::logit_cap, 30.f)},
               {.tied = true, .kv_heads = 4, .head_dim = 256});

const ConfigFields kGemma3Fields = like_llama_but_rope(
    {rope_by_window(1e6f, 1e4f, "rope_local_base_freq"), fixed("hidden_activation", "gelu_pytorch_tanh"),
     kAttentionBias, score_scale(), window(4096), layer_types("5 of 6", "sliding_window_pattern"),
     fixed("attn_logit_softcapping", nullptr),  // the class does not read it
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

const ConfigFields kGpt1Fields =
    gpt_sizes({kFourfold, epsilon("layer_norm_epsilon", 1e-5), activation("afn", "gelu", kGpt1Activations),
               tied(true)});

const ConfigFields kGptBigcodeFields =
    append(kGpt2Fields, {fixed("multi_query", true), always([](Config& c) { c.kv_heads = 1; })});

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
