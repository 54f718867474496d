#pragma once
// Shared by the kernel ladders. A ladder goes from the textbook's version of a layer (rung 0) to the function that the
// trainer calls (the last rung), with one idea per rung. The rung before the last runs that function on one thread, so
// that the last step shows the effect of threads alone. Each rung prints its speed, the share of the measured peak, the
// speedup over rung 0 and the error against the textbook in double. If an error is too large, the exit code is 1.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/buffer.hpp"

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

// The measured peak of this machine, per second, on one thread and on all of them.
struct Ceiling {
  double one, all;
};
Ceiling flops_ceiling(Matmul matmul = Matmul::fp32);
Ceiling copy_ceiling(size_t floats);  // bytes read plus bytes written when copying this many floats

// A result of a rung, and the right one.
struct Output {
  const Tensor& got;
  const std::vector<double>& want;
};

enum class Threads { one, all };

class Ladder {
 public:
  // `work` is the necessary work of one run in `unit` ("FLOP" or "B"), even if a rung does more.
  Ladder(const std::string& title, double work, const std::string& unit, Ceiling ceiling, std::vector<Output> outputs);

  // Times run() and prints its share of the ceiling for as many threads.
  void rung(const std::string& idea, Threads threads, const std::function<void()>& run);

  // Compares the following rungs with another ceiling and other results.
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

// The sizes on the command line, or `sizes`. Ends the program with a usage line if they are not valid.
std::vector<int> sizes_from(int argc, char** argv, const std::string& letters, std::vector<int> sizes);
