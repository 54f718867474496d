#pragma once
// Presets: published models, by family and size.

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
const std::vector<Preset>& presets();
const Preset& preset_row(std::string_view preset, std::string_view size);  // throws an error that names the nearest
Config preset_config(std::string_view preset, std::string_view size);      // throws likewise
std::vector<std::string> preset_names();                                   // each once
