#include "interrupt.hpp"

#include <csignal>

namespace {

volatile std::sig_atomic_t arrived = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction stop {}, before {};
  stop.sa_handler = [](int signal) { arrived = signal; };
  stop.sa_flags = SA_RESETHAND;
  for (const int signal : kStopSignals) {
    sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    // A closed pipe stays closed. Further writes must not end the process before it has saved.
    stop.sa_flags = signal == SIGPIPE ? 0 : SA_RESETHAND;
    sigaction(signal, &stop, nullptr);
  }
}

CatchCtrlC::CatchCtrlC() {
  struct sigaction stop {};
  stop.sa_handler = [](int signal) { arrived = signal; };
  stop.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &stop, &before_);
}

CatchCtrlC::~CatchCtrlC() {
  sigaction(SIGINT, &before_, nullptr);
  arrived = 0;
}

int stop_signal() { return arrived; }

int exit_code(int status) { return arrived ? 128 + arrived : status; }
