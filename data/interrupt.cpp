#include "interrupt.hpp"

#include <csignal>

namespace {

volatile std::sig_atomic_t asked = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction stop {};
  stop.sa_handler = [](int) { asked = 1; };
  stop.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &stop, nullptr);
  sigaction(SIGTERM, &stop, nullptr);
}

bool interrupted() { return asked != 0; }
