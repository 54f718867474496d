#pragma once
// What a model is: its sizes and its switches, and the table of placements.
//
// A user's Config may leave things open (0, or an empty optional: "as the placement says", "as the other
// sizes imply"). resolve() closes them and checks the whole; the layers only ever see a resolved Config.

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "layers/kernels/gemm.hpp"
#include "named.hpp"
#include "tensors.hpp"

enum class NormKind { layernorm, rmsnorm, scalenorm, batchnorm, dyt, derf };
enum class Position { learned, sinusoidal, rope, alibi, none };
enum class Activation { gelu, gelu_tanh, relu, silu, geglu, geglu_tanh, swiglu };
enum class InitChoice { placement, gpt2, xavier };
enum class LearnedGain { none, channel, block };  // on the output of a branch: one a channel, one a block
enum class BlockForm { sequential, parallel, parallel_shared };
enum class QkNormKind { none, head, full };

inline constexpr Named<NormKind> kNormKinds[] = {
    {NormKind::layernorm, "layernorm"}, {NormKind::rmsnorm, "rmsnorm"}, {NormKind::scalenorm, "scalenorm"},
    {NormKind::batchnorm, "batchnorm"}, {NormKind::dyt, "dyt"},         {NormKind::derf, "derf"}};
inline constexpr Named<Position> kPositions[] = {{Position::learned, "learned"},
                                                  {Position::sinusoidal, "sinusoidal"},
                                                  {Position::rope, "rope"},
                                                  {Position::alibi, "alibi"},
                                                  {Position::none, "none"}};
inline constexpr Named<Activation> kActivations[] = {{Activation::gelu, "gelu"},
                                                     {Activation::gelu_tanh, "gelu-tanh"},
                                                     {Activation::relu, "relu"},
                                                     {Activation::silu, "silu"},
                                                     {Activation::geglu, "geglu"},
                                                     {Activation::geglu_tanh, "geglu-tanh"},
                                                     {Activation::swiglu, "swiglu"}};
inline constexpr Named<Matmul> kMatmuls[] = {{Matmul::fp32, "fp32"}, {Matmul::bf16, "bf16"}};
inline constexpr Named<InitChoice> kInitChoices[] = {
    {InitChoice::placement, "placement"}, {InitChoice::gpt2, "gpt2"}, {InitChoice::xavier, "xavier"}};
inline constexpr Named<BlockForm> kBlockForms[] = {{BlockForm::sequential, "sequential"},
                                                  {BlockForm::parallel, "parallel"},
                                                  {BlockForm::parallel_shared, "parallel-shared"}};
inline constexpr Named<QkNormKind> kQkNormKinds[] = {
    {QkNormKind::none, "none"}, {QkNormKind::head, "head"}, {QkNormKind::full, "full"}};

// y = f(gate)·up: the feed-forward layer has two matrices at its entry.
constexpr bool is_gated(Activation kind) {
  return kind == Activation::geglu || kind == Activation::geglu_tanh || kind == Activation::swiglu;
}

// How the weights of a model are born. A weight matrix (out, in) gets N(0, s²) with
//   s = base · gain(L)          on v, o and every FFN matrix (q, k: base alone)
//         · 1/√(2L)             on o and the FFN's down matrix, where residual_gain is set
//   base = .02, or √(2/(in + out)) for Xavier (Glorot & Bengio 2010).
// Embeddings and an untied head get N(0, embedding_std²); gains are 1, biases 0.
enum class Base { normal, xavier };
struct InitRow {
  Base base;
  float std;            // of the normal base
  float embedding_std;  // of token and position embeddings and of an untied head
  bool residual_gain;   // GPT-2's 1/√(2L) (Radford et al. 2019, §2.3)
  double (*gain)(int n_layer);
};

// Where the normalizations of a residual branch sit, and what the skip path is multiplied by:
//   y = norm_sum( skip·x + norm_out( W_out·norm_inner( F( in_scale·norm_in(x) ) ) ) )
// An absent norm is the identity. W_out is attention's o or the FFN's down matrix. A learned gain λ, which starts at
// layer_scale_init or 0, may be there in place of norm_out.
struct Placement {
  const char* name;
  std::vector<const char*> aliases;
  const char* source;
  bool norm_in, norm_inner, norm_out, norm_sum, final_norm;
  LearnedGain gain;  // where it is not none, there is no norm_out
  double (*skip)(int n_layer);
  double (*in_scale)(int layer);  // other than 1 only where norm_in is
  InitRow init;
  const char* early;  // the row of the first ⌊mix_fraction·L⌋ blocks; null: this one
};
const std::vector<Placement>& placements();
const Placement& placement_row(std::string_view name);  // by name or alias; throws naming the nearest

struct Config {
  std::string placement = "pre";
  NormKind norm = NormKind::layernorm;
  float norm_eps = 1e-5f;
  std::optional<bool> norm_bias;   // open: as `bias`, but none for RMSNorm and ScaleNorm
  bool norm_unit_offset = false;   // the gain is 1 + w, and w starts at 0 (Gemma)
  float dyt_alpha = .5f;           // where alpha of DyT and Derf starts
  std::optional<bool> final_norm;  // open: as the placement says
  bool embedding_norm = false;
  QkNormKind qk_norm = QkNormKind::none;    // of queries and keys, each head by itself or all together
  BlockForm block = BlockForm::sequential;  // whether the feed-forward branch reads what attention left, or x

  int n_layer = 4;     // L
  int n_head = 4;      // H
  int kv_heads = 0;    // heads of k and v (GQA); 0: as many as heads
  int head_dim = 0;    // D; 0: channels / heads
  int channels = 128;  // C
  int hidden = 0;      // F; 0: 4·C, or where gated 8/3·C rounded up to a multiple of 32
  int context = 256;   // longest sequence T
  int vocab_size = 0;  // V

  Position position = Position::learned;
  float rope_theta = 10000;
  float rope_fraction = 1;                // share of each head that RoPE turns, from its start, in whole pairs
  int window = 0;                         // keys that a query sees, itself among them; 0: all
  int window_every = 1;                   // layers 0, n, 2n, ... have the window, the others see all
  float attention_cap = 0;                // scores become c·tanh(S/c); 0: they stay
  std::optional<double> attention_scale;  // factor on q·k; open: D^-½
  Activation activation = Activation::gelu_tanh;
  bool bias = true;
  std::optional<bool> qkv_bias;  // of q, k and v; open: as `bias`
  bool head_bias = false;
  bool tied = true;
  std::optional<double> embedding_scale;  // factor on the token embedding, before positions are added; open: 1, or
  bool root_embedding_scale = false;      // √C (Gemma)
  float logit_cap = 0;        // logits become c·tanh(l/c); 0: they stay
  float dropout = 0;
  Matmul matmul = Matmul::fp32;  // of linear layers and classifier; all else is float
  bool recompute = false;        // keep the input of each block only, and run it again before its backward

  InitChoice init = InitChoice::placement;
  std::optional<bool> residual_gain;  // open: as the chosen initialisation says
  std::optional<double> init_gain;    // β on v, o and the FFN; open: likewise
  std::optional<double> skip_scale;   // α; open: as the placement says
  std::optional<double> layer_scale_init;  // of LayerScale's gains; open: by depth
  double mix_fraction = .25;               // share of the blocks, from the first, that are Post-LN under mix-ln

  bool gated() const { return is_gated(activation); }
  int qkv_width() const { return (n_head + 2 * kv_heads) * head_dim; }
  // R, truncated as by Hugging Face, but for rounding errors.
  int rope_dims() const { return static_cast<int>(rope_fraction * static_cast<float>(head_dim) + 1e-3f) / 2 * 2; }
  int window_of(int layer) const { return layer % window_every == 0 ? window : 0; }
};

// The row that the branches of block `layer` follow.
const Placement& placement_at(const Config& config, int layer);

// The numbers of a Config and their ranges, limits included: what resolve() checks and what users may type.
struct ConfigNumber {
  const char* name;  // of the setting
  std::variant<int Config::*, float Config::*, double Config::*, std::optional<double> Config::*> member;
  double low, high;
  bool derived_if_0 = false;  // 0: worked out from the others
};
const std::vector<ConfigNumber>& config_numbers();

// What is wrong with a Config and what to do, in one line: "heads 3 does not divide channels 128: ...".
struct ConfigError : std::invalid_argument {
  explicit ConfigError(const std::string& marked);
  std::string marked;  // the same with the names of settings in braces: "{heads} 3 does not divide {channels} 128: ..."
};
// A marked text with `before` in front of each name.
std::string spelled(const std::string& marked, const std::string& before);

// Fills in what was left open and checks everything; throws ConfigError, or std::invalid_argument for an unknown
// placement. Idempotent.
Config resolve(Config config);

// The initial values of a matrix (out, in).
Start weight_start(const Config& config, Role role, int out, int in);
bool has_bias(const Config& config, Role role);
