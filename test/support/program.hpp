#pragma once
// Runs the program as a user would, in a temporary folder.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

// The date that programs record while tests run, so that tables of equal runs are equal.
inline constexpr const char* kEpochOfTests = "1780000000";

extern std::string tests_as_typed;  // argv[0] of the tests, in main.cpp

// The program, which is in the same folder as the tests.
std::string program_path();

// Under the sanitizers, tests that write thousands of files write one of n. Otherwise they write all.
size_t one_of(size_t n);

struct Outcome {
  int status = 0;  // exit code, or 128 + signal if a signal ended it
  std::string out, err;
};

// A running program.
struct Started {
  pid_t process;
  std::string log;  // LOG.out and LOG.err are what it prints
};

// A temporary folder in which to run the program. The destructor removes it.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  std::string path(const std::string& name) const { return root_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const;

  // Runs the program with these words, split at spaces: "train --data text.txt". `in` is its standard input.
  Outcome run(const std::string& words, const std::string& in = "") const;
  void must(const std::string& words) const;  // the same, and requires success
  // Limits the size of files to `bytes`, which simulates a full disk.
  Outcome run_with_little_space(const std::string& words, size_t bytes) const;
  // Starts the program and sends `signal` as soon as ready() is true.
  Outcome run_until(const std::string& words, int signal, const std::function<bool()>& ready) const;
  // Does the same, but stops the program for `seconds` once ready() returns true, and then continues it.
  Outcome run_paused(const std::string& words, double seconds, const std::function<bool()>& ready) const;

  // Returns the program's peak memory in bytes; 0 if this system does not tell.
  size_t peak_of(const std::string& words) const;

  // Starts the program without waiting, to run several at once. The child calls `redirect` after its streams are set
  // up.
  Started start(const std::string& words, const std::function<void()>& redirect = [] {}) const;
  Outcome finish(const Started& started) const;

 private:
  std::string root_;
  mutable int started_ = 0;
};

// The lines of a metrics.csv without the columns that depend on time.
std::vector<std::string> losses_in(const std::string& metrics);
