#pragma once
// Messages of a training run: warnings before it starts, samples, and the summary when it ends.

#include <string>
#include <vector>

#include "trainer.hpp"

// Warns of options that are allowed but probably a mistake, in one line each that says what to do. `runs` have the
// options in force, `given` those before resolved(): an option that no run reads is a mistake. Another mistake is named
// as the first run makes it.
std::vector<std::string> warnings_about(const std::vector<TrainOptions>& runs, const std::vector<TrainOptions>& given);

// Warns if the text is too small for the model or is read too often.
std::vector<std::string> warnings_about(const Dataset& data, const TrainOptions& options, size_t parameters);

// Returns how many times the steps cover the training text.
double epochs_of(const Dataset& data, const TrainOptions& options);

// Returns a sample of up to Trainer::sample_length() tokens between two lines. Also appends it to samples.txt. Ctrl-C
// ends it unstored.
std::string text_sample(const Trainer& t, int64_t step);

// Prints the losses and files of a run after its last step, a sample, and commands to try next.
void print_summary(const Trainer& t, const RunOutcome& outcome);

// Prints how to resume a run that the user stopped at `step`. `saved` is false if its model has exploded.
void print_stopped(const Trainer& t, int64_t step, bool saved);
