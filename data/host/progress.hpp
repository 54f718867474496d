#pragma once
// Shows the progress of long work: a bar on a terminal, otherwise a line every ten seconds.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Estimates the remaining time from the speed of about the last `memory` seconds, so it adapts if the machine gets
// busy.
class Pace {
 public:
  explicit Pace(int64_t first, double memory = 30) : done_(first), memory_(memory) {}
  // `now`: seconds since the start.
  void reach(int64_t done, double now);
  void skip(int64_t steps) { done_ += steps; }      // counts steps that were done before
  void pause(double seconds) { now_ += seconds; }  // leaves out time in which nothing ran
  double seconds_for(int64_t more) const { return seconds_ / count_ * static_cast<double>(more); }  // after reach()

 private:
  int64_t done_;
  double memory_, now_ = 0, seconds_ = 0, count_ = 0;  // seconds_ and count_ decay
};

class Progress {
 public:
  // Counts `unit`s from `first` to `total`. The first line appears after `quiet` seconds (on a terminal sooner).
  Progress(int64_t first, int64_t total, std::string unit = "step", double quiet = 0)
      : Progress(Pace(first), total, std::move(unit), quiet) {}
  Progress(const Pace& pace, int64_t total, std::string unit = "step", double quiet = 0);
  ~Progress();

  // Shows the progress if a line is due. Only then calls `details`, which returns text such as
  // "loss 1.234  23,100 tokens/s".
  void update(int64_t done, const std::function<std::string()>& details);
  void set_total(int64_t total) { total_ = total; }
  Pace& pace() { return pace_; }
  // Prints a line that stays.
  void line(const std::string& text);

 private:
  void clear();

  Stopwatch clock_;
  Pace pace_;
  int64_t total_;
  std::string unit_;
  bool terminal_, shown_ = false;
  double next_;  // when the next update is shown, in seconds since the start
};
