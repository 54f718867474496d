#pragma once
// Signals that ask a process to stop: Ctrl-C, `kill`, a closed terminal, a closed pipe, and SIGUSR1, which batch
// systems can send before a job's time is up.

#include <csignal>

inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1};

// Makes these signals set stop_signal() instead of ending the process, so that it can stop without losing work. The
// same signal a second time ends the process at once. An ignored signal stays ignored (SIGHUP under nohup, SIGINT in a
// script's background job). SIGPIPE is caught even if ignored, because nobody reads the output any more. Until
// stopped_in_time() is called, a line on the terminal confirms a Ctrl-C that has not stopped the work within a second.
void catch_interrupts();
void stopped_in_time();

bool is_ignored(int signal);

int stop_signal();  // the signal that arrived, or 0
inline bool interrupted() { return stop_signal() != 0; }

// While this object lives, Ctrl-C sets stop_signal() instead of ending the process. Its destructor clears the signal.
class CatchCtrlC {
 public:
  CatchCtrlC();
  CatchCtrlC(const CatchCtrlC&) = delete;
  CatchCtrlC& operator=(const CatchCtrlC&) = delete;
  ~CatchCtrlC();

 private:
  struct sigaction before_;
};

// Returns the exit code: 128 + the signal that arrived (130 for Ctrl-C, 143 for SIGTERM), otherwise `status`.
int exit_code(int status);
