#include "class_fields.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& key, const std::string& why) { throw std::runtime_error(key + " " + why); }

// A key of config.json, and another name that transformers takes for it.
struct Key {
  const char *name, *other;
  Key(const char* name, const char* other = nullptr) : name(name), other(other) {}
};

json value_or_null(const json& file, const char* key) { return key && file.contains(key) ? file.at(key) : json(); }

// Returns the key's value under either name, or null. Throws if the two disagree.
json value_at(const json& file, const Key& key) {
  const json value = value_or_null(file, key.name), other = value_or_null(file, key.other);
  if (!value.is_null() && !other.is_null() && value != other)
    fail(key.other, "is another than " + std::string(key.name) + ": remove the one that does not hold");
  return value.is_null() ? other : value;
}

bool has(const json& file, const Key& key) {
  return file.contains(key.name) || (key.other && file.contains(key.other));
}

int whole(const std::string& key, const json& value) {
  constexpr int kMost = 1 << 30;
  const auto number = integer_between(value, 0, kMost);
  if (!number)
    fail(key, "is not a whole number from 0 to " + std::to_string(kMost) + ": " + for_terminal(to_text(value)));
  return static_cast<int>(*number);
}

double number(const std::string& key, const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<float>()))
    fail(key, "is not a number that a float can hold: " + for_terminal(to_text(value)));
  return value;
}

bool flag(const json& file, const char* key, bool absent) {
  if (!file.contains(key)) return absent;
  if (!file.at(key).is_boolean()) fail(key, "is not true or false");
  return file.at(key);
}

}  // namespace

void set_member(int& member, const std::string& key, const json& value) { member = whole(key, value); }
void set_member(float& member, const std::string& key, const json& value) {
  member = static_cast<float>(number(key, value));
}

namespace {

// In the fields below, `absent` is what the class takes if config.json lacks the key.

// A whole number. Without `absent`, the key is required.
ConfigField size(const Key& key, int Config::*member, std::optional<int> absent = std::nullopt) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            if (value.is_null() && (!absent || has(file, key))) fail(key.name, "is missing");
            c.*member = value.is_null() ? *absent : whole(key.name, value);
          },
          [=](json& file, const Config& c) { file[key.name] = c.*member; }};
}

// A size. If it is null, resolve() derives it from others.
ConfigField optional_size(const char* key, int Config::*member, int absent = 0) {
  return {[=](Config& c, const json& file) {
            c.*member = absent;
            if (file.contains(key)) c.*member = file.at(key).is_null() ? 0 : whole(key, file.at(key));
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

ConfigField epsilon(const char* key, double absent) {
  return {[=](Config& c, const json& file) {
            c.norm_eps = static_cast<float>(file.contains(key) ? number(key, file.at(key)) : absent);
          },
          [=](json& file, const Config& c) { file[key] = shortest(c.norm_eps); }};
}

ConfigField tied(bool absent) {
  constexpr const char* kKey = "tie_word_embeddings";
  return {[=](Config& c, const json& file) {
            c.tied = flag(file, kKey, absent);
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
              fail(key, "is " + for_terminal(to_text(value)) + "; train_gpt has " + to_text(only) + " only");
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
            if (name == names.end()) fail(key, "is " + for_terminal(to_text(value)) + ", which train_gpt lacks");
            c.activation = name->ours;
          },
          [=](json& file, const Config& c) {
            for (const ActivationName& n : names)
              if (n.ours == c.activation && !file.contains(key)) file[key] = n.theirs;
          }};
}

// transformers 5 has rope_parameters; earlier versions have rope_scaling, and the values outside of it.
json rope_parameters(const json& file) {
  json values = value_at(file, Key("rope_parameters", "rope_scaling"));
  if (values.is_null()) values = json::object();
  if (!values.is_object()) fail("rope_parameters", "is not an object");
  return values;
}

// The parameters of a class that has one set of them for all layers.
json shared_rope_parameters(const json& file) {
  const json values = rope_parameters(file);
  for (const json& value : values)
    if (value.is_object()) fail("rope_parameters", "differs between layers, and this class has one for all");
  return values;
}

// Returns a value of the parameters, or of the key outside of them, or null. Throws if the two disagree.
json rope_value(const json& parameters, const json& file, const char* name, const char* outside) {
  const json value = value_at(parameters, name), other = value_at(file, outside);
  if (!value.is_null() && !other.is_null() && value != other)
    fail(outside, "is " + for_terminal(to_text(other)) + ", and rope_parameters has " + for_terminal(to_text(value)) +
                      ": remove the one that does not hold");
  return value.is_null() ? other : value;
}

// A number of rope_parameters. Without `absent`, it is required.
float rope_number(const json& values, const char* key, std::optional<float> absent = std::nullopt) {
  const json value = value_at(values, key);
  if (value.is_null() && !absent) fail(key, "is missing in rope_parameters");
  return value.is_null() ? *absent : static_cast<float>(number(key, value));
}

// YaRN's magnitude, as transformers computes it; the model's own if rope_parameters leave it open.
void read_yarn(Config& c, const json& values) {
  c.rope_slow = rope_number(values, "beta_slow", 1);
  c.rope_fast = rope_number(values, "beta_fast", 32);
  if (value_at(values, "truncate") == false) fail("truncate", "is false; train_gpt has true only");
  const json given = value_at(values, "attention_factor");
  const double own = rope_number(values, "mscale", 0), of_scores = rope_number(values, "mscale_all_dim", 0);
  const double log = .1 * std::log(static_cast<double>(c.rope_factor));
  if (!given.is_null()) c.rope_magnitude = number("attention_factor", given);
  else if (own != 0 && of_scores != 0) c.rope_magnitude = (own * log + 1) / (of_scores * log + 1);
}

void read_llama3(Config& c, const json& values) {
  c.rope_slow = rope_number(values, "low_freq_factor");
  c.rope_fast = rope_number(values, "high_freq_factor");
}

struct RopeType {
  const char* name;
  RopeScaling ours;
  void (*read)(Config& c, const json& values) = nullptr;
};
const std::vector<RopeType> kRopeTypes = {
    {"default", RopeScaling::none}, {"linear", RopeScaling::linear}, {"llama3", RopeScaling::llama3, read_llama3},
    {"yarn", RopeScaling::yarn, read_yarn}, {"dynamic", RopeScaling::dynamic}};

const RopeType& rope_type_of(const json& values) {
  const json name = values.value("rope_type", values.value("type", json("default")));
  for (const RopeType& row : kRopeTypes)
    if (name == row.name) return row;
  fail("rope_type", "is " + for_terminal(to_text(name)) + ", which train_gpt lacks");
}

constexpr const char* kRotaryShare = "partial_rotary_factor";

// Reads how RoPE is stretched. Needs the context. `partial`: the class can rotate a share of each head.
void read_scaling(Config& c, const json& values, const json& file, bool partial = false) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const RopeType& type = rope_type_of(values);
  c.rope_scaling = type.ours;
  if (type.ours == RopeScaling::none) return;
  const json share = rope_value(values, file, kRotaryShare, kRotaryShare);
  if (!partial && !share.is_null() && share != 1) fail(kRotaryShare, "is not 1 in a class that rotates whole heads");
  c.rope_factor = rope_number(values, "factor");
  c.rope_original = c.context;
  if (type.read) {
    const json original = rope_value(values, file, kOriginal, kOriginal);
    if (!original.is_null()) c.rope_original = whole(kOriginal, original);
    type.read(c, values);
  }
}

json rope_json(const Config& c) {
  json values = {{"rope_type", "default"}, {"rope_theta", shortest(c.rope_theta)}};
  if (c.rope_scaling == RopeScaling::none) return values;
  for (const RopeType& row : kRopeTypes)
    if (row.ours == c.rope_scaling) values["rope_type"] = row.name;
  values["factor"] = shortest(c.rope_factor);
  if (c.rope_scaling == RopeScaling::llama3 || c.rope_scaling == RopeScaling::yarn) {
    const bool yarn = c.rope_scaling == RopeScaling::yarn;
    values["original_max_position_embeddings"] = c.rope_original;
    values[yarn ? "beta_slow" : "low_freq_factor"] = shortest(c.rope_slow);
    values[yarn ? "beta_fast" : "high_freq_factor"] = shortest(c.rope_fast);
    if (yarn) values["attention_factor"] = *c.rope_magnitude;
  }
  return values;
}

// Place it after the context. `partial`: partial_rope() follows.
ConfigField rope(float absent = 10000, bool partial = false, const char* outside = "rope_theta") {
  return {[=](Config& c, const json& file) {
            const json values = shared_rope_parameters(file);
            const json theta = rope_value(values, file, "rope_theta", outside);
            c.rope_theta = absent;
            if (!theta.is_null()) set_member(c.rope_theta, "rope_theta", theta);
            read_scaling(c, values, file, partial);
          },
          [=](json& file, const Config& c) {
            file[outside] = shortest(c.rope_theta);
            file["rope_parameters"] = rope_json(c);
            if (c.rope_scaling != RopeScaling::none) file["rope_scaling"] = file["rope_parameters"];
          }};
}

// RoPE with a base for layers with a window, and another base, which alone may be stretched, for the others. Before
// version 5 of transformers they stood in rope_theta, rope_scaling and `local`, a key that a class may lack.
ConfigField rope_by_window(float absent, float absent_local, const char* local = nullptr) {
  constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention", *kTheta = "rope_theta";
  return {[=](Config& c, const json& file) {
            const json old = value_or_null(file, "rope_scaling"), both = value_or_null(file, "rope_parameters");
            json full = value_or_null(both, kFull), sliding = value_or_null(both, kSliding);
            if (full.is_null()) full = json::object();
            if (sliding.is_null()) sliding = json::object();
            if (old.is_object() && !old.contains(kFull)) full.update(old);
            const json theta = value_at(full, kTheta), local_theta = value_at(sliding, kTheta);
            c.rope_theta = rope_number(theta.is_null() ? file : full, kTheta, absent);
            c.window_rope_theta = absent_local;
            if (!local_theta.is_null()) c.window_rope_theta = number(kTheta, local_theta);
            else if (local) c.window_rope_theta = rope_number(file, local, absent_local);
            if (rope_type_of(sliding).ours != RopeScaling::none)
              fail(kSliding, "has a rope_type; train_gpt has default only in layers with a window");
            read_scaling(c, full, file);
          },
          [=](json& file, const Config& c) {
            const double theta = c.window_rope_theta.value_or(c.rope_theta);
            file["rope_parameters"] = {
                {kFull, rope_json(c)},
                {kSliding, {{"rope_type", "default"}, {kTheta, shortest(static_cast<float>(theta))}}}};
          }};
}

// RoPE on a share of each head. Place it after rope() and the sizes, which it uses.
ConfigField partial_rope(float absent, const char* outside = kRotaryShare) {
  return {[=](Config& c, const json& file) {
            const json value = rope_value(shared_rope_parameters(file), file, kRotaryShare, outside);
            const double share = value.is_null() ? absent : number(kRotaryShare, value);
            c.rope_fraction = static_cast<float>(share);
            Config sized = c;
            if (sized.head_dim == 0) sized.head_dim = c.n_head > 0 ? c.channels / c.n_head : 0;
            if (share >= 0 && share <= 1 && sized.rope_dims() != static_cast<int>(sized.head_dim * share))
              fail(kRotaryShare, "rotates " + std::to_string(static_cast<int>(sized.head_dim * share)) + " of " +
                               std::to_string(sized.head_dim) + " channels, and train_gpt only whole pairs");
          },
          [=](json& file, const Config& c) {
            const double share = static_cast<double>(c.rope_dims()) / c.head_dim;
            file["rope_parameters"][kRotaryShare] = file[outside] = share;
            if (file.contains("rope_scaling")) file["rope_scaling"] = file["rope_parameters"];
          }};
}

// Gemma scales scores by query_pre_attn_scalar^-½, where that scalar is a whole number. Attention uses the scale as a
// float.
ConfigField score_scale() {
  constexpr const char* kKey = "query_pre_attn_scalar";
  return {[=](Config& c, const json& file) {
            const double scalar = file.contains(kKey) ? number(kKey, file.at(kKey)) : 256;
            if (scalar <= 0) fail(kKey, "is not positive");
            c.attention_scale = 1 / std::sqrt(static_cast<float>(scalar));
          },
          [=](json& file, const Config& c) {
            file[kKey] = std::llround(1 / (*c.attention_scale * *c.attention_scale));
          }};
}

// Sets a set of layers from a list that says of each layer whether the set has it.
template <class Has>
std::string layers_where(const std::string& key, const json& list, const Config& c, const Has& has) {
  if (!list.is_array() || list.size() < static_cast<size_t>(c.n_layer))
    fail(key, "is not a list of " + std::to_string(c.n_layer) + " layers");
  std::vector<bool> layers;
  for (int l = 0; l < c.n_layer; ++l) layers.push_back(has(list[l]));
  return layer_set(layers);
}

constexpr const char *kSlidingLayer = "sliding_attention", *kFullLayer = "full_attention";

json layer_types_of(const Config& c) {
  json types = json::array();
  for (int l = 0; l < c.n_layer; ++l) types.push_back(c.window_of(l) > 0 ? kSlidingLayer : kFullLayer);
  return types;
}

// Which layers have the window. Place it after the window and the number of layers, which it uses. `period` is the key
// that says that the last one of so many layers sees all keys, if the list is absent.
ConfigField layer_types(const std::string& absent, const char* period = nullptr) {
  return {[=](Config& c, const json& file) {
            const json list = value_at(file, "layer_types"), every = value_or_null(file, period);
            c.window_layers = absent;
            if (!every.is_null()) {
              const int n = std::max(whole(period, every), 1);
              c.window_layers = n == 1 ? "none" : std::to_string(n - 1) + " of " + std::to_string(n);
            }
            if (!list.is_null())
              c.window_layers = layers_where("layer_types", list, c, [&](const json& type) {
                if (type != kSlidingLayer && type != kFullLayer)
                  fail("layer_types", "has " + for_terminal(to_text(type)) + ", which train_gpt lacks");
                return type == kSlidingLayer;
              });
          },
          [](json& file, const Config& c) { file["layer_types"] = layer_types_of(c); }};
}

// The same for a class whose layers see all keys here.
const ConfigField kFullLayers = {
    [](Config& c, const json& file) {
      const json list = value_at(file, "layer_types");
      if (!list.is_null() && list != layer_types_of(c)) fail("layer_types", "is not full_attention in all layers");
    },
    [](json& file, const Config& c) { file["layer_types"] = layer_types_of(c); }};

// SmolLM3's no_rope_layers, in which 1 is a layer with RoPE.
const ConfigField kNoRopeLayers = {
    [](Config& c, const json& file) {
      constexpr const char *kKey = "no_rope_layers", *kInterval = "no_rope_layer_interval";
      const json list = value_at(file, kKey), every = value_at(file, kInterval);
      const int n = every.is_null() ? 4 : std::max(whole(kInterval, every), 1);
      c.rope_layers = n == 1 ? "none" : std::to_string(n - 1) + " of " + std::to_string(n);
      if (!list.is_null())
        c.rope_layers = layers_where(kKey, list, c, [&](const json& rotates) { return whole(kKey, rotates) != 0; });
    },
    [](json& file, const Config& c) {
      file["no_rope_layers"] = json::array();
      for (int l = 0; l < c.n_layer; ++l) file["no_rope_layers"].push_back(c.rotates(l) ? 1 : 0);
    }};

// GPT-Neo's attention_types: pairs of a list of types, and how often it repeats.
const ConfigField kAttentionTypes = {
    [](Config& c, const json& file) {
      constexpr const char* kKey = "attention_types";
      json types = json::array(), pairs = value_at(file, kKey);
      if (pairs.is_null()) pairs = json::array({json::array({json::array({"global", "local"}), 12})});
      if (!pairs.is_array()) fail(kKey, "is not a list");
      for (const json& pair : pairs) {
        if (!pair.is_array() || pair.size() != 2 || !pair[0].is_array()) fail(kKey, "has another form than GPT-Neo's");
        for (int i = whole(kKey, pair[1]); i > 0 && types.size() <= static_cast<size_t>(c.n_layer); --i)
          types.insert(types.end(), pair[0].begin(), pair[0].end());
      }
      if (types.size() != static_cast<size_t>(c.n_layer))
        fail(kKey, "is not a list of " + std::to_string(c.n_layer) + " layers");
      const json again = value_at(file, "attention_layers");
      if (!again.is_null() && again != types)
        fail("attention_layers", "is another list than attention_types: remove the one that does not hold");
      c.window_layers = layers_where(kKey, types, c, [&](const json& type) {
        if (type != "global" && type != "local") fail(kKey, "has " + for_terminal(to_text(type)));
        return type == "local";
      });
    },
    [](json& file, const Config& c) {
      json types = json::array();
      for (int l = 0; l < c.n_layer; ++l) types.push_back(c.window_of(l) > 0 ? "local" : "global");
      file["attention_types"] = json::array({json::array({types, 1})});
    }};

// A choice between two wirings.
ConfigField choice(const char* key, bool absent, void (*set)(Config&, bool), bool (*get)(const Config&)) {
  return {[=](Config& c, const json& file) {
            set(c, flag(file, key, absent));
          },
          [=](json& file, const Config& c) { file[key] = get(c); }};
}

// A key that few files have, and that must have this value then. It is not written.
ConfigField unless(const char* key, const json& only) { return {fixed(key, only).read, [](json&, const Config&) {}}; }

// A property of the class that config.json does not state.
ConfigField always(void (*set)(Config&)) {
  return {[=](Config& c, const json&) { set(c); }, [](json&, const Config&) {}};
}

// Rejects an OPT whose embeddings are narrower than its residual stream.
ConfigField same_width() {
  constexpr const char* kKey = "word_embed_proj_dim";
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, kKey);
            if (!value.is_null() && value != c.channels) fail(kKey, "is not hidden_size, as train_gpt has it");
          },
          [=](json& file, const Config& c) { file[kKey] = c.channels; }};
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
ConfigFields usual_fields(const ConfigFields& more, const Key& channels = "hidden_size") {
  return concat({size("num_hidden_layers", &Config::n_layer), size("num_attention_heads", &Config::n_head),
                 size(channels, &Config::channels), size("vocab_size", &Config::vocab_size)},
                more);
}

const ConfigField kFourfold = always([](Config& c) { c.hidden = 4 * c.channels; });

ConfigField qkv_bias(const char* key, bool absent) {
  return choice(key, absent, [](Config& c, bool has) { c.qkv_bias = has; },
                [](const Config& c) { return *c.qkv_bias; });
}

const ConfigField kSilu = fixed("hidden_act", "silu"), kUnbiased = fixed("attention_bias", false);
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
ConfigFields expert_fields(const Key& key, int fallback, int fallback_per_token, const ConfigFields& more) {
  const ConfigField experts = size(key, &Config::experts, fallback);
  const auto write = [=](json& file, const Config& c) {
    if (c.experts == 0) fail(key.name, "is 0");
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

}  // namespace

void like_gemma(Config& c) {
  c.placement = "pre";
  c.window = 0;
  c.window_layers = "all";
  c.attention_cap = c.logit_cap = 0;
}

// ---- the classes -----------------------------------------------------------------------------------------

const ConfigFields kCausalFields = {unless("is_causal", true), unless("use_bidirectional_attention", false)};

const ConfigFields kLlamaFields = like_llama({kSilu, kUnbiased, fixed("mlp_bias", false)});

const ConfigFields kMistralFields = like_llama({kSilu, window(4096)}, {.kv_heads = 8});

const ConfigFields kQwen2Fields = like_llama({kSilu, kNoWindow, kFullLayers}, {.kv_heads = 32});

const ConfigFields kQwen3Fields =
    like_llama({kSilu, kUnbiased, kNoWindow, kFullLayers}, {.kv_heads = 32, .head_dim = 128});

const ConfigFields kMixtralFields =
    like_llama(expert_fields({"num_local_experts", "num_experts"}, 8, 2, {kSilu, window()}),
               {.eps = 1e-5, .theta = 1e6f, .kv_heads = 8});

// intermediate_size belongs to layers without experts, which train_gpt does not have.
const ConfigFields kQwen3MoeFields =
    like_llama(expert_fields({"num_experts", "num_local_experts"}, 128, 8,
                             {kSilu, kUnbiased, kNoWindow, renormalize(),
                              size("moe_intermediate_size", &Config::hidden, 768), fixed("decoder_sparse_step", 1),
                              fixed("mlp_only_layers", json::array())}),
               {.kv_heads = 4});

const ConfigFields kOlmoeFields =
    like_llama(expert_fields({"num_experts", "num_local_experts"}, 64, 8,
                             {kSilu, kUnbiased, renormalize(), fixed("clip_qkv", nullptr)}),
               {.eps = 1e-5});

const ConfigFields kOlmo2Fields = like_llama({kSilu, kUnbiased}, {.eps = 1e-5});

const ConfigFields kOlmo3Fields =
    like_llama_but_rope({rope_by_window(500000, 500000), kSilu, kUnbiased, window(4096), layer_types("3 of 4")},
                        {.eps = 1e-5});

const ConfigFields kSmollm3Fields =
    like_llama({kSilu, kUnbiased, fixed("mlp_bias", false), kNoWindow, kFullLayers, kNoRopeLayers},
               {.tied = true, .theta = 2e6f, .kv_heads = 4});

const ConfigFields kPhi3Fields = like_llama({kSilu, partial_rope(1), window()}, {.eps = 1e-5, .partial_rope = true});

const ConfigFields kGlmFields =
    like_llama({kSilu, partial_rope(.5f), qkv_bias("attention_bias", true)},
               {.eps = 1.5625e-7, .kv_heads = 2, .head_dim = 128, .partial_rope = true});

const ConfigFields kGemma2Fields =
    like_llama({fixed("hidden_activation", "gelu_pytorch_tanh"), kUnbiased, score_scale(), window(4096),
                layer_types("1 of 2"), optional_number("attn_logit_softcapping", &Config::attention_cap, 50.f),
                optional_number("final_logit_softcapping", &Config::logit_cap, 30.f)},
               {.tied = true, .kv_heads = 4, .head_dim = 256});

const ConfigFields kGemma3Fields = like_llama_but_rope(
    {rope_by_window(1e6f, 1e4f, "rope_local_base_freq"), fixed("hidden_activation", "gelu_pytorch_tanh"), kUnbiased,
     score_scale(), window(4096), layer_types("5 of 6", "sliding_window_pattern"),
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
     size("window_size", &Config::window, 256), kAttentionTypes, always([](Config& c) {
       c.attention_scale = 1;
       c.qkv_bias = false;
     })};

const ConfigFields kGpt1Fields =
    gpt_sizes({kFourfold, epsilon("layer_norm_epsilon", 1e-5), activation("afn", "gelu", kGpt1Activations),
               tied(true)});

const ConfigFields kGptBigcodeFields =
    concat(kGpt2Fields, {fixed("multi_query", true), always([](Config& c) { c.kv_heads = 1; })});

const ConfigFields kOptFields =
    usual_fields({size("ffn_dim", &Config::hidden), size("max_position_embeddings", &Config::context),
                  activation("activation_function", "relu"), tied(true), fixed("enable_bias", true),
                  fixed("layer_norm_elementwise_affine", true), fixed("_remove_final_layer_norm", false),
                  same_width(),
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
    like_llama({fixed("hidden_act", "gelu_pytorch_tanh", "gelu"), kUnbiased, always(like_gemma)},
               {.tied = true, .kv_heads = 16, .head_dim = 256});
