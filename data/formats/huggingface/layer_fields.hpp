#pragma once
// What differs between layers in the config.json of transformers' classes. Place these fields after the number of
// layers and the window, which they use.

#include <string>

#include "config_keys.hpp"

// layer_types: which layers have the window. If the list is absent, the layers `absent` have it, or all but the last of
// each n, where n is the value of the key `period`.
ConfigField layer_types(const std::string& absent, const char* period = nullptr);

// The same list in a class whose layers see all keys here.
ConfigField full_layers();

// SmolLM3's no_rope_layers, in which 1 is a layer with RoPE.
ConfigField no_rope_layers();

// GPT-Neo's attention_types: pairs of a list of types, and how often it repeats.
ConfigField attention_types();
