#pragma once
// Progress of long work: a bar on a terminal, a plain line now and then elsewhere.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The time that is left, from the speed of about the last half minute: it follows a machine that gets busy.
class Pace {
 public:
  explicit Pace(int64_t first) : done_(first) {}
  // Tells it that `done` were done at `now`, in seconds from the start.
  void reach(int64_t done, double now);
  double seconds_for(int64_t more) const { return seconds_ / count_ * static_cast<double>(more); }  // after reach()

 private:
  int64_t done_;
  double now_ = 0, seconds_ = 0, count_ = 0;  // the last two fade
};

class Progress {
 public:
  // Counts `unit`s from `first` to `total`. The first line appears after `quiet` seconds (on a terminal sooner).
  Progress(int64_t first, int64_t total, std::string unit = "step", double quiet = 0);
  ~Progress();

  // Shows where it stands. `details` is only called if the line is shown: "loss 1.234  23,100 tok/s".
  void update(int64_t done, const std::function<std::string()>& details);
  void set_total(int64_t total) { total_ = total; }
  // A line that stays.
  void line(const std::string& text);

 private:
  void clear();

  Stopwatch clock_;
  Pace pace_;
  int64_t first_, total_;
  std::string unit_;
  bool terminal_, shown_ = false;
  double next_;  // seconds from the start at which the next update is shown
};
