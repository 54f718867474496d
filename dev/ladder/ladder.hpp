#pragma once
// What the three kernel ladders share. A ladder climbs from the textbook's version of a layer (rung 0) to the function
// that the trainer calls (the last rung), one idea a rung; just below the top that function runs on one thread, so that
// the last step is what threads bring and nothing else. Each rung prints one line: its speed, which share that is
// of what the machine can do, how much faster it is than rung 0, and how far its results are from those of the
// textbook in double. A rung that is too far off makes the program exit with 1.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "layers/kernels/gemm.hpp"
#include "layers/model/tensors.hpp"

// Floats aligned like the trainer's own.
struct Tensor {
  explicit Tensor(size_t n) : buffer(allocate(n)), size(n) {}
  Tensor(size_t n, uint64_t seed, float mean = 0, float deviation = 1);  // normally distributed

  float* get() const { return buffer.get(); }
  void fill(float x) const;
  std::vector<double> widen() const;

  Buffer buffer;
  size_t size;
};

// What this machine can do in a second, measured: on one thread and on all of them.
struct Ceiling {
  double one, all;
};
Ceiling flops_ceiling(Matmul matmul = Matmul::fp32);
Ceiling copy_ceiling(size_t floats);  // bytes read and bytes written while so many floats are copied

// What a rung computes, and what that should be.
struct Output {
  const Tensor& got;
  const std::vector<double>& want;
};

enum class Threads { one, all };

class Ladder {
 public:
  // `work` is what one run is worth, in `unit` ("FLOP" or "B"), whatever a rung really does for it.
  Ladder(const std::string& title, double work, const std::string& unit, Ceiling ceiling, std::vector<Output> outputs);

  // Times run(), whose share is one of the ceiling on as many threads.
  void rung(const std::string& idea, Threads threads, const std::function<void()>& run);

  // Holds the rungs that follow against something else.
  void compare_with(Ceiling ceiling, std::vector<Output> outputs);

  static int exit_status();  // 1 if any rung of any ladder was wrong

 private:
  double work_;
  std::string unit_;
  Ceiling ceiling_;
  std::vector<Output> outputs_;
  int rungs_ = 0;
  double first_ = 0;  // seconds that rung 0 takes
};

// The sizes on the command line, or these; leaves the program with a usage line where they make no sense.
std::vector<int> sizes_from(int argc, char** argv, const std::string& letters, std::vector<int> sizes);
