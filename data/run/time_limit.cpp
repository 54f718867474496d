#include "time_limit.hpp"

#include <algorithm>
#include <cmath>

#include "data/host/interrupt.hpp"
#include "data/host/peak.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "evaluate.hpp"
#include "generate_text.hpp"
#include "schedule.hpp"

namespace {

const Stopwatch since_start;

// The time that parts of a run take, in seconds.
struct Timing {
  double step = 0, validation_batch = 0, save = 0, token = 0;
};

// The median time of a few calls of f, within about `budget` seconds. The first call only warms up. On a busy machine,
// one call may take as long as a hundred others, and so may all calls within a few milliseconds. So calls continue for
// a tenth of a second even if the budget is smaller.
template <class F>
double time_of(double budget, int most, F f) {
  constexpr double kLeast = .1;
  const Stopwatch whole;
  f(0);
  std::vector<double> seconds;
  const auto enough = [&] { return static_cast<int>(seconds.size()) >= most || whole.seconds() >= budget; };
  do {
    const Stopwatch clock;
    f(static_cast<int>(seconds.size()) + 1);
    seconds.push_back(clock.seconds());
  } while ((whole.seconds() < kLeast || !enough()) && !interrupted());
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

// Times some steps at a learning rate of 0. They change the optimizer state and BatchNorm's running statistics, so the
// trainer returns to its start afterwards.
double measure_step(Trainer& t, double budget) {
  const double seconds = time_of(budget / 20, 20, [&](int i) { take_step(t, i, 0); });
  go_to_start(t);
  t.within_step = false;
  return seconds;
}

// Times a validation batch and a sample. Leaves the run unchanged.
Timing measure_rest(Trainer& t, double budget, double step) {
  Timing s;
  s.step = step;
  if (!t.data.val.empty())
    s.validation_batch =
        time_of(budget / 50, 5, [&](int) { evaluate(t.model, t.activations, t.data, t.options().batch, 1); }) /
        t.group->size;
  constexpr int kTokens = 16;
  const Generation how{.length = kTokens, .sampling = {.temperature = .8f}, .activations = &t.activations};
  const bool samples = !t.options().quiet || t.options().sample_every > 0;
  if (samples && !t.data.masking.on() && !t.data.has_sources)  // filling masks and short targets take little time
    s.token = time_of(budget / 50, 5, [&](int) {
                generate_text(t.model, t.data.tokenizer, "", how, [](const std::string&) {});
              }) / kTokens;
  constexpr double kDiskBytesPerSecond = 5e8;  // an ordinary solid-state disk
  const size_t floats = t.model.floats + state_floats(t.model.table);
  s.save = sizeof(float) * static_cast<double>(floats) / kDiskBytesPerSecond;
  return s;
}

// Returns the time from the last step to the end of the program.
double end_seconds(const Trainer& t, const Timing& s, int64_t steps) {
  const double seconds = s.save + (t.options().quiet ? 0 : s.token * t.sample_length());
  if (!t.validates()) return seconds;
  const int64_t all = validation_batches(t.data, t.options().batch), estimate = t.batches_per_validation();
  const bool both = estimate < all && t.measures_whole_validation(steps);
  return seconds + s.save + s.validation_batch * static_cast<double>(estimate + (both ? all : 0));
}

// Returns the time of a step, with its share of work that is done only every few steps.
double seconds_per_step(const Trainer& t, const Timing& s) {
  const auto share = [](double seconds, int64_t every) { return every > 0 ? seconds / static_cast<double>(every) : 0; };
  return s.step + share(s.save, t.options().save_every) +
         share(s.token * t.sample_length(), t.options().sample_every) +
         share(s.validation_batch * static_cast<double>(t.batches_per_validation()), eval_every(t.options()));
}

// Describes the measured peak. Measures only what it reports. bf16 may be slower than fp32.
std::string speed_text(Matmul matmul) {
  const double fp32 = measure_flops(Matmul::fp32) * 1e-9;
  if (matmul == Matmul::fp32 || !gemm_has_bf16()) return format("speed    at most %.0f GFLOP/s in fp32", fp32);
  const double bf16 = measure_flops(Matmul::bf16) * 1e-9;
  return format("speed    at most %.0f GFLOP/s in bf16, ", bf16) + format("%.0f in fp32", fp32) +
         (bf16 < fp32 ? ": on this processor bf16 is slower" : "");
}

// Returns the floating-point operations of a step, on all ranks.
double operations_of_step(const TrainOptions& o) {
  return flops_per_token(o.config, table_of_run(o)) * o.batch * static_cast<double>(o.accumulate) * o.config.context;
}

}  // namespace

std::vector<std::string> speed_and_time(Trainer& t, int64_t first, double step_seconds) {
  constexpr int64_t kFew = 100;  // for fewer steps, measuring is not worth its time
  if (t.options().quiet) return {};
  std::vector<std::string> lines = {speed_text(t.model.config.matmul)};
  if (t.options().time_in_all > 0 || t.options().steps - first < kFew) return lines;
  lines.push_back("time     about " + format_seconds(seconds_of_run(t, first, step_seconds)) +
                  " at the speed of the first steps");
  return lines;
}

double seconds_of_run(Trainer& t, int64_t first, double step_seconds) {
  constexpr double kBudget = 10;  // seconds for all measurements; half a second for steps
  const Timing timing = measure_rest(t, kBudget, step_seconds > 0 ? step_seconds : measure_step(t, kBudget));
  const double steps = static_cast<double>(t.options().steps - first);
  return steps * seconds_per_step(t, timing) + end_seconds(t, timing, t.options().steps);
}

double operations_of_run(const TrainOptions& o) { return static_cast<double>(o.steps) * operations_of_step(o); }

bool is_quickly_tried(const TrainOptions& o) {
  constexpr size_t kMemory = size_t{1} << 30;
  constexpr double kOperations = 1e11;  // per step: a second or two on a laptop
  return !o.textbook && memory_of_run(o).total() <= kMemory && operations_of_step(o) <= kOperations;
}

std::vector<std::string> predicted_time(TrainOptions& o, int64_t first, int ranks) {
  const double step = operations_of_step(o) / (measure_flops(o.config.matmul) * ranks);
  const bool timed = !o.time_limit.empty();
  if (timed) o.steps = first + std::max<int64_t>(1, static_cast<int64_t>(parse_seconds(o.time_limit) / step));
  if (o.quiet) return {};
  const double steps = static_cast<double>(o.steps - first);
  return {speed_text(o.config.matmul),
          timed ? "time     at most " + counted(steps, "step") + " in " + o.time_limit + ", at that speed"
                : "time     at least " + format_seconds(steps * step) + ", at that speed"};
}

TimeLimit::TimeLimit(Trainer& t) : first_(t.state.step) {
  if (t.options().time_in_all == 0) return;
  const double budget = t.options().time_in_all - t.state.elapsed;
  const double left = budget - since_start.seconds();
  const Timing timing = measure_rest(t, left, measure_step(t, left));
  const double each = seconds_per_step(t, timing);
  start_ = since_start.seconds();
  const auto fits = [&](double end) { return std::max<int64_t>(1, std::llround((budget - start_ - end) / each)); };
  const int64_t without_end = fits(0);
  const double end = end_seconds(t, timing, without_end);
  end_ = budget - end;
  cool_down_ = end_ - .1 * std::max(0., end_ - start_);
  constexpr double kMore = 1.05;
  t.state.options.steps = first_ + static_cast<int64_t>(kMore * static_cast<double>(fits(end)) + .5);
}

bool TimeLimit::shorten(Trainer& t, int64_t step) {
  const double now = since_start.seconds();
  if (now < cool_down_ || step == first_ || step >= t.options().steps) return false;
  if (now >= end_) {
    cut_short(t.state.options, step);
  } else {
    cool_down_ = end_;
    const double pace = (now - start_) / static_cast<double>(step - first_);
    const int64_t last = step + std::max<int64_t>(1, static_cast<int64_t>((end_ - now) / pace));
    if (last >= t.options().steps) return false;
    cool_down(t.state.options, step, last);
  }
  return true;
}
