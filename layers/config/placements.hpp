#pragma once
// The tables of placements and weight initializations.

#include <string_view>
#include <vector>

#include "config.hpp"
#include "tensors.hpp"

// Weight initialization. A weight matrix (out, in) is drawn from N(0, s²) with
//   s = base · gain(L)          on v, o and every FFN matrix, and with qk_gain on q and k (others: base alone)
//         · 1/√(2L)             on o and the FFN's down matrix, if residual_gain is set; 0 if zero_init is
//   base = .02, √(2/(in + out)) for Xavier (Glorot & Bengio 2010), or √(2/(5C)), small (Nguyen & Salazar 2019, arXiv
//          1910.05895, §2.2)
// Embeddings and an untied head are drawn from N(0, embedding_std²). Gains start at 1, biases at 0.
enum class Base { normal, xavier, small };
inline double one(int) { return 1; }
struct InitRow {
  Base base = Base::normal;
  float std = .02f;            // of the normal base
  float embedding_std = .02f;  // of token and position embeddings and of an untied head
  bool residual_gain = false;  // GPT-2's 1/√(2L) (Radford et al. 2019, §2.3)
  double (*gain)(int n_layer) = one;
  bool qk_gain = false;
};

// How many residual streams there are, and how a branch reads and writes them (layers/streams/streams.hpp).
enum class StreamRule {
  single,        // one stream
  hyper_static,  // S copies, mixed by learned constants: static hyper-connections
  hyper,         // S copies, mixed as each token says: dynamic hyper-connections
  mhc,           // the same, and what is carried on is mixed by a doubly stochastic matrix
  dual,          // two: the first follows the norms, the second is the plain sum
};

// The norms of a residual branch, and the factor on its skip path:
//   y = norm_sum( skip·x + norm_out( W_out·norm_inner( F( in_scale·norm_in(x) ) ) ) )
// An absent norm is the identity. W_out is attention's o or the FFN's down matrix. A learned gain λ, which starts at
// layer_scale_init or 0, may take the place of norm_out.
struct Placement {
  const char* name = "";
  std::vector<const char*> aliases = {};
  const char* source = "";
  bool norm_in = false, norm_inner = false, norm_out = false, norm_sum = false;
  bool final_norm = false;  // after the last block
  LearnedGain gain = LearnedGain::none;  // otherwise norm_out is absent
  double (*skip)(int n_layer) = one;
  double (*in_scale)(int layer) = one;  // read only if norm_in is set
  InitRow init = {};
  const char* early = nullptr;  // the placement of the first blocks; null: this one
  int early_blocks = 0;         // how many these are; 0: ⌊mix_fraction·L⌋
  const char* ffn = nullptr;    // the placement of feed-forward branches; null: this one
  StreamRule streams = StreamRule::single;  // if streams are mixed, norm_in and norm_inner are the only norms
  QkNormKind qk_norm = QkNormKind::none;    // unless the user chooses one
  bool head_scale = false;                  // likewise
  bool bypass = false;  // adds the input of the block to the sum of the feed-forward branch
};
const std::vector<Placement>& placements();
const Placement& placement_row(std::string_view name);  // by name or alias; throws naming the nearest

// The row that a branch of block `layer` follows: "attention" or "ffn".
const Placement& placement_at(const Config& config, int layer, std::string_view branch);

// The row of config.init, or that of the placement.
const InitRow& init_row(const Config& config);

// The initial values of a matrix (out, in).
Start weight_start(const Config& config, Role role, int out, int in);
bool has_bias(const Config& config, Role role);
