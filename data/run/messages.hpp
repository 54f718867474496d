#pragma once
// Messages of a training run: warnings before it starts, samples, and the summary when it ends.

#include <string>
#include <vector>

#include "trainer.hpp"

// Options that are allowed but probably a mistake. One line each, with what to do. `runs` are all runs that the options
// are for, before resolved(): an option that none of them reads is a mistake.
std::vector<std::string> warnings_about(const TrainOptions& options, const std::vector<TrainOptions>& runs);

// Warns if the text is small for the model or is read too often.
std::vector<std::string> warnings_about(const Dataset& data, const TrainOptions& options, size_t parameters);

// The number of times that the steps cover the training text.
double epochs_of(const Dataset& data, const TrainOptions& options);

// A sample of `length` tokens between two lines; it is also appended to samples.txt.
std::string text_sample(const Trainer& t, int64_t step);

// Prints the losses and files of a run that has taken its last step, a sample, and commands to go on with.
void print_summary(const Trainer& t, const RunOutcome& outcome);

// Prints how to resume a run that the user stopped at `step`. `saved` is false if its model has exploded.
void print_stopped(const Trainer& t, int64_t step, bool saved);
