#pragma once
// The learning-rate schedule of a run: one, or several if the run was resumed with new ones.
//
// --lr, --min-lr, --warmup and --schedule describe the current schedule, which goes from --schedule-start to
// --schedule-end. After its end the rate stays constant. --earlier-schedules lists the previous ones, so that
// config.toml can repeat the whole run.

#include <cstdint>
#include <string>

#include "data/options/options.hpp"

// Returns the learning rate of `step`, counted from 0.
double rate_at(const TrainOptions& options, int64_t step);

// Sets the schedule in `now`, the options of a run that is resumed at step `reached`. `before` are the checkpoint's
// options, `given` is the command line. --steps alone keeps the schedule; --lr, --min-lr, --warmup or --schedule begin
// a new one. Returns a message for the user, or "" if nothing changes. Throws std::invalid_argument if --steps is not
// above `reached`.
std::string resume_schedule(TrainOptions& now, const TrainOptions& before, int64_t reached, const Command& given);

// Makes the rate fall linearly from step `from` to the end of the run, which becomes `to`. A constant rate stays
// constant.
void cool_down(TrainOptions& options, int64_t from, int64_t to);

// Ends the run at `step` without changing the rates of earlier steps.
void cut_short(TrainOptions& options, int64_t step);
