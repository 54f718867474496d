#pragma once
// The tables of placements and weight initializations.

#include <string_view>
#include <vector>

#include "config.hpp"
#include "tensors.hpp"

// Weight initialization. A weight matrix (out, in) is drawn from N(0, s²) with
//   s = base · gain(depth)      on v, o and every FFN matrix; on q and k only if qk_gain is set; in cross attention
//                               only if cross_gain is
//         · 1/√branches         on o and the FFN's down matrix, if residual_gain is set; 0 if zero_init is. A decoder
//                               with cross attention has 3L branches, any other stack 2L
//   base = .02, √(2/(in + out)) for Xavier (Glorot & Bengio 2010), or √(2/(5C)), small (Nguyen & Salazar 2019, arXiv
//          1910.05895, §2.2)
// Embeddings and an untied head are drawn from N(0, embedding_std²). Gains start at 1, biases at 0.
enum class Base { normal, xavier, small };

// The blocks of a stack. With an encoder and a decoder, also whether it is one of them, and the blocks of the other.
enum class StackKind { alone, encoder, decoder };
struct Depth {
  int own, other = 0;
  StackKind stack = StackKind::alone;
};
inline double one(const Depth&) { return 1; }
inline double one_everywhere(int) { return 1; }
Depth depth_of(const Config& config);
struct InitRow {
  Base base = Base::normal;
  float std = .02f;            // of Base::normal
  float embedding_std = .02f;  // for token and position embeddings and an untied head
  bool residual_gain = false;  // GPT-2's 1/√N, N being the number of branches (Radford et al. 2019, §2.3)
  double (*gain)(const Depth& depth) = one;
  bool qk_gain = false;
  bool cross_gain = true;  // the gain acts on cross attention, too
};

// How many residual streams there are, and how a branch reads and writes them (layers/streams/streams.hpp).
enum class StreamRule {
  single,          // one stream
  hyper_static,    // S copies, mixed by learned constants: static hyper-connections
  hyper,           // S copies, mixed by coefficients of each token: dynamic hyper-connections
  mhc,             // as hyper, but the matrix that carries the streams on is doubly stochastic
  independent,     // as mhc, but each stream is carried on unchanged
  gated,           // the same, but a branch reads normalized streams, with a gate for each channel
  dual,            // two streams: the first is normalized, the second is the plain sum
  siamese,         // the same, but a branch reads the first plus a norm of the second
  attnres,         // one stream, which begins again in each block of branches; a branch reads a mean over all blocks
  attnres_normed,  // the same, but a mean of their norms
  sphere,          // one stream of length 1; a branch moves it toward its output
};
// What the end of a stack reads of streams that are mixed.
enum class StreamEnd {
  sum,
  mean,
  read,  // what a branch reads, with parameters of its own (layers/streams/mhc.hpp, gated.hpp)
};
// What the parametrization completep does with a placement (layers/config/README.md derives it): each branch gets the
// factor base depth / depth, and other constants that depend on the depth are those of the base depth.
enum class DepthRule {
  none,    // not derived: refused
  sum,     // the stream is a sum of branches: depth is time
  sphere,  // the same for a stream that norms keep at one length
};
constexpr bool is_pair(StreamRule rule) { return rule == StreamRule::dual || rule == StreamRule::siamese; }
constexpr bool is_attnres(StreamRule rule) {
  return rule == StreamRule::attnres || rule == StreamRule::attnres_normed;
}
constexpr bool is_one(StreamRule rule) { return rule == StreamRule::single || rule == StreamRule::sphere; }
constexpr bool mixes(StreamRule rule) { return !is_one(rule) && !is_pair(rule) && !is_attnres(rule); }
constexpr bool has_carry(StreamRule rule) {
  return mixes(rule) && rule != StreamRule::independent && rule != StreamRule::gated;
}
constexpr bool is_hyper(StreamRule rule) { return rule == StreamRule::hyper_static || rule == StreamRule::hyper; }

// The norms of a residual branch, and the factor on its skip path:
//   y = norm_sum( skip·x + norm_out( W_out·norm_inner( F( in_scale·norm_in(x) ) ) ) )
// An absent norm is the identity. W_out is attention's o or the FFN's down matrix. A learned gain λ, which starts at
// layer_scale_init or 0, may replace norm_out.
struct Placement {
  const char* name = "";
  std::vector<const char*> aliases = {};
  const char* source = "";
  bool norm_in = false, norm_inner = false, norm_out = false, norm_sum = false;
  bool final_norm = false;  // after the last block
  LearnedGain gain = LearnedGain::none;  // otherwise norm_out is absent
  double (*skip)(const Depth& depth) = one;
  double (*in_scale)(int layer) = one_everywhere;  // read only if norm_in is set
  double (*first_write)(int layer) = one_everywhere;  // on what the first stream of siamese gets
  InitRow init = {};
  const Placement* early = nullptr;  // the placement of the first blocks; null: this one
  int early_blocks = 0;              // their number; 0 stands for ⌊mix_fraction·L⌋
  const Placement* ffn = nullptr;    // the placement of feed-forward branches; null: this one
  const Placement* cross = nullptr;  // the placement of cross attention; null: this one
  StreamRule streams = StreamRule::single;  // if streams are mixed, norm_in and norm_inner are the only norms
  StreamEnd stream_end = StreamEnd::sum;    // if streams are mixed
  float stream_scale = .01f;  // where the scales of the coefficients start; both papers say .01
  bool mean_read = false;     // mhc, independent: a branch starts with the mean of the streams, not with half their sum
  QkNormKind qk_norm = QkNormKind::none;    // default of the option
  bool head_scale = false;                  // default of the option
  bool bypass = false;  // adds the block's input to the sum of the feed-forward branch
  bool gpas = false;  // a learned factor on the stream after each branch; otherwise norm_sum may be set
  bool skip_gain = false;  // a learned gain on the skip path, which starts as a forward pass says; needs norm_sum
  bool one_stack = false;  // its authors do not define it for an encoder and a decoder
  DepthRule depth = DepthRule::none;
};
const std::vector<Placement>& placements();
// Finds a row by its name or an alias. Throws an error that names the nearest. Only options and resolve() call it: a
// resolved Config holds its row.
const Placement& placement_row(std::string_view name);

// Returns the row for a branch of block `layer`: "attention", "cross" or "ffn".
const Placement& placement_at(const Config& config, int layer, std::string_view branch);

// Returns the row of config.init, or the placement's.
const InitRow& init_row(const Config& config);

// Which sides of a matrix (out, in) grow with the width, as the table of shapes in parametrization.cpp says.
// in_and_heads: the outputs of a gate of heads grow with the number of heads.
enum class Growth { both, in, out, in_and_heads };

// Returns the initial values of a matrix (out, in) of a branch, or outside of all: those of the base model, which
// declare_model() multiplies by the parametrization's factor.
Start weight_start(const Config& config, Role role, int out, int in, std::string_view branch = "",
                   Growth growth = Growth::both);
bool has_bias(const Config& config, Role role);
