#include "rope_fields.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

// transformers 5 has rope_parameters; earlier versions have rope_scaling, and the values outside of it.
json rope_parameters(const json& file) {
  json values = value_at(file, ConfigKey("rope_parameters", "rope_scaling"));
  if (values.is_null()) values = json::object();
  if (!values.is_object()) refuse_key("rope_parameters", "is not an object");
  return values;
}

// Returns RoPE's parameters, which must be the same for all layers.
json shared_rope_parameters(const json& file) {
  const json values = rope_parameters(file);
  for (const json& value : values)
    if (value.is_object()) refuse_key("rope_parameters", "differs between layers, and this class has one for all");
  return values;
}

// Returns a value of the parameters, or of the key outside of them, or null. Throws if the two disagree.
json rope_value(const json& parameters, const json& file, const char* name, const char* outside) {
  const json value = value_at(parameters, name), other = value_at(file, outside);
  if (!value.is_null() && !other.is_null() && value != other)
    refuse_key(outside, "is " + for_terminal(to_text(other)) + ", and rope_parameters has " +
                            for_terminal(to_text(value)) + ": remove the one that does not hold");
  return value.is_null() ? other : value;
}

// A number of rope_parameters. Without `absent`, it is required.
float rope_number(const json& values, const char* key, std::optional<float> absent = std::nullopt) {
  const json value = value_at(values, key);
  if (value.is_null() && !absent) refuse_key(key, "is missing in rope_parameters");
  return value.is_null() ? *absent : static_cast<float>(number_value(key, value));
}

// The magnitude of YaRN and longrope, if rope_parameters say it; otherwise it follows from the rest.
void read_magnitude(Config& c, const json& values) {
  const json given = value_at(values, "attention_factor");
  if (!given.is_null()) c.rope_magnitude = number_value("attention_factor", given);
}

void read_yarn(Config& c, const json& values) {
  c.rope_slow = rope_number(values, "beta_slow", 1);
  c.rope_fast = rope_number(values, "beta_fast", 32);
  c.rope_truncate = value_at(values, "truncate") != false;
  const double own = rope_number(values, "mscale", 0), of_scores = rope_number(values, "mscale_all_dim", 0);
  const double log = .1 * std::log(static_cast<double>(c.rope_factor));
  if (own != 0 && of_scores != 0) c.rope_magnitude = (own * log + 1) / (of_scores * log + 1);
  read_magnitude(c, values);
}

void read_llama3(Config& c, const json& values) {
  c.rope_slow = rope_number(values, "low_freq_factor");
  c.rope_fast = rope_number(values, "high_freq_factor");
}

// A list of numbers, as 1,1.05,2.
std::string factors_of(const json& values, const char* key) {
  const json list = value_at(values, key);
  if (!list.is_array() || list.empty()) refuse_key(key, "is not a list of numbers");
  std::string text;
  for (const json& factor : list) {
    number_value(key, factor);
    text += (text.empty() ? "" : ",") + to_text(factor);
  }
  return text;
}
json factors_json(const std::string& list) { return parse_json("[" + list + "]"); }

void read_longrope(Config& c, const json& values) {
  c.rope_short = factors_of(values, "short_factor");
  c.rope_long = factors_of(values, "long_factor");
  read_magnitude(c, values);
}

struct RopeType {
  const char* name;
  RopeScaling ours;
  void (*read)(Config& c, const json& values) = nullptr;
};
const std::vector<RopeType> kRopeTypes = {
    {"default", RopeScaling::none}, {"linear", RopeScaling::linear}, {"llama3", RopeScaling::llama3, read_llama3},
    {"yarn", RopeScaling::yarn, read_yarn}, {"dynamic", RopeScaling::dynamic},
    {"longrope", RopeScaling::longrope, read_longrope}, {"su", RopeScaling::longrope, read_longrope}};

const RopeType& rope_type_of(const json& values) {
  const json name = values.value("rope_type", values.value("type", json("default")));
  for (const RopeType& row : kRopeTypes)
    if (name == row.name) return row;
  refuse_key("rope_type", "is " + for_terminal(to_text(name)) + ", which train_gpt lacks");
}

// Reads how RoPE is stretched. Needs the context. `partial`: the class can rotate a share of each head.
void read_scaling(Config& c, const json& values, const json& file, bool partial = false) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const RopeType& type = rope_type_of(values);
  c.rope_scaling = type.ours;
  if (type.ours == RopeScaling::none) return;
  const json share = rope_value(values, file, kRotaryShare, kRotaryShare);
  if (!partial && !share.is_null() && share != 1)
    refuse_key(kRotaryShare, "is not 1 in a class that rotates whole heads");
  const bool by_length = type.ours == RopeScaling::longrope;  // the factor may follow from the two contexts
  c.rope_factor = rope_number(values, "factor", by_length ? std::optional(0.f) : std::nullopt);
  c.rope_original = c.context;
  if (type.read) {
    const json original = rope_value(values, file, kOriginal, kOriginal);
    if (!original.is_null()) c.rope_original = whole_value(kOriginal, original);
    type.read(c, values);
  }
  if (c.rope_factor == 0 && c.rope_original > 0) c.rope_factor = static_cast<float>(c.context) / c.rope_original;
}

json rope_json(const Config& c) {
  json values = {{"rope_type", "default"}, {"rope_theta", shortest(c.rope_theta)}};
  if (c.rope_scaling == RopeScaling::none) return values;
  values["rope_type"] = std::ranges::find(kRopeTypes, c.rope_scaling, &RopeType::ours)->name;
  values["factor"] = shortest(c.rope_factor);
  if (c.rope_scaling == RopeScaling::llama3 || c.rope_scaling == RopeScaling::yarn) {
    const bool yarn = c.rope_scaling == RopeScaling::yarn;
    values["original_max_position_embeddings"] = c.rope_original;
    values[yarn ? "beta_slow" : "low_freq_factor"] = shortest(c.rope_slow);
    values[yarn ? "beta_fast" : "high_freq_factor"] = shortest(c.rope_fast);
    if (yarn) values["attention_factor"] = *c.rope_magnitude;
    if (!c.rope_truncate) values["truncate"] = false;
  }
  if (c.rope_scaling == RopeScaling::longrope) {
    values["original_max_position_embeddings"] = c.rope_original;
    values["short_factor"] = factors_json(c.rope_short);
    values["long_factor"] = factors_json(c.rope_long);
    values["attention_factor"] = *c.rope_magnitude;
  }
  return values;
}

}  // namespace

ConfigField rope(float absent, bool partial, const char* outside) {
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

ConfigField rope_by_window(float absent, float absent_local, const char* local) {
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
            if (!local_theta.is_null()) c.window_rope_theta = number_value(kTheta, local_theta);
            else if (local) c.window_rope_theta = rope_number(file, local, absent_local);
            if (rope_type_of(sliding).ours != RopeScaling::none)
              refuse_key(kSliding, "has a rope_type; train_gpt has default only in layers with a window");
            read_scaling(c, full, file);
          },
          [=](json& file, const Config& c) {
            const double theta = c.window_rope_theta.value_or(c.rope_theta);
            file["rope_parameters"] = {
                {kFull, rope_json(c)},
                {kSliding, {{"rope_type", "default"}, {kTheta, shortest(static_cast<float>(theta))}}}};
          }};
}

ConfigField partial_rope(float absent, const char* outside) {
  return {[=](Config& c, const json& file) {
            const json value = rope_value(shared_rope_parameters(file), file, kRotaryShare, outside);
            const double share = value.is_null() ? absent : number_value(kRotaryShare, value);
            c.rope_fraction = static_cast<float>(share);
            Config sized = c;
            if (sized.head_dim == 0) sized.head_dim = c.n_head > 0 ? c.channels / c.n_head : 0;
            if (share >= 0 && share <= 1 && sized.rope_dims() != static_cast<int>(sized.head_dim * share))
              refuse_key(kRotaryShare, "rotates " + std::to_string(static_cast<int>(sized.head_dim * share)) + " of " +
                               std::to_string(sized.head_dim) + " channels, and train_gpt only whole pairs");
          },
          [=](json& file, const Config& c) {
            const double share = static_cast<double>(c.rope_dims()) / c.head_dim;
            file["rope_parameters"][kRotaryShare] = file[outside] = share;
            if (file.contains("rope_scaling")) file["rope_scaling"] = file["rope_parameters"];
          }};
}
