#pragma once
// The functions of a training step, in two versions: the fast layers and the textbook.
//
// Both take the same arguments. The textbook computes in double on one thread and rounds its results (gradients,
// moments and weights) to float, so a checkpoint holds the whole state and a resumed run has the same bits.

#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"

struct StepFunctions {
  decltype(&model_loss_and_gradients) loss_and_gradients;
  decltype(&gradient_norm) norm;
  decltype(&clip_factor) clip;
  decltype(&adamw_step) adamw;
};
inline constexpr StepFunctions kFastStep = {model_loss_and_gradients, gradient_norm, clip_factor, adamw_step};
extern const StepFunctions kTextbookStep;  // observer must be null

// Estimates the bytes that a textbook step on B sequences allocates, in addition to those of the fast model. Throws
// std::overflow_error.
size_t memory_of_textbook(const Config& config, int B);
