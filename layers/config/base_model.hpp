#pragma once
// The sizes of a model compared with those of its base model, whose learning rate is tuned (parametrization.hpp).

#include "config.hpp"

// m, l and h; 1 where the parametrization does not look.
struct Ratios {
  double width = 1, depth = 1, heads = 1;
};
Ratios ratios_of(const Config& config);

// True if the parametrization has rules for the depth: completep and nugpt.
bool scales_depth(const Config& config);

// The base model's channels, if the parametrization scales the width, or the model's own.
int base_width(const Config& config);

// If the parametrization scales the depth, what depends on it is as in the base model, but for the factor on branches.
// These return the base model's depth, and its block at the same relative depth as `layer`. With other parametrizations
// they return the model's own.
int base_depth(const Config& config);
int base_layer(const Config& config, int layer);
