#pragma once
// The table of tensors.
//
// A Layout hands out slices of one flat float buffer and records a row for each. The same walk (declare_model,
// declare_block, ...) runs three times: without a buffer, to learn the table and its size; on the parameter buffer; and
// on the gradient buffer. Equal walks give equal offsets, unless some matrices do not train and have no gradient.
// Initialization, AdamW, clipping, checkpoints, costs, diagnostics, the gradient tests, `train_gpt info` and the Python
// twin all read the table. Nothing else lists the tensors.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The initial value of a parameter: the constant `mean` (deviation 0) or a draw from N(mean, deviation²). If `every` is
// set, the elements first, first + every, ... are 1 instead: a unit vector, or an identity matrix.
struct Start {
  float mean = 0;
  float deviation = 0;
  size_t every = 0, first = 0;

  bool is_one(size_t i) const { return every > 0 && i >= first && (i - first) % every == 0; }
};

// The part of the model that a tensor belongs to. Biases and activations have the role of the matrix they follow.
enum class Role {
  embedding,    // of tokens and positions
  norm,         // its bias, its statistics, its output
  norm_gain,    //
  norm_scalar,  // alpha and shift of DyT and Derf
  gain,         // LayerScale's and ReZero's λ
  mix,          // the two factors of a learned sum (residual/mix.hpp)
  qk,           // queries and keys; the joined activations q|k|v; the output gate
  v,            //
  attention,    // its output before o, and its log-sum-exp
  o,            // attention's output matrix
  router,       // of a mixture of experts, and what it decides
  ffn_in,       // up, and gate
  activation,   //
  ffn_out,      // down
  residual,     // the stream
  classifier,   // an untied head, its bias, the losses
  scratch,      // shared by all blocks
  logits,       //
  adapter,      // a and b of LoRA
  streams,      // what mixes several residual streams
};

struct Optimizer;  // layers/training/optimizer.hpp

inline constexpr int kOutside = -1;               // the layer of a tensor outside all blocks
inline constexpr size_t kNoGradient = SIZE_MAX;  // the offset of a gradient that takes no memory

struct TensorSpec {
  std::string name;        // "block.0.attention.q.weight"
  Role role{};
  std::vector<int> shape;  // row-major
  Start start;
  bool decay = false;   // AdamW's weight decay applies (tensors of two and more dimensions)
  bool trained = true;  // false: saved with the model, but not optimized
  float rate = 1;       // of the learning rate
  size_t offset = 0;    // in floats from the start of the buffer
  size_t gradient = 0;  // the offset of its gradient; kNoGradient: a matrix that does not train
  const Optimizer* optimizer = nullptr;  // the row that updates it; null: none, or not chosen yet
  size_t state = 0;                      // the offset of its optimizer state
  int layer = kOutside;
  std::string part{};  // the name within the layer: "attention.q.weight"

  size_t size() const;                                                      // number of elements
  std::string group() const { return part.substr(0, part.rfind('.')); }    // "attention.q"
  std::string leaf() const { return part.substr(part.rfind('.') + 1); }    // "weight"
};

class Layout {
 public:
  // Without a base the walk only measures: every slice it hands out is null.
  explicit Layout(float* base = nullptr) : base_(base) {}

  // A walk for gradients. The matrices of `weights`, the table of the same walk, that do not train get no slice. Their
  // gradients are not computed either.
  Layout(float* base, const std::vector<TensorSpec>& weights) : base_(base), weights_(&weights) {}

  // The tensors taken next belong to this layer: "ffn.up.weight" gets the name "block.3.ffn.up.weight".
  void enter_layer(int layer) { layer_ = layer; }
  void leave_layer() { layer_ = kOutside; }

  // While on, a tensor of a layer is the first of its name in any layer, if there is one.
  void share(bool on) { share_ = on; }

  // One tensor in a 64-byte-aligned slice of its own. Matrices decay, vectors do not.
  float* take(const std::string& name, Role role, std::vector<int> shape, Start start = {});

  // A tensor that is saved with the model but not optimized. Starts as a constant.
  float* take_untrained(const std::string& name, Role role, std::vector<int> shape, float value);

  // Several tensors in one aligned slice, one right behind the other. gemm takes them as one matrix (q|k|v, gate|up),
  // and each still has its own name, initialization and gradient.
  float* take_joined(std::vector<TensorSpec> specs);

  const std::vector<TensorSpec>& table() const { return table_; }
  size_t size() const { return size_; }  // floats, including the padding between slices

 private:
  bool all_frozen(const std::vector<TensorSpec>& specs) const;  // the tensors that are taken next
  const TensorSpec* first_of(const std::string& part) const;    // in any layer, or null

  float* base_;
  const std::vector<TensorSpec>* weights_ = nullptr;
  size_t size_ = 0;
  int layer_ = kOutside;
  bool share_ = false;
  std::vector<TensorSpec> table_;
};

// The tensors of a table that have a gradient, at the offsets of their gradients.
std::vector<TensorSpec> gradients_of(std::vector<TensorSpec> table);

// The first tensor of the table with a NaN or an infinity in it, or null.
const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer);
