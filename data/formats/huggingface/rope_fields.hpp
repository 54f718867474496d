#pragma once
// RoPE in the config.json of transformers' classes. `absent` is the base that a class takes if config.json has none.

#include "config_keys.hpp"

inline constexpr const char* kRotaryShare = "partial_rotary_factor";

// Place it after the context. `partial`: partial_rope() follows. `outside` is the key of the base in files that
// versions of transformers before 5 wrote.
ConfigField rope(float absent = 10000, bool partial = false, const char* outside = "rope_theta");

// RoPE on a share of each head. Place it after rope() and the sizes, which it uses.
ConfigField partial_rope(float absent, const char* outside = kRotaryShare);

// RoPE with a base for layers with a window, and another base, which alone may be stretched, for the others. Before
// version 5 of transformers they stood in rope_theta, rope_scaling and `local`, a key that a class may lack.
ConfigField rope_by_window(float absent, float absent_local, const char* local = nullptr);
