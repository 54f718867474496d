#pragma once
// The norm of a model, chosen by its settings: one table, kNorms in norm.cpp, with a row for each NormKind.
//
//   layernorm       LayerNorm and RMSNorm: statistics of a row
//   norm_scale      ScaleNorm: one gain for all channels
//   norm_batch      BatchNorm: statistics of a channel over the batch
//   norm_pointwise  DyT and Derf: an S-shaped function of each number, no statistics
//   norm_gated      GatedNorm: RMSNorm with a gate that reads the whole row
//
// To add one, add a NormKind with its name, a row, and a file pair with its forward and backward.

#include <string>

#include "norm_parameters.hpp"

// Returns the Config with the kind, gain and bias of the norm with this name. A norm that is named for its site has a
// gain unless it is plain, and a bias if linear layers have one and its kind does, too.
Config at_norm(Config config, std::string_view norm);

// A norm over rows of `width` channels.
Norm declare_norm(Layout& layout, const Config& config, const std::string& name, int width);
NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int width);

// Writes y and returns it; an absent norm returns x. y may be x. Only BatchNorm reads `training`: if true it uses the
// statistics of these rows, otherwise the running ones.
const float* norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);

// Writes dx and returns it; an absent norm returns dy. dx may be dy. BatchNorm updates its running statistics here.
const float* norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                           const Norm& p, int N, int C);

// True if a tensor is a running statistic of BatchNorm.
bool is_running(const TensorSpec& spec);

struct NormRow {
  NormKind kind;
  const char* source;
  bool bias;      // has a bias if linear layers do, unless norm_bias says otherwise
  bool row_norm;  // statistics per row, one gain per channel: allows a unit offset and QK-norm
  void (*declare)(Norm& p, Layout& layout, const Config& config, const std::string& name, int C);
  void (*declare_saved)(NormSaved& saved, Layout& layout, const std::string& name, int N, int C);
  void (*forward)(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
  void (*backward)(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved, const Norm& p,
                   int N, int C);
};
const NormRow& norm_row(NormKind kind);
