#pragma once
// Files that are being written: each has a temporary name, NAME.PID.partial, until it is whole. A signal that ends the
// process removes them first.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

// Creates the temporary file for `path`, locked while it is open. The lock tells it from the leftovers of killed
// processes. `partial` receives its name. Throws std::runtime_error.
std::FILE* create_partial(const std::string& path, std::string& partial);

// Removes a file that create_partial() made, if it still has its temporary name.
void remove_partial(const std::string& partial);

// Gives a whole file its name, or leaves that to the PublishTogether that is in force. Throws std::runtime_error.
void publish_partial(const std::string& partial, const std::string& path);

// Removes each PATH.PID.partial that a killed process left. Ignores errors: a leftover takes space and does no other
// harm.
void remove_leftovers(const std::string& path);

// While it lives, files that are published keep their temporary names. So several files replace an earlier output at
// once, or, after an error or a signal, not at all. There is one at a time.
class PublishTogether {
 public:
  // `replaced` are the files of the earlier output.
  explicit PublishTogether(std::vector<std::string> replaced = {});
  PublishTogether(const PublishTogether&) = delete;
  PublishTogether& operator=(const PublishTogether&) = delete;
  ~PublishTogether();  // removes the files unless they are published

  // Removes the earlier output, then gives the files their names in the order in which they were written. A signal
  // waits until that is done. Throws std::runtime_error.
  void publish();

 private:
  friend void publish_partial(const std::string& partial, const std::string& path);
  void hold(const std::string& partial, const std::string& path);

  std::vector<std::string> replaced_;
  std::vector<std::pair<std::string, std::string>> held_;  // temporary names and names
};
