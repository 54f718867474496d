#pragma once
// The learning rate of a run over its whole life: one schedule, or several if it was resumed with another one.
//
// --lr, --min-lr, --warmup and --schedule describe the current schedule, which goes from --schedule-start to
// --schedule-end. After its end the rate stays where it is. --earlier-schedules lists the ones before it, so that the
// config of a run repeats the run.

#include <cstdint>
#include <string>

#include "data/options/options.hpp"

// The learning rate of `step`, counted from 0.
double rate_at(const TrainOptions& options, int64_t step);

// Sets the schedule of a run that is resumed at step `reached`. `now` has the options as merged, `before` those of the
// checkpoint, `given` the command line. --steps alone keeps the schedule; --lr, --min-lr, --warmup or --schedule begin
// a new one. Returns what to tell the user; "" if nothing changes. Throws std::invalid_argument if --steps is not above
// `reached`.
std::string resume_schedule(TrainOptions& now, const TrainOptions& before, int64_t reached, const Command& given);

// Lets the rate fall in a straight line from step `from` to the end of the run, which becomes `to`. A constant rate
// stays constant.
void cool_down(TrainOptions& options, int64_t from, int64_t to);

// Ends the run at `step` and leaves the rates of the steps before it as they are.
void cut_short(TrainOptions& options, int64_t step);
