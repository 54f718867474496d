#include "gguf_windows.hpp"

#include <vector>

#include "layers/config/layer_set.hpp"

using nlohmann::json;

namespace {

constexpr const char *kWindow = "attention.sliding_window", *kBase = "rope.freq_base_swa";

// A number N says that the last of every N layers has no window; 0: all layers have it.
std::string layers_of(const json& pattern, int n_layer) {
  if (!pattern.is_array()) {
    const int n = whole_value(kWindowPattern, pattern);
    if (n == 0) return "all";
    return n == 1 ? "none" : std::to_string(n - 1) + " of " + std::to_string(n);
  }
  if (pattern.size() < static_cast<size_t>(n_layer))
    refuse_key(kWindowPattern, "is not a list of " + std::to_string(n_layer) + " layers");
  std::vector<bool> has;
  for (int l = 0; l < n_layer; ++l)
    has.push_back(pattern[l].is_boolean() ? pattern[l] == true : whole_value(kWindowPattern, pattern[l]) != 0);
  return layer_set(has);
}

void read_windows(Config& c, const json& keys, const WindowKeys& row) {
  c.window = 0;
  c.window_layers = row.absent;
  c.window_rope_theta.reset();
  if (keys.contains(kWindow)) set_member(c.window, kWindow, keys.at(kWindow));
  if (c.window == 0) return;
  if (keys.contains(kWindowPattern)) c.window_layers = layers_of(keys.at(kWindowPattern), c.n_layer);
  if (keys.contains(kOpenBase)) return;
  c.window_rope_theta = row.base.value_or(c.rope_theta);
  if (row.base && keys.contains(kBase)) c.window_rope_theta = number_value(kBase, keys.at(kBase));
}

void write_windows(json& keys, const Config& c, const WindowKeys& row) {
  if (c.window == 0) return;
  keys[kWindow] = c.window;
  if (c.window_layers != shortest_layer_set(row.absent, c.n_layer))
    for (int l = 0; l < c.n_layer; ++l) keys[kWindowPattern].push_back(c.window_of(l) > 0);
  if (!c.window_rope_theta && c.rope_scaling == RopeScaling::none) keys[kOpenBase] = true;
  if (row.base) keys[kBase] = c.window_rope_theta.value_or(c.rope_theta);
}

}  // namespace

ConfigField windows(const WindowKeys& row) {
  return {[=](Config& c, const json& keys) { read_windows(c, keys, row); },
          [=](json& keys, const Config& c) { write_windows(keys, c, row); }};
}
