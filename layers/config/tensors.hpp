#pragma once
// The table of tensors.
//
// A Layout hands out slices of one flat float buffer and records a row for each. The same walk (declare_model,
// declare_block, ...) runs three times: without a buffer, to learn the table and its size; on the parameter buffer; and
// on the gradient buffer. Equal walks give equal offsets. The exception is frozen matrices, which get no memory for
// gradients. Initialization, AdamW, clipping, checkpoints, costs, diagnostics, the gradient tests, `train_gpt info` and
// the Python twin all read the table. Nothing else lists the tensors.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/numbers.hpp"

// The initial value of a parameter: the constant `mean` (deviation 0) or a draw from N(mean, deviation²). If `every` is
// set, the elements first, first + every, ... are 1 instead: a unit vector, or an identity matrix. If `zeros_from` is
// set, the elements from there on are 0 instead.
struct Start {
  float mean = 0;
  float deviation = 0;
  size_t every = 0, first = 0;
  size_t zeros_from = 0;

  bool is_one(size_t i) const { return every > 0 && i >= first && (i - first) % every == 0; }
  bool is_zero(size_t i) const { return zeros_from > 0 && i >= zeros_from; }
};

// The part of the model that a tensor belongs to. Biases and activations have the role of the matrix they follow.
enum class Role {
  embedding,    // token and position embeddings
  projection,   // from a narrow embedding to the stream, and back before the classifier
  transform,    // of the head, a linear layer
  norm,         // its bias, its statistics, its output
  norm_gain,    //
  norm_scalar,  // alpha and shift of DyT and Derf
  norm_gate,    // down and up of GatedNorm
  gain,         // LayerScale's and ReZero's λ, Admin's ω
  mix,          // the two factors of a learned sum (residual/mix.hpp), the gate of GPAS
  qk,           // queries and keys; the joined activations q|k|v; the output gate
  v,            //
  attention,    // its output before o, and its log-sum-exp
  o,            // attention's output matrix
  router,       // a mixture of experts' router, and its decisions
  ffn_in,       // up, and gate
  activation,   //
  ffn_out,      // down
  residual,     // the stream
  classifier,   // an untied head, its bias, the losses
  scratch,      // shared by all blocks
  logits,       //
  adapter,      // a and b of LoRA
  streams,      // parameters that mix several residual streams
};

// The name of a role in `info --json`, and its row in `info --cost`; a role with "" counts in the row above it.
struct RoleRow {
  Role role;
  const char *name, *part;
};
inline constexpr RoleRow kRoles[] = {
    {Role::embedding, "embedding", "embedding"}, {Role::projection, "projection", "projections"},
    {Role::transform, "transform", "transform"}, {Role::norm, "norm", "norms"}, {Role::norm_gain, "norm_gain", ""},
    {Role::norm_scalar, "norm_scalar", ""}, {Role::norm_gate, "norm_gate", ""}, {Role::gain, "gain", "gains"},
    {Role::mix, "mix", ""}, {Role::qk, "qk", "q, k, v"}, {Role::v, "v", ""},
    {Role::attention, "attention", "attention"}, {Role::o, "o", "o"}, {Role::router, "router", "router"},
    {Role::ffn_in, "ffn_in", "up"}, {Role::activation, "activation", "activation"}, {Role::ffn_out, "ffn_out", "down"},
    {Role::residual, "residual", "residual"}, {Role::classifier, "classifier", "classifier"},
    {Role::scratch, "scratch", "scratch"}, {Role::logits, "logits", "logits"}, {Role::adapter, "adapter", "adapters"},
    {Role::streams, "streams", "streams"}};
constexpr bool roles_in_order() {
  for (size_t i = 0; i < std::size(kRoles); ++i)
    if (kRoles[i].role != static_cast<Role>(i)) return false;
  return true;
}
static_assert(std::size(kRoles) == static_cast<size_t>(Role::streams) + 1 && roles_in_order());
constexpr const char* name_of(Role role) { return kRoles[static_cast<size_t>(role)].name; }

// True if each token is multiplied with the role's matrices, which are outside of all blocks. (The classifier's may be
// the embedding.)
constexpr bool is_outer_matrix(Role role) {
  return role == Role::projection || role == Role::transform || role == Role::norm_gate;
}

struct Optimizer;  // layers/training/optimizer.hpp

inline constexpr int kOutside = -1;               // the layer of a tensor outside all blocks
inline constexpr size_t kNoGradient = SIZE_MAX;  // the offset of a gradient that takes no memory

struct TensorSpec {
  std::string name;        // "block.0.attention.q.weight"
  Role role{};
  std::vector<int> shape;  // row-major
  Start start;
  bool decay = false;   // AdamW's weight decay applies (tensors with two or more dimensions)
  bool trained = true;  // false: saved with the model, but not optimized
  float rate = 1;       // factor on the learning rate
  float decay_factor = 1, epsilon_factor = 1;  // on weight decay, and on the epsilon of AdamW
  size_t offset = 0;    // floats from the start of the buffer
  size_t gradient = 0;  // the offset of its gradient; kNoGradient for a frozen matrix
  NumberType numbers = NumberType::fp32;
  const Optimizer* optimizer = nullptr;  // the row that updates it; null if none, or not chosen yet
  size_t state = 0;                      // the offset of its optimizer state
  int layer = kOutside;  // counted through the encoder and then the decoder
  std::string part{};    // the name without the layer: "attention.q.weight", "encoder.attention.q.weight"

  size_t size() const;                                                      // in elements
  std::string group() const { return part.substr(0, part.rfind('.')); }    // "attention.q"
  std::string leaf() const { return part.substr(part.rfind('.') + 1); }    // "weight"
};

class Layout {
 public:
  // Without a base, the walk only measures, and every slice is null.
  explicit Layout(float* base = nullptr) : base_(base) {}

  // A walk for gradients. `weights` is the table of the same walk. Its frozen matrices get no slice, and their
  // gradients are not computed.
  Layout(float* base, const std::vector<TensorSpec>& weights)
      : base_(base), weights_(&weights), drops_frozen_(true) {}

  // A walk for weights. The frozen matrices of `weights`, the table of the same walk, consist of numbers of type
  // `frozen` if take_matrix() takes them.
  Layout(float* base, const std::vector<TensorSpec>& weights, NumberType frozen)
      : base_(base), weights_(&weights), frozen_(frozen) {}

  // The tensors taken next belong to this layer: "ffn.up.weight" gets the name "block.3.ffn.up.weight".
  void enter_layer(int layer) { layer_ = layer; }
  void leave_layer() { layer_ = kOutside; }

  // The tensors taken next belong to a stack of layers: their names begin with `stack`, and its first layer has this
  // number among the layers of all stacks.
  void enter_stack(const std::string& stack, int first_layer) {
    stack_ = stack;
    first_layer_ = first_layer;
  }

  // While on, layers share tensors: take() returns the first tensor of the same name in any layer, if there is one.
  void share(bool on) { share_ = on; }

  // Takes a tensor in its own 64-byte-aligned slice. Matrices decay, vectors do not.
  float* take(const std::string& name, Role role, std::vector<int> shape, Start start = {});

  // Takes a tensor that is saved with the model but not optimized. It starts as a constant.
  float* take_untrained(const std::string& name, Role role, std::vector<int> shape, float value);

  // Takes several tensors in one aligned slice without gaps. gemm reads them as one matrix (q|k|v, gate|up), but each
  // has its own name, initialization and gradient.
  float* take_joined(std::vector<TensorSpec> specs);

  // The same for matrices whose reader knows all types of numbers.
  Matrix take_matrix(std::vector<TensorSpec> specs);

  // Multiplies the initial deviation of every tensor by factor(tensor).
  template <class Factor>
  void scale_starts(Factor factor) {
    for (TensorSpec& spec : table_) spec.start.deviation *= static_cast<float>(factor(spec));
  }

  // Weight decay leaves out the tensors that `stops` holds for.
  template <class Stops>
  void stop_decay(Stops stops) {
    for (TensorSpec& spec : table_) spec.decay = spec.decay && !stops(spec);
  }

  const std::vector<TensorSpec>& table() const { return table_; }
  size_t size() const { return size_; }  // floats, including the padding between slices

 private:
  bool all_frozen(const std::vector<TensorSpec>& specs) const;  // the tensors to take next
  NumberType numbers_of(const std::vector<TensorSpec>& specs) const;
  const TensorSpec* first_of(const std::string& part) const;    // in any layer, or null

  float* base_;
  const std::vector<TensorSpec>* weights_ = nullptr;
  bool drops_frozen_ = false;
  NumberType frozen_ = NumberType::fp32;
  size_t size_ = 0;
  int layer_ = kOutside, first_layer_ = 0;
  std::string stack_;
  bool share_ = false;
  std::vector<TensorSpec> table_;
};

bool is_norm(const TensorSpec& spec);
bool is_vector(const TensorSpec& spec);  // a bias or a gain
bool is_embedding(const TensorSpec& spec);
bool is_head(const TensorSpec& spec);  // the matrix of an untied classifier

// Returns the floats of the buffer that a table describes, with the padding between slices.
size_t buffer_floats(const std::vector<TensorSpec>& table);

// Returns the tensors of a table that have a gradient, at the offsets of their gradients.
std::vector<TensorSpec> gradients_of(std::vector<TensorSpec> table);

// Returns the numbers of a tensor in a buffer.
std::vector<float> read_floats(const TensorSpec& spec, const float* buffer);

// The numbers of a tensor in a buffer, to be written as floats. If it consists of other numbers, the floats are
// elsewhere and rounded at the end.
class FloatsToWrite {
 public:
  FloatsToWrite(float* buffer, const TensorSpec& spec);
  ~FloatsToWrite();
  FloatsToWrite(const FloatsToWrite&) = delete;
  float* data() const { return elsewhere_ ? elsewhere_.get() : at_; }

 private:
  float* at_;
  size_t size_;
  NumberType numbers_;
  Buffer elsewhere_;  // null if the tensor consists of floats
};

// Returns the first tensor of the table that contains a NaN or an infinity, or null.
const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer);
