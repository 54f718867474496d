#pragma once
// Validation of a training run.

#include "data/host/progress.hpp"
#include "metrics.hpp"
#include "outcome.hpp"
#include "trainer.hpp"

// Measures the loss on --eval-batches into `row` and prints it; a new best is saved. Ctrl-C stops it: `row` stays.
// Throws Diverged if the loss is not finite.
void validate(Trainer& t, Progress& progress, MetricsRow& row);

// Measures a run that has taken its last step and is saved: as validate() does, then on the whole validation split if
// that is small enough. Returns false if the user stops it.
bool measure_end(Trainer& t, Metrics& metrics, Progress& progress, RunOutcome& outcome);
