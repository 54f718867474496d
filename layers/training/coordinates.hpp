#pragma once
// A coordinate check (Yang et al. 2022, arXiv 2203.03466, appendix D.1): how far a few training steps move every
// activation of a model. If its parametrization is right, the distance does not depend on the model's size.

#include <functional>
#include <string>
#include <vector>

#include "step.hpp"

// The root mean square of an activation's change since step 0, on one batch.
//
//   stream          y (S,N,C) of a block
//   attention, ffn  f (N,C), what the sublayer puts out, before norm_out, gain and branch_scale
//   logits          (N,V), before their cap
struct Change {
  int layer;  // kOutside for logits
  std::string part;
  double rms;
};

struct CoordinateCheck {
  int steps;
  double lr;
  StepOptions options;
  std::function<MicroBatches(int64_t step)> batches;  // the first one is also the batch that is looked at
};

// Takes the steps. Returns the changes after each.
std::vector<std::vector<Change>> changes_by_step(TrainingState& state, const CoordinateCheck& check);

// Returns the root mean square over layers of a part's changes; of the last layer's alone for "stream".
double size_of_change(const std::vector<Change>& changes, const std::string& part);
inline constexpr const char* kCheckedParts[] = {"stream", "attention", "ffn", "logits"};

// Returns the least-squares slope of log y over log x; NaN for fewer than two different x.
double log_log_slope(const std::vector<std::pair<double, double>>& points);
