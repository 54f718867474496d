#pragma once
// The table of parametrizations: how initial weights, learning rates, weight decay, AdamW's epsilon and the factors
// within a model depend on its width and depth, so that rates tuned on a small model fit a large one.
//
//   sp          standard: nothing depends on the sizes but what the initialization says
//   mup         maximal update, in width (Yang et al. 2022, arXiv 2203.03466, table 8)
//   completep   mup, and branches times 1/depth (Dey et al. 2025, arXiv 2505.01618, table 1, α = 1)
//   nugpt       nGPT's own, in width and depth (Shigida, Hanin & Gromov 2026, arXiv 2604.27077, section 3.1)
//
// Sizes count as ratios to those of a base model, in which all agree: m = channels / base_channels,
// l = layers / base_layers, h = heads / base_heads. A factor is a product of powers of them. mup has l = 1, and sp has
// m = l = h = 1. The feed-forward layer's width and the size of all heads together grow as the channels do.
//
// README.md derives the rows.

#include <string_view>

#include "base_model.hpp"
#include "tensors.hpp"

// A factor m^width · l^depth · h^heads.
struct Exponents {
  double width = 0, depth = 0, heads = 0;
};
Exponents operator+(const Exponents& a, const Exponents& b);
Exponents operator-(const Exponents& a, const Exponents& b);

double factor_of(const Config& config, const Exponents& exponents);

// Which dimensions of a tensor grow. Adam moves every number by the learning rate, so `rate` keeps the change of what
// the tensor computes at the same size.
struct ShapeRule {
  const char* name;
  Exponents start = {};     // the size of its numbers before training: the factor on the initial deviation
  Exponents rate = {};      // on the learning rate of Adam
  Exponents gradient = {};  // the size of its gradient: the factor on Adam's epsilon
  Exponents ones = {};      // the spectral norm of a matrix of ones
  bool (*holds)(const TensorSpec& spec, const Config& config);
};

// Where a tensor acts. Its exponents are of the depth, and are added to those of its shape.
struct PlaceRule {
  const char* name;
  Exponents rate = {}, gradient = {};
  bool (*holds)(const TensorSpec& spec);
};

const ShapeRule& shape_rule(const TensorSpec& spec, const Config& config);
const PlaceRule& place_rule(const TensorSpec& spec);

// How the step of an optimizer depends on the gradient, which decides its learning rate.
enum class StepRule {
  sign,              // not on its size: AdamW, Lion
  gradient,          // in proportion: SGD
  relative,          // not on its size, in proportion to the tensor: Adafactor
  orthogonal,        // a step of fixed spectral norm: Muon
  orthogonal_by_rms  // the same, times the root of the larger dimension
};

// The factors of a tensor.
struct TensorFactors {
  double start = 1, rate = 1, decay = 1, epsilon = 1;
};
TensorFactors tensor_factors(const TensorSpec& spec, const Config& config, StepRule rule);
double start_factor(const TensorSpec& spec, const Config& config);

// Factors within a model.
double logit_factor(const Config& config);
double branch_factor(const Config& config);
double score_factor(const Config& config);  // on the attention scores, besides D^-½
