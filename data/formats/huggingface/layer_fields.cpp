#include "layer_fields.hpp"

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace {

// Sets a set of layers from a list that says of each layer whether the set has it.
template <class Has>
std::string layers_where(const std::string& key, const json& list, const Config& c, const Has& has) {
  if (!list.is_array() || list.size() < static_cast<size_t>(c.n_layer))
    refuse_key(key, "is not a list of " + std::to_string(c.n_layer) + " layers");
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

// Every layer but the last of each n.
std::string all_but_each_last_of(int n) {
  return n <= 1 ? "none" : std::to_string(n - 1) + " of " + std::to_string(n);
}

constexpr const char* kAttentionTypes = "attention_types";
constexpr const char* kAttentionTypesIfAbsent = R"([[["global", "local"], 12]])";

// Returns the type of each layer, given pairs of a list of types and how often it repeats.
json types_in(const json& pairs, int n_layer) {
  const size_t layers = n_layer;
  json types = json::array();
  if (!pairs.is_array()) refuse_key(kAttentionTypes, "is not a list");
  for (const json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_array() || pair[0].empty())
      refuse_key(kAttentionTypes, "has another form than GPT-Neo's");
    for (int i = whole_value(kAttentionTypes, pair[1]); i > 0 && types.size() <= layers; --i)
      types.insert(types.end(), pair[0].begin(), pair[0].end());
  }
  if (types.size() != layers) refuse_key(kAttentionTypes, "is not a list of " + std::to_string(n_layer) + " layers");
  return types;
}

}  // namespace

ConfigField layer_types(const std::string& absent, const char* period) {
  return {[=](Config& c, const json& file) {
            const json list = value_at(file, "layer_types"), every = value_or_null(file, period);
            c.window_layers = absent;
            if (!every.is_null()) c.window_layers = all_but_each_last_of(whole_value(period, every));
            if (!list.is_null())
              c.window_layers = layers_where("layer_types", list, c, [&](const json& type) {
                if (type != kSlidingLayer && type != kFullLayer)
                  refuse_key("layer_types", "has " + for_terminal(to_text(type)) + ", which train_gpt lacks");
                return type == kSlidingLayer;
              });
          },
          [](json& file, const Config& c) { file["layer_types"] = layer_types_of(c); }};
}

ConfigField full_layers() {
  return {
      [](Config& c, const json& file) {
        const json list = value_at(file, "layer_types");
        if (!list.is_null() && list != layer_types_of(c))
          refuse_key("layer_types", "is not full_attention in all layers");
      },
      [](json& file, const Config& c) { file["layer_types"] = layer_types_of(c); }};
}

ConfigField no_rope_layers() {
  return {
      [](Config& c, const json& file) {
        constexpr const char *kKey = "no_rope_layers", *kInterval = "no_rope_layer_interval";
        const json list = value_at(file, kKey), every = value_at(file, kInterval);
        c.rope_layers = all_but_each_last_of(every.is_null() ? 4 : whole_value(kInterval, every));
        if (!list.is_null())
          c.rope_layers =
              layers_where(kKey, list, c, [](const json& rotates) { return whole_value(kKey, rotates) != 0; });
      },
      [](json& file, const Config& c) {
        file["no_rope_layers"] = json::array();
        for (int l = 0; l < c.n_layer; ++l) file["no_rope_layers"].push_back(c.rotates(l) ? 1 : 0);
      }};
}

ConfigField attention_types() {
  return {
      [](Config& c, const json& file) {
        const json given = value_at(file, kAttentionTypes), again = value_at(file, "attention_layers");
        const json types = types_in(given.is_null() ? parse_json(kAttentionTypesIfAbsent) : given, c.n_layer);
        if (!again.is_null() && again != types)
          refuse_key("attention_layers", "is another list than attention_types: remove the one that does not hold");
        c.window_layers = layers_where(kAttentionTypes, types, c, [](const json& type) {
          if (type != "global" && type != "local") refuse_key(kAttentionTypes, "has " + for_terminal(to_text(type)));
          return type == "local";
        });
      },
      [](json& file, const Config& c) {
        json types = json::array();
        for (int l = 0; l < c.n_layer; ++l) types.push_back(c.window_of(l) > 0 ? "local" : "global");
        file[kAttentionTypes] = json::array({json::array({types, 1})});
      }};
}
