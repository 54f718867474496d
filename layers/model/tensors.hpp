#pragma once
// The one table of tensors.
//
// A Layout hands out slices of one flat float buffer and writes down a row for each. The same walk
// (declare_model, declare_block, ...) is run three times: without a buffer, to learn the table and its size;
// on the parameter buffer; and on the gradient buffer. Equal walks give equal offsets, so a parameter and
// its gradient need no further bookkeeping. Initialisation, AdamW, clipping, checkpoints, the gradient tests,
// `train_gpt info` and the Python twin all walk the table; nothing else lists the tensors.

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

// How a parameter is born: the constant `mean` (deviation 0) or N(mean, deviation²).
struct Start {
  float mean = 0;
  float deviation = 0;
};

struct TensorSpec {
  std::string name;        // "block.0.attention.q.weight"
  std::vector<int> shape;  // row-major
  Start start;
  bool decay = false;   // AdamW's weight decay applies (tensors of two and more dimensions)
  bool trained = true;  // false: saved with the model, but not optimised
  size_t offset = 0;    // in floats from the start of the buffer

  size_t size() const;  // number of elements
};

class Layout {
 public:
  // Without a base the walk only measures: every slice it hands out is null.
  explicit Layout(float* base = nullptr) : base_(base) {}

  // One tensor in a 64-byte-aligned slice of its own. Matrices decay, vectors do not.
  float* take(const std::string& name, std::vector<int> shape, Start start = {});

  // One that is saved with the model but not optimised, and starts as a constant.
  float* take_untrained(const std::string& name, std::vector<int> shape, float value);

  // Several tensors in one aligned slice, one directly behind the other: together they are one matrix to the
  // gemm (q|k|v, gate|up), and yet each has a name, an initialisation and a gradient of its own.
  float* take_joined(std::vector<TensorSpec> specs);

  const std::vector<TensorSpec>& table() const { return table_; }
  size_t size() const { return size_; }  // floats, including the padding between slices

 private:
  float* base_;
  size_t size_ = 0;
  std::vector<TensorSpec> table_;
};

// Product of sizes; throws std::overflow_error where so many floats could not be addressed.
size_t checked_product(std::initializer_list<size_t> sizes);

struct FreeBuffer {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], FreeBuffer>;
// 64-byte-aligned zeros. Throws std::bad_alloc or std::overflow_error.
Buffer allocate(size_t floats);

// x[0..n) = 0
void set_zero(float* x, size_t n);

// The first tensor of the table with a NaN or an infinity in it, or null.
const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer);
