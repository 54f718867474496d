#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "data/host/progress.hpp"
#include "data/strings/format.hpp"

namespace {

// Threads of PyTorch's OpenMP spin for 5 to 10 ms after their work, ours for less.
void let_threads_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(12)); }

// Warms up, then takes repetitions of at least a millisecond each, because a case may take one microsecond. From the
// second round on, a long case needs no warm-up. dev/bench/peer.py does the same.
double median_repetition(const std::function<void()>& work, double least, bool first) {
  const Stopwatch warm_up;
  work();
  const double once = warm_up.seconds();
  std::vector<double> seconds;
  if (!first && once > 10 * least) return once;
  const int calls = std::max(1, static_cast<int>(1e-3 / once));
  for (double all = 0; seconds.empty() || all < least; all += seconds.back() * calls) {
    const Stopwatch clock;
    for (int i = 0; i < calls; ++i) work();
    seconds.push_back(clock.seconds() / calls);
  }
  return median(seconds);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double speedup(const Times& ours, const Times& theirs) {
  std::vector<double> ratios;
  for (size_t r = 0; r < std::min(ours.rounds.size(), theirs.rounds.size()); ++r)
    ratios.push_back(theirs.rounds[r] / ours.rounds[r]);
  return median(ratios);
}

Contestant Clockwork::ours(std::function<void()> work) const {
  return [this, work = std::move(work)](bool first) { return median_repetition(work, least, first); };
}

Contestant Clockwork::theirs(const std::string& request) const {
  return [this, line = request + " least=" + format("%g", least)](bool) { return median(peer.seconds(line)); };
}

std::vector<Times> Clockwork::race(const std::vector<Contestant>& contestants) const {
  const int n = static_cast<int>(contestants.size());
  std::vector<Times> times(contestants.size());
  std::vector<bool> out(contestants.size(), false);
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < n; ++i) {
      const int who = r % 2 == 0 ? i : n - 1 - i;
      if (out[who]) continue;
      if (n > 1) let_threads_sleep();
      const double seconds = contestants[who](r == 0);
      out[who] = std::isnan(seconds);
      times[who].rounds.push_back(seconds);
    }
  for (int i = 0; i < n; ++i)
    if (out[i]) times[i].rounds.clear();
  return times;
}
