#include "drawing.hpp"

#include <string>

#include "data/commands/info/model_text.hpp"
#include "layers/config/placements.hpp"

using nlohmann::ordered_json;

namespace {

// The parts of a residual branch in order.
void add_parts(ordered_json& parts, const Config& c, int layer, const std::string& branch) {
  const Placement& row = placement_at(c, layer, branch);
  const std::string last = branch == "attention" ? "o" : "down";
  const auto add = [&](const std::string& name, const char* kind, const std::string& shown) {
    parts.push_back({{"part", branch + name}, {"branch", branch}, {"kind", kind}, {"text", shown}});
  };
  const auto add_norm = [&](const char* name) { add(std::string(".") + name, "norm", norm_name_at(c, name)); };
  if (row.norm_in) add_norm("norm_in");
  add("", "sublayer", branch == "ffn" ? name_of(kActivations, c.activation) : branch);
  if (row.norm_inner) add_norm("norm_inner");
  add("." + last, "matrix", last);
  if (row.norm_out) add_norm("norm_out");
  if (row.gain != LearnedGain::none) add(".scale", "gain", "λ");
  if (row.streams == StreamRule::sphere) add(".streams", "gain", "α");
  add(".sum", "sum", row.skip_gain ? "ω·x +" : "+");
  parts.back()["skip"] = *c.skip_scale;
  if (row.norm_sum) add_norm("norm_sum");
  if (row.gpas) add(".gpas", "gain", "γ");
}

}  // namespace

ordered_json draw_layers(const Config& c) {
  ordered_json layers = ordered_json::array();
  for (int l = 0; l < c.n_layer; ++l) {
    ordered_json parts = ordered_json::array();
    for (const char* branch : {"attention", "ffn"}) add_parts(parts, c, l, branch);
    layers.push_back({{"placement", placement_at(c, l, "attention").name}, {"parts", parts}});
  }
  return layers;
}

ordered_json describe_tensors(const std::vector<TensorSpec>& table) {
  ordered_json list = ordered_json::array();
  for (const TensorSpec& spec : table)
    list.push_back({{"name", spec.name}, {"layer", spec.layer == kOutside ? ordered_json() : ordered_json(spec.layer)},
                    {"part", spec.part}, {"shape", spec.shape}});
  return list;
}
