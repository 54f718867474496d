#include "modeling.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "data/files/json.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/settings_file.hpp"
#include "layers/config/base_model.hpp"
#include "layers/config/fields.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/config/placements.hpp"
#include "layers/embedding/position.hpp"
#include "layers/model/resolve.hpp"
#include "layers/norm/norm.hpp"

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
  if (gain == LearnedGain::none) return "none";
  return gain == LearnedGain::channel ? "channel" : "block";
}

// The key of a field; "" if it has none.
std::string key_of(const Field& field) {
  std::string key = field.exported ? field.exported : field.name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// The value of a field of a resolved Config.
json exported(const Config& c, const FieldChoice& choice) { return choice.get(c); }
template <class T>
json exported(const Config& c, T Config::*member) {
  const auto& x = c.*member;
  if constexpr (std::is_same_v<T, std::optional<bool>>) return *x;
  else if constexpr (std::is_same_v<T, std::optional<double>>) return shortest(static_cast<float>(*x));
  else if constexpr (std::is_floating_point_v<T>) return shortest(static_cast<float>(x));
  else return x;
}

// Which angles each layer rotates by (null: none), and the angles between two positions.
void write_rotations(json& file, const Config& c) {
  file["rotations"] = json::array();
  file["rotary"] = json::object();
  for (int l = 0; l < c.n_layer; ++l) {
    file["rotations"].push_back(nullptr);
    if (!c.rotates(l)) continue;
    const bool local = c.rotates_locally(l);
    const RopeAngles angles = local ? RopeAngles(*c.window_rope_theta) : RopeAngles(c);
    file["rotations"].back() = local ? "local" : "all";
    json& rotary = file["rotary"][local ? "local" : "all"];
    rotary = {{"angles", rope_frequencies(c.rope_dims(), angles)}, {"magnitude", angles.magnitude}};
    if (angles.scaling != RopeScaling::longrope) continue;
    rotary["longer"] = rope_frequencies(c.rope_dims(), RopeAngles(c, true));
    rotary["original"] = c.rope_original;
  }
}

json model_settings(const Config& config) {
  TrainOptions options;
  options.config = config;
  const json settings = to_json(options);
  json kept = json::object();
  for (const TrainSetting& s : train_settings())
    if (s.model && settings.contains(s.name)) kept[s.name] = settings[s.name];
  return kept;
}

}  // namespace

std::string modeling_text() { return kText + 1; }  // skips the line break that opens the literal

namespace {

// Writes what the class reads about one stack of blocks.
void write_stack(json& file, const Config& c) {
  for (const Field& field : model_fields())
    if (const std::string key = key_of(field); !key.empty())
      file[key] = std::visit([&](const auto& member) { return exported(c, member); }, field.member);
  for (const NormSiteRow& row : kNormSites)
    if (const Config own = at_norm(c, row.name); own_norm(c, row.name))
      file["site_norms"][row.name] = {
          {"norm", name_of(kNormKinds, own.norm)}, {"norm_gain", own.norm_gain}, {"norm_bias", *own.norm_bias}};
  file["router_bias"] = c.router_bias > 0;
  file["learned_gain"] = name_of_gain(c.placement_row->gain);
  file["bypass"] = c.placement_row->bypass;
  file["gpas"] = c.placement_row->gpas;
  file["skip_gain"] = c.placement_row->skip_gain;
  file["norms"] = file["ffn_norms"] = file["in_scales"] = file["windows"] = json::array();
  for (int l = 0; l < c.n_layer; ++l) {
    const Placement& row = placement_at(c, l, "attention");
    file["norms"].push_back(norms_of(row));
    file["ffn_norms"].push_back(norms_of(placement_at(c, l, "ffn")));
    file["in_scales"].push_back(shortest(static_cast<float>(row.in_scale(base_layer(c, l)))));
    file["windows"].push_back(c.window_of(l));
  }
  for (int l = 0; c.crosses() && l < c.n_layer; ++l)
    file["cross_norms"].push_back(norms_of(placement_at(c, l, "cross")));
  write_rotations(file, c);
}

struct AutoClass {
  const char *auto_class, *own;
};

AutoClass auto_class(Objective objective) {
  switch (objective) {
    case Objective::lm: return {"AutoModelForCausalLM", kModelingClass};
    case Objective::mlm: return {"AutoModelForMaskedLM", kMaskedModelingClass};
    case Objective::pairs:
    case Objective::span: break;
  }
  return {"AutoModelForSeq2SeqLM", kPairsModelingClass};
}

}  // namespace

void write_modeling_config(json& file, const Config& c) {
  const std::string module = "modeling_train_gpt.";
  const auto [name, own] = auto_class(c.objective);
  file["auto_map"] = {{"AutoConfig", module + "TrainGPTConfig"}, {name, module + own}};
  write_stack(file, c);
  file["is_encoder_decoder"] = c.crosses();
  if (c.crosses()) write_stack(file["encoder_stack"], encoder_of(c));
  file[kSettings] = model_settings(c);
}

Config read_modeling_config(const json& file) {
  const auto settings = file.find(kSettings);
  if (settings == file.end() || !settings->is_object())
    throw std::runtime_error(std::string(kSettings) + " is missing");
  return train_options_of(*settings).config;
}
