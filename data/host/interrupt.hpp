#pragma once
// Signals that ask a process to stop: Ctrl-C, `kill`, a closed terminal, a closed pipe.

// Lets work end where nothing is lost when SIGINT, SIGTERM, SIGHUP or SIGPIPE arrives. The same signal a second time ends
// the process at once. SIGHUP stays ignored under nohup.
void catch_interrupts();

// Makes writes beyond the file-size limit fail instead of ending the process.
void report_file_size_limit();

bool interrupted();
int stop_signal();  // that has arrived; 0: none

// The exit code of a process that would otherwise end with `status`: 130 after Ctrl-C, 143 after SIGTERM, ...
int exit_code(int status);
