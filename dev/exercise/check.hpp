#pragma once
// What judges an exercise: it runs the function on small tensors, compares with what should come out, and says where it
// is off and what that looks like. A gradient is judged by complex step of the forward function, which the exercise
// leaves whole; anything else by `textbook::answer`, the functions as the project has them.

#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <vector>

namespace exercise {

using Doubles = std::vector<double>;
using Complex = std::complex<double>;
using Tensors = std::vector<std::vector<Complex>>;

// n numbers of two digits, the same in every run: short enough to be followed by hand.
Doubles numbers(size_t n, int seed);

// A tensor between two margins: of NaN, so that what is read outside spreads; of a number around outputs, so that what
// is written there, or added, is found.
class Guarded {
 public:
  explicit Guarded(const Doubles& values, double around = std::nan(""));
  double* data() { return all_.data() + margin_; }
  const double* data() const { return all_.data() + margin_; }
  Doubles values() const { return {data(), data() + size_}; }
  std::string written_outside() const;  // where, in words; "" if nothing was

 private:
  size_t size_, margin_;
  double around_;
  Doubles all_;
};

// Index letters of a tensor, as its header comment has them. A view is a part of a buffer that has letters of its own.
struct Letter {
  const char* name;
  size_t size, stride = 0, first = 0;  // stride 0: as if the view were all of the buffer
};
struct View {
  std::string name;
  std::vector<Letter> index;
  size_t offset = 0;
};

// What one often writes instead, and what it comes from.
struct Mistake {
  std::string text;
  Doubles value;
};

enum class How { written, added, in_place };
struct Output {
  std::vector<View> views;
  How how;
  Doubles want;      // of `added`: what is added
  Doubles start;     // in_place: what stands there before
  std::vector<Mistake> mistakes;
};
inline Output written(std::string name, std::vector<Letter> index, Doubles want, std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::written, want, {}, mistakes};
}
inline Output added(std::string name, std::vector<Letter> index, Doubles want, std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::added, want, {}, mistakes};
}
inline Output in_place(std::string name, std::vector<Letter> index, Doubles start, Doubles want,
                       std::vector<Mistake> mistakes = {}) {
  return {{{name, index}}, How::in_place, want, start, mistakes};
}

// A number that one forgets, or takes twice.
struct Factor {
  std::string name;
  double value;
};

class Judge {
 public:
  // One case. `call` gets a pointer to each output and runs the learner's function; it is called twice, the second time
  // with something in what is added to. After a case that is wrong, the others wait.
  void test(const std::string& title, const std::vector<Factor>& factors, const std::vector<Output>& outputs,
            const std::function<void(const std::vector<double*>&)>& call);
  void wrong(const std::string& text);  // what else was wrong with the case just tested
  bool verdict() const;  // prints it

 private:
  size_t right_ = 0, waiting_ = 0;
  double worst_ = 0;
  bool failed_ = false;
};

// The exercises that a file in judges/ knows.
struct Exercise {
  std::string name;
  void (*judge)(Judge&);
};
extern const std::vector<Exercise> exercises;

// Gradients of Σ dy·y by each of the tensors, y = forward(tensors): F'(x) = Im F(x + ih)/h (Squire & Trapp 1998).
template <class Forward>
std::vector<Doubles> complex_step(const Doubles& dy, const std::vector<Doubles>& tensors, Forward forward) {
  constexpr double h = 0x1p-166;  // some 1e-50; divided by a power of two nothing is rounded
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
