#include "interrupt.hpp"

#include <csignal>

namespace {

volatile std::sig_atomic_t arrived = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction stop {};
  stop.sa_handler = [](int signal) { arrived = signal; };
  for (const int signal : kStopSignals) {
    // A closed pipe stays closed. Further writes must not end the process before it has saved.
    if (signal != SIGPIPE && is_ignored(signal)) continue;
    stop.sa_flags = signal == SIGPIPE ? 0 : SA_RESETHAND;
    sigaction(signal, &stop, nullptr);
  }
}

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
