#pragma once
// The functions that take a training step, as the product has them and as the textbook does. Arguments and results are
// the same; the textbook's compute in double, on one thread, and round what they leave to float: gradients, moments and
// weights. So a checkpoint holds the whole state, and a resumed run has the same bits.

#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"

struct StepFunctions {
  decltype(&model_loss_and_gradients) loss_and_gradients;
  decltype(&gradient_norm) norm;
  decltype(&clip_factor) clip;
  decltype(&adamw_step) adamw;
};
inline constexpr StepFunctions kFastStep = {model_loss_and_gradients, gradient_norm, clip_factor, adamw_step};
extern const StepFunctions kTextbookStep;  // takes no observer: pass null

// About the bytes that the textbook takes in a step on B sequences, besides what training has anyway. Throws std::overflow_error.
size_t memory_of_textbook(const Config& config, int B);
