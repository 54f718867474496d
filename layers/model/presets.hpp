#pragma once
// Presets: published models, by family and size.
//
// Every family also has sizes by depth, "d1" to "d64" in steps of a half: its nano, scaled so that size d has d layers
// (rounded), 32·d channels, and heads of about 32 channels. d4 of most families is nano. nanochat's depth does the same
// with 64 channels for each layer.

#include <string>
#include <string_view>
#include <vector>

#include "layers/config/config.hpp"

// A published model: its family's wiring with the numbers of one size.
struct Preset {
  const char *name, *size, *note;
  Config config;
  const char* source;
  const char* missing;  // the part of the model that is not implemented, or ""
};
const std::vector<Preset>& presets();  // without sizes by depth
Preset preset_row(std::string_view preset, std::string_view size);     // throws an error that names the nearest
Config preset_config(std::string_view preset, std::string_view size);  // throws likewise
std::vector<std::string> preset_names();                               // each once
std::vector<std::string> sizes_by_depth();                             // in ascending order
bool is_size_by_depth(std::string_view size);
int heads_by_depth(int channels);  // the heads of the size by depth with this many channels; 0 if they are odd

// Sizes that stay in proportion to the channels, if a model becomes wider. 0, which is open, stays 0.
struct Width {
  const char* field;
  int Config::*size;
};
inline constexpr Width kWidths[] = {{"hidden", &Config::hidden},
                                    {"head-dim", &Config::head_dim},
                                    {"embedding-channels", &Config::embedding_channels}};
int scaled(const Config& from, const Width& width, int channels);
