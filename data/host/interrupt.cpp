#include "interrupt.hpp"

#include <csignal>

#include <unistd.h>

namespace {

volatile std::sig_atomic_t arrived = 0, on_terminal = 0;

// Most steps end within a second. Otherwise a line confirms that Ctrl-C was received.
void stop_later(int signal) {
  arrived = signal;
  if (signal == SIGINT && on_terminal) ::alarm(1);
}

void say_that_it_stops(int) {
  constexpr char kText[] = "\nstopping after this step; Ctrl-C again stops now, without saving\n";
  if (::write(STDERR_FILENO, kText, sizeof kText - 1) < 0) return;  // the terminal is gone
}

}  // namespace

void catch_interrupts() {
  struct sigaction stop {};
  stop.sa_handler = stop_later;
  on_terminal = ::isatty(STDERR_FILENO);
  std::signal(SIGALRM, say_that_it_stops);
  for (const int signal : kStopSignals) {
    // A closed pipe stays closed, and further writes must not end the process before it has saved. So SIGPIPE is not
    // reset.
    if (signal != SIGPIPE && is_ignored(signal)) continue;
    stop.sa_flags = signal == SIGPIPE ? 0 : SA_RESETHAND;
    sigaction(signal, &stop, nullptr);
  }
}

void stopped_in_time() { ::alarm(0); }

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

CatchCtrlC::CatchCtrlC() {
  struct sigaction stop {};
  stop.sa_handler = [](int signal) { arrived = signal; };
  stop.sa_flags = SA_RESETHAND;
  if (is_ignored(SIGINT)) stop.sa_handler = SIG_IGN;
  sigaction(SIGINT, &stop, &before_);
}

CatchCtrlC::~CatchCtrlC() {
  sigaction(SIGINT, &before_, nullptr);
  arrived = 0;
}

int stop_signal() { return arrived; }

int exit_code(int status) { return arrived ? 128 + arrived : status; }
