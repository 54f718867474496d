#pragma once
// Output of a training run when it ends.

#include <string>

#include "outcome.hpp"
#include "trainer.hpp"

// A sample of `length` tokens between two lines; it is also appended to samples.txt.
std::string text_sample(const Trainer& t, int64_t step, int length);

// Of a run that has taken its last step: losses, files, a sample, and commands to go on with.
void print_summary(const Trainer& t, const RunOutcome& outcome);

// Of a run that the user stopped at `step`. `saved` is false if its model has exploded.
void print_stopped(const Trainer& t, int64_t step, bool saved);
