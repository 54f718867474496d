#include "progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

std::string format(const char* printf_format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, printf_format, value);
  return text;
}

size_t columns_of(const std::string& utf8) {
  size_t columns = 0;
  for (const char c : utf8) columns += (c & 0xc0) != 0x80;  // bytes that begin a character
  return columns;
}

std::string padded(const std::string& utf8, size_t columns) {
  const size_t width = columns_of(utf8);
  return utf8 + std::string(columns > width ? columns - width : 0, ' ');
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!{}") == word.npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += (line.empty() ? "" : " ") + (plain ? word : quoted + "'");
  }
  return line;
}

std::string format_short(double n) {
  const char* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (n >= 999.5 && unit < 4) n /= 1000, ++unit;
  return format(unit == 0 || n >= 100 ? "%.0f" : n >= 10 ? "%.1f" : "%.2f", n) + units[unit];
}

std::string format_bytes(size_t bytes) {
  std::string text = format_short(static_cast<double>(bytes));
  const size_t space = text.find(' ');
  return space == std::string::npos ? text + " bytes" : text + "B";
}

std::string format_count(double n) {
  std::string digits = format("%.0f", n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string counted(double n, const std::string& noun) {
  const std::string plural = noun.ends_with("y") ? noun.substr(0, noun.size() - 1) + "ies" : noun + "s";
  return format_count(n) + " " + (n == 1 ? noun : plural);
}

std::string format_seconds(double seconds) {
  const int64_t s = std::llround(seconds);
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%d:%02d:%02d", int(s / 3600), int(s / 60 % 60), int(s % 60));
  else
    std::snprintf(text, sizeof text, "%d:%02d", int(s / 60), int(s % 60));
  return text;
}

void Pace::reach(int64_t done, double now) {
  const double keep = std::exp((now_ - now) / 30);
  seconds_ = keep * seconds_ + (now - now_);
  count_ = keep * count_ + static_cast<double>(done - done_);
  done_ = done, now_ = now;
}

Progress::Progress(int64_t first, int64_t total, std::string unit, double quiet)
    : pace_(first), first_(first), total_(total), unit_(std::move(unit)), terminal_(isatty(STDOUT_FILENO) != 0),
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
  if (done > first_) left = "  " + format_seconds(pace_.seconds_for(total_ - done)) + " left";
  if (!terminal_) {
    next_ = now + 10;
    return line(place + " " + details + left);
  }
  next_ = now + .1;
  winsize window{};
  const int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  const int room = columns - static_cast<int>(place.size() + details.size() + left.size()) - 3;
  std::string bar;
  if (room >= 10) {
    const int width = room < 40 ? room : 40;
    const int full = total_ > 0 ? static_cast<int>(width * done / total_) : width;
    for (int i = 0; i < width; ++i) bar += i < full ? "█" : "·";
    bar += " ";
  }
  // A line that wraps could not be written over.
  const std::string shown = room < 0 ? details.substr(0, std::max(0, static_cast<int>(details.size()) + room)) : details;
  std::printf("\r\033[K%s%s %s%s", place.c_str(), bar.c_str(), shown.c_str(), left.c_str());
  shown_ = true;
  std::fflush(stdout);
}
