#pragma once
// Judges an exercise: runs the function on small tensors, compares the results with the right ones, and says which are
// wrong and which mistake that looks like. The right gradients are the complex step of the forward function, which the
// exercise does not remove. Everything else comes from `textbook::answer`, the project's own functions.

#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <vector>

namespace exercise {

using Doubles = std::vector<double>;
using Complex = std::complex<double>;
using Tensors = std::vector<std::vector<Complex>>;

// n numbers with two decimals, the same in every run: short enough to follow by hand.
Doubles numbers(size_t n, int seed);

// A tensor between two margins. Inputs have margins of NaN, so that a read outside spreads. Outputs have margins of a
// number, so that a write outside shows.
class Guarded {
 public:
  explicit Guarded(const Doubles& values, double around = std::nan(""));
  double* data() { return all_.data() + margin_; }
  const double* data() const { return all_.data() + margin_; }
  Doubles values() const { return {data(), data() + size_}; }
  std::string written_outside() const;  // where something was written, in words; "" if nowhere

 private:
  size_t size_, margin_;
  double around_;
  Doubles all_;
};

// The index letters of a tensor, as in its header comment. A view is a part of a buffer with its own letters.
struct Letter {
  const char* name;
  size_t size, stride = 0, first = 0;  // stride 0: contiguous, as if the view were the whole buffer
};
struct View {
  std::string name;
  std::vector<Letter> index;
  size_t offset = 0;
};

// The result of a frequent mistake, and its explanation.
struct Mistake {
  std::string text;
  Doubles value;
};

enum class How { written, added, in_place };
struct Output {
  std::vector<View> views;
  How how;
  Doubles want;   // added: the sum to be added
  Doubles start;  // in_place: the contents before the call
  std::vector<Mistake> mistakes;
  std::string reason;  // the explanation of any error, if there can be only one
};
inline Output written(std::string name, std::vector<Letter> index, Doubles want, std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::written, want, {}, mistakes, {}};
}
inline Output added(std::string name, std::vector<Letter> index, Doubles want, std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::added, want, {}, mistakes, {}};
}
inline Output in_place(std::string name, std::vector<Letter> index, Doubles start, Doubles want,
                       std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::in_place, want, start, mistakes, {}};
}
// An output in the buffer of an input, where the function's comment says that it may be. Tested after a case with two
// buffers, which was right.
inline Output shared(std::string name, std::string input, std::vector<Letter> index, Doubles start, Doubles want) {
  const std::string reason = name + " may be " + input + ": a number of " + input +
                             " is overwritten before it is read for the last time";
  return {{{name, index}}, How::in_place, want, start, {}, reason};
}

// A factor that is easily forgotten, or applied twice.
struct Factor {
  std::string name;
  double value;
};

class Judge {
 public:
  // Tests one case. `call` gets a pointer to each output and runs the learner's function. It is called twice, the
  // second time with numbers in the outputs to add to. After a wrong case, the others are not run.
  void test(const std::string& title, const std::vector<Factor>& factors, const std::vector<Output>& outputs,
            const std::function<void(const std::vector<double*>&)>& call);
  void wrong(const std::string& text);  // reports another mistake in the last case
  bool verdict() const;                 // prints the result; true if all cases are right

 private:
  size_t right_ = 0, waiting_ = 0;
  double worst_ = 0;
  bool failed_ = false;
};

// The exercises of a file in judges/.
struct Exercise {
  std::string name;
  void (*judge)(Judge&);
};
extern const std::vector<Exercise> exercises;

// Gradients of Σ dy·y by each of the tensors, y = forward(tensors): F'(x) = Im F(x + ih)/h (Squire & Trapp 1998).
template <class Forward>
std::vector<Doubles> complex_step(const Doubles& dy, const std::vector<Doubles>& tensors, Forward forward) {
  constexpr double h = 0x1p-166;  // about 1e-50; dividing by a power of two does not round
  Tensors z;
  for (const Doubles& t : tensors) z.emplace_back(t.begin(), t.end());
  std::vector<Doubles> gradients;
  for (size_t t = 0; t < z.size(); ++t) {
    gradients.emplace_back(z[t].size());
    for (size_t k = 0; k < z[t].size(); ++k) {
      z[t][k] = Complex(tensors[t][k], h);
      const std::vector<Complex> y = forward(z);
      for (size_t i = 0; i < y.size(); ++i) gradients[t][k] += dy[i] * y[i].imag() / h;
      z[t][k] = tensors[t][k];
    }
  }
  return gradients;
}

inline Doubles scaled(double factor, Doubles a) {
  for (double& x : a) x *= factor;
  return a;
}

}  // namespace exercise
