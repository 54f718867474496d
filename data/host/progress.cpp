#include "progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "data/strings/format.hpp"

void Pace::reach(int64_t done, double now) {
  const double keep = std::exp((now_ - now) / memory_);
  seconds_ = keep * seconds_ + (now - now_);
  count_ = keep * count_ + static_cast<double>(std::max<int64_t>(0, done - done_));
  done_ = done;
  now_ = now;
}

namespace {

// Under Open MPI's mpirun each process has a terminal, but its output may end in a file.
bool has_terminal() { return isatty(STDOUT_FILENO) != 0 && !std::getenv("OMPI_COMM_WORLD_SIZE"); }

}  // namespace

Progress::Progress(const Pace& pace, int64_t total, std::string unit, double quiet)
    : pace_(pace), total_(total), unit_(std::move(unit)), terminal_(has_terminal()),
      next_(terminal_ ? std::min(quiet, .5) : quiet) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stdout);
  shown_ = false;
  std::fflush(stdout);
}

void Progress::line(const std::string& text) {
  clear();
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Progress::update(int64_t done, const std::function<std::string()>& describe) {
  const double now = clock_.seconds();
  if (now < next_ && done < total_) return;
  const std::string details = describe();
  const std::string place = unit_ + " " + std::to_string(done) + "/" + std::to_string(total_) + " ";
  std::string left;
  pace_.reach(done, now);
  if (const double seconds = pace_.seconds_for(total_ - done); std::isfinite(seconds))
    left = "  " + format_seconds(seconds) + " left";
  if (!terminal_) {
    next_ = now + 10;
    return line(place + " " + details + left);
  }
  next_ = now + .1;
  winsize window{};
  const int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  const int room = columns - static_cast<int>(place.size() + details.size() + left.size()) - 3;
  const int width = room < 10 ? 0 : std::min(room, 40), full = total_ > 0 ? int(width * done / total_) : width;
  std::string bar = width > 0 ? " " : "";
  for (int i = width; i-- > 0;) bar = (i < full ? "█" : "·") + bar;
  // A wrapped line could not be overwritten, so cut the details.
  const int fits = std::max(0, static_cast<int>(details.size()) + std::min(room, 0));
  std::printf("\r\033[K%s%s %.*s%s", place.c_str(), bar.c_str(), fits, details.c_str(), left.c_str());
  shown_ = true;
  std::fflush(stdout);
}
