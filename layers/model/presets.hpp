#pragma once
// Presets: models that people know, by family and size.

#include <string>
#include <string_view>
#include <vector>

#include "layers/config/config.hpp"

// A preset is a model that people know: its wiring and, under each size name, its numbers.
struct Preset {
  const char *name, *size, *note;
  Config config;
  const char* source;
  const char* missing;  // what of the model is not implemented; "": nothing
};
const std::vector<Preset>& presets();
const Preset& preset_row(std::string_view preset, std::string_view size);  // throws naming the nearest
Config preset_config(std::string_view preset, std::string_view size);      // likewise
std::vector<std::string> preset_names();                                   // each once
