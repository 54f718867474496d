#include "schedule.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "data/options/command_settings.hpp"
#include "data/options/toml.hpp"
#include "data/strings/format.hpp"

namespace {

// One schedule, from step `from` to step `to`.
struct Phase {
  int64_t from = 0, to = 0;
  LearningRate rate;
};

int64_t end_of(const TrainOptions& o) { return o.schedule_end > 0 ? o.schedule_end : o.steps; }

Phase current(const TrainOptions& o) { return {o.schedule_start, end_of(o), o.rate}; }

std::string text_of(const Phase& p) {
  return std::to_string(p.from) + " " + std::to_string(p.to) + " " + name_of(kSchedules, p.rate.schedule) + " " +
         toml(p.rate.lr) + " " + toml(p.rate.min_lr) + " " + std::to_string(p.rate.warmup_steps(p.to - p.from)) +
         (p.rate.decay > 0 ? " " + std::to_string(p.rate.decay) : "");
}

Phase parse_phase(const std::string& text) {
  Phase p;
  std::string schedule, rest;
  std::istringstream in(text);
  const bool complete = !!(in >> p.from >> p.to >> schedule >> p.rate.lr >> p.rate.min_lr >> p.rate.warmup);
  if (complete && !(in >> p.rate.decay)) in.clear(in.rdstate() & ~std::ios::failbit);
  if (!complete || (!in.eof() && in >> rest))
    throw std::invalid_argument("--earlier-schedules '" + text + "' is not \"FROM TO SCHEDULE LR MIN-LR WARMUP\"");
  p.rate.schedule = value_of(kSchedules, "schedule", schedule);
  return p;
}

void begin_schedule(TrainOptions& o, int64_t from, int64_t to, const LearningRate& rate) {
  if (from > o.schedule_start) o.earlier_schedules.push_back(text_of(current(o)));
  o.schedule_start = from;
  o.schedule_end = to;
  o.rate = rate;
}

std::string describe(const LearningRate& r, int64_t start, const std::string& end) {
  std::string text = format("%g", r.lr);
  if (r.warmup_percent > 0) text = "up to " + text + format(" over the first %g%% of the steps", r.warmup_percent);
  else if (r.warmup > 0) text = "up to " + text + " by step " + std::to_string(start + r.warmup);
  if (!has_end(r.schedule)) return text + ", then " + name_of(kSchedules, r.schedule);
  return text + ", then " + name_of(kSchedules, r.schedule) + " to " + format("%g", r.min_lr) + " at " + end;
}

constexpr const char* kHowToBegin = "; --lr, --min-lr, --warmup or --schedule begin a new one";

// True if a schedule ended before its warm-up did. A longer one has had the same rates until then.
bool ended_in_warmup(const TrainOptions& o) {
  return o.rate.warmup_percent == 0 && end_of(o) - o.schedule_start <= o.rate.warmup;
}

// True if the user has set an option of the schedule that has an effect.
bool asks_for_schedule(const Command& given, const TrainOptions& now) {
  const auto acts = [&](const TrainSetting& s) {
    return std::ranges::all_of(s.needs, [&](const auto& need) { return !need.met || need.met(now); });
  };
  return std::ranges::any_of(train_settings(), [&](const TrainSetting& s) {
    return s.schedule && given.said(s.name) && acts(s);
  });
}

}  // namespace

double rate_at(const TrainOptions& o, int64_t step) {
  Phase phase = current(o);
  for (auto text = o.earlier_schedules.rbegin(); step < phase.from && text != o.earlier_schedules.rend(); ++text)
    phase = parse_phase(*text);
  return phase.rate.at(std::max<int64_t>(0, step - phase.from), phase.to - phase.from);
}

std::string resume_schedule(TrainOptions& now, const TrainOptions& before, int64_t reached, const Command& given) {
  const bool timed = now.time_in_all > 0;
  if (!given.said("steps") && now.epochs == 0 && now.tokens_per_parameter == 0) now.steps = before.steps;
  if (!timed && now.steps <= reached && now.steps != before.steps)
    throw std::invalid_argument("--steps " + std::to_string(now.steps) + ": " + now.out + " has already reached step " +
                                std::to_string(reached) + "; name a later step");
  const bool other_end = timed || now.steps != before.steps;
  const LearningRate wanted = now.rate;
  const int64_t wanted_end = given.said("schedule-end") ? now.schedule_end : 0;
  if (wanted_end > 0 && wanted_end <= reached && wanted_end != before.schedule_end)
    throw std::invalid_argument("--schedule-end " + std::to_string(wanted_end) + ": " + now.out +
                                " has already reached step " + std::to_string(reached) + "; name a later step");
  const bool asked = asks_for_schedule(given, now) || wanted_end > 0;
  now.rate = before.rate;
  now.schedule_start = before.schedule_start;
  now.schedule_end = before.schedule_end;
  now.earlier_schedules = before.earlier_schedules;
  if (now.rate.min_lr != now.rate.lr / 10) now.min_lr = now.rate.min_lr;
  if (other_end) now.schedule_end = end_of(before);

  const double rate = rate_at(before, std::max<int64_t>(0, reached - 1));
  const std::string end_step = "step " + std::to_string(wanted_end > 0 ? wanted_end : now.steps);
  const std::string last = timed && wanted_end == 0 ? "the last step" : end_step;
  if (asked && (other_end || text_of({0, now.steps, wanted}) != text_of({0, now.steps, before.rate}))) {
    begin_schedule(now, reached, wanted_end, wanted);
    return "a new schedule from step " + std::to_string(reached) + ": " + describe(wanted, reached, last) +
           format(" (the rate was %g)", rate);
  }
  if (timed && !given.said("for")) return "";
  if (!other_end || !has_end(before.rate.schedule)) return "";
  if (ended_in_warmup(before) && !timed) {
    now.schedule_end = wanted_end;
    return "the schedule, which was in its warm-up, now ends at " + end_step;
  }
  const std::string end = std::to_string(end_of(before));
  if (before.rate.lr > 0 && now.steps > end_of(before) && rate_at(now, now.steps) == 0)
    throw std::invalid_argument("the learning rate stays at 0 from step " + end + " on, so nothing would be learned" +
                                format("; --lr %g begins a new schedule", before.rate.lr));
  if (reached >= end_of(before))
    return format("the rate stays at %g: ", rate_at(now, reached)) + "the schedule ended at step " + end + kHowToBegin;
  return "the schedule still ends at step " + end +
         (now.steps > end_of(before) ? format(", then the rate stays at %g", before.rate.min_lr)
                                     : "; the run ends before it") +
         kHowToBegin;
}

void cool_down(TrainOptions& o, int64_t from, int64_t to) {
  const double rate = rate_at(o, from);
  if (has_end(o.rate.schedule))
    begin_schedule(o, from, to, {rate, std::min(rate, o.rate.min_lr), 0, Schedule::linear});
  o.min_lr = o.rate.min_lr;
  o.steps = to;
}

void cut_short(TrainOptions& o, int64_t step) {
  o.schedule_end = end_of(o);
  o.steps = step;
}
