#include "pair_fields.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "field_kinds.hpp"

using nlohmann::json;
using namespace field_kinds;

namespace {

constexpr const char* kObjective = "train_gpt_objective";

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
            if (dense == std::end(kActivationNames))
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
            if (dense == std::end(kActivationNames)) return;
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
  return append({size({"num_layers", "num_hidden_layers"}, &Config::encoder_layers, absent.layers),
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
  return append({size({"encoder_layers", "num_hidden_layers"}, &Config::encoder_layers, 12),
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

const ConfigFields kT5Fields = t5_fields({6, 8, 2048, 32128, "relu"}, {scaled_outputs()});

const ConfigFields kMt5Fields =
    t5_fields({8, 6, 1024, 250112, "gated-gelu"}, {always([](Config& c) { c.root_logit_scale = false; })});

const ConfigFields kBartFields = bart_fields(50265, {kLearned});

const ConfigFields kMbartFields = bart_fields(50265, {kLearned, kPreLn});

const ConfigFields kMarianFields =
    bart_fields(58101, {same_size("decoder_vocab_size", &Config::vocab_size),
                        fixed("share_encoder_decoder_embeddings", true)});

const ConfigFields kPegasusFields = bart_fields(50265, {kPreLn});
