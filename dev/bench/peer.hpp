#pragma once
// Another program to compare with: PyTorch and NumPy, through dev/bench/peer.py.

#include <string>
#include <vector>

#include <sys/types.h>

class Peer {
 public:
  // Starts `command --threads N` in a shell and asks for its name. If that fails, prints one line and is not present.
  // If this program was built for less than the processor can do, its libraries are held to the same instructions.
  Peer(const std::string& command, int threads);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool present() const { return pid_ > 0; }
  const std::string& about() const { return about_; }

  // The seconds of each repetition of a case. Empty if it failed; a printed line says why.
  std::vector<double> seconds(const std::string& request);
  void forget();  // frees its tensors

 private:
  std::string ask(const std::string& request);  // the answer, or "error ..."
  void leave(const std::string& why);

  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::string about_, unread_;
};
