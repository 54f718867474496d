#pragma once
// Runs the program itself, as a person would, in a folder of its own.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

extern std::string tests_as_typed;  // argv[0] of the tests, in main.cpp

struct Outcome {
  int status = 0;  // exit status; 128 + signal where a signal ended it
  std::string out, err;
};

// The program while it runs.
struct Started {
  pid_t process;
  std::string log;  // LOG.out and LOG.err are what it prints
};

// A temporary folder that goes away with it, and the program to run in it.
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

  // Words as in a shell without quotes: "train --data text.txt". `in` is its standard input.
  Outcome run(const std::string& words, const std::string& in = "") const;
  // The same, but limited to files of that many bytes, which is what a full disk looks like.
  Outcome run_with_little_space(const std::string& words, size_t bytes) const;
  // Starts it and sends `signal` as soon as ready() holds.
  Outcome run_until(const std::string& words, int signal, const std::function<bool()>& ready) const;

  // Several at once. `redirect` is called in the child when its streams are in place.
  Started start(const std::string& words, const std::function<void()>& redirect = [] {}) const;
  Outcome finish(const Started& started) const;

 private:
  std::string root_;
  mutable int started_ = 0;
};

// The columns of a metrics.csv that do not tell the time, line by line.
std::vector<std::string> losses_in(const std::string& metrics);
