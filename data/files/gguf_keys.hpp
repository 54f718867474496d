#pragma once
// Reads the keys of a GGUF file (data/formats/gguf/gguf.hpp has the layout), version 2 or 3.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "files.hpp"

// Reads a file from its start on. Throws std::runtime_error in one line that names the file.
class GgufCursor {
 public:
  explicit GgufCursor(const InputFile& file) : file_(file) {}

  const InputFile& file() const { return file_; }
  uint64_t at() const { return at_; }

  template <class T>
  T number() {
    T x;
    take(&x, sizeof x);
    return x;
  }
  std::string text();

  // Throws unless so many bytes follow, in a header that is not too long.
  void require(uint64_t bytes) const;

  [[noreturn]] void fail(const std::string& why) const { file_.fail(" cannot be used: " + why); }

 private:
  void take(void* to, uint64_t bytes);
  void refill();

  const InputFile& file_;
  uint64_t at_ = 0, begin_ = 0;  // begin_: where piece_ begins in the file
  std::string piece_;
};

// What a GGUF file begins with. Every size is checked against the size of the file, so that a wrong one cannot make the
// program allocate more than the file holds.
struct GgufKeys {
  uint64_t tensors = 0;   // how many there are; they follow
  nlohmann::json values;  // by key; texts may be no UTF-8
};
GgufKeys read_gguf_keys(GgufCursor& from);

// True for a file that begins like GGUF.
bool is_gguf(const std::string& path);
