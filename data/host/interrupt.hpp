#pragma once
// Signals that ask a process to stop: Ctrl-C, `kill`, a closed terminal, a closed pipe, and SIGUSR1, which batch
// systems can send ahead of the end of a job.

#include <csignal>

inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1};

// Makes these signals set stop_signal() instead of ending the process, so that it can stop
// without losing work. The same signal a second time ends the process at once. A signal that is ignored stays ignored,
// as SIGHUP under nohup and SIGINT in a script's background job; except SIGPIPE, after which nobody reads the output.
// If Ctrl-C does not stop the work within a second, a line on the terminal says that it will, until stopped_in_time().
void catch_interrupts();
void stopped_in_time();

bool is_ignored(int signal);

int stop_signal();  // the signal that has arrived; 0: none
inline bool interrupted() { return stop_signal() != 0; }

// While it lives, Ctrl-C sets stop_signal() instead of ending the process. Then the signal is forgotten.
class CatchCtrlC {
 public:
  CatchCtrlC();
  CatchCtrlC(const CatchCtrlC&) = delete;
  CatchCtrlC& operator=(const CatchCtrlC&) = delete;
  ~CatchCtrlC();

 private:
  struct sigaction before_;
};

// The exit code of a process that would otherwise end with `status`: 130 after Ctrl-C, 143 after SIGTERM, ...
int exit_code(int status);
