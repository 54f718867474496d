#pragma once
// The textbook's functions for a training step.
//
// They compute in double on one thread and round their results (gradients, moments and weights) to float, so a
// checkpoint holds the whole state and a resumed run has the same bits.

#include "layers/training/step.hpp"

extern const StepFunctions kTextbookStep;  // observer must be null

// Estimates the bytes that a textbook step on B sequences allocates, in addition to the fast model's. Throws
// std::overflow_error.
size_t memory_of_textbook(const Config& config, int B);
