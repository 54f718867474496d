#pragma once
// Config: the sizes and choices of a model.
//
// A user's Config may leave values open (0, or an empty optional: "as the placement says", "as the other sizes imply").
// resolve() in layers/model/ fills them in and checks all of them. Layers only ever see a resolved Config.

#include <array>
#include <optional>
#include <string>

#include "enum_names.hpp"
#include "layer_set.hpp"
#include "layers/kernels/gemm.hpp"

enum class NormKind { layernorm, rmsnorm, scalenorm, batchnorm, dyt, derf, gatednorm };
// A norm that a user names. A plain one has neither a gain nor a bias.
struct NormChoice {
  NormKind kind;
  bool plain = false;
  bool operator==(const NormChoice&) const = default;
};
// Where a norm is (norm_sites.hpp): before a branch, before its last matrix, after the branch, after its sum with the
// skip path, or after the last block.
enum class NormSite { in, inner, out, sum, final };
inline constexpr size_t kNormSiteCount = 5;
enum class Position { learned, sinusoidal, rope, alibi, relative, none };
// layers/embedding/position.hpp says which is which.
enum class RopeScaling { none, linear, llama3, yarn, dynamic, longrope };
enum class Activation { gelu, gelu_tanh, relu, relu2, silu, geglu, geglu_tanh, swiglu, swiglu_clamped };
enum class InitChoice { placement, gpt2, xavier };
// How initial weights, learning rates and factors follow from the sizes of a model: parametrization.hpp.
enum class Parametrization { sp, mup, completep, nugpt };
// What the model predicts: the next token, tokens that are masked, or the next token of a target, given its source.
// A source and its target are a pair in the data, or a text in which spans are hidden, and these spans.
enum class Objective { lm, mlm, pairs, span };
constexpr bool has_sources(Objective o) { return o == Objective::pairs || o == Objective::span; }
// The keys that a query sees: as the objective needs, those up to itself, or all.
enum class Attending { objective, causal, bidirectional };
enum class Pooler { none, dense, next_sentence };  // what BERT has in addition, kept for other programs
enum class LearnedGain { none, channel, block };  // on a branch's output: one per channel, or one per block
// Factors on what branches add, which grow from 0 to 1 with the steps of training (layers/residual/branch_warmup.hpp).
enum class BranchWarmup { none, prores, branchnorm };
enum class BlockForm { sequential, parallel, parallel_shared };
enum class QkNormKind { none, head, full, qkv, unit };
// True if they are norms of the kind Config::norm.
constexpr bool has_qk_norms(QkNormKind kind) { return kind != QkNormKind::none && kind != QkNormKind::unit; }
enum class OutputGate { none, headwise, elementwise };  // on attention's output, before o
enum class ValueResidual { none, fixed, learned };      // factors ½ and ½, or two learned ones per block
// Activation checkpointing. Each value names the stages of a block whose outputs are not kept, so that backward runs
// them again: none; norms before matrices, the up projection and the activation; or everything.
enum class Recompute { none, selective, full };

inline constexpr Named<NormKind> kNormKinds[] = {
    {NormKind::layernorm, "layernorm"}, {NormKind::rmsnorm, "rmsnorm"}, {NormKind::scalenorm, "scalenorm"},
    {NormKind::batchnorm, "batchnorm"}, {NormKind::dyt, "dyt"},         {NormKind::derf, "derf"},
    {NormKind::gatednorm, "gatednorm"}};
inline constexpr Named<Position> kPositions[] = {{Position::learned, "learned"},
                                                  {Position::sinusoidal, "sinusoidal"},
                                                  {Position::rope, "rope"},
                                                  {Position::alibi, "alibi"},
                                                  {Position::relative, "relative"},
                                                  {Position::none, "none"}};
inline constexpr Named<RopeScaling> kRopeScalings[] = {{RopeScaling::none, "none"},
                                                       {RopeScaling::linear, "linear"},
                                                       {RopeScaling::llama3, "llama3"},
                                                       {RopeScaling::yarn, "yarn"},
                                                       {RopeScaling::dynamic, "dynamic"},
                                                       {RopeScaling::longrope, "longrope"}};
inline constexpr Named<Activation> kActivations[] = {{Activation::gelu, "gelu"},
                                                     {Activation::gelu_tanh, "gelu-tanh"},
                                                     {Activation::relu, "relu"},
                                                     {Activation::relu2, "relu2"},
                                                     {Activation::silu, "silu"},
                                                     {Activation::geglu, "geglu"},
                                                     {Activation::geglu_tanh, "geglu-tanh"},
                                                     {Activation::swiglu, "swiglu"},
                                                     {Activation::swiglu_clamped, "swiglu-clamped"}};
inline constexpr Named<Matmul> kMatmuls[] = {{Matmul::fp32, "fp32"}, {Matmul::bf16, "bf16"}};
inline constexpr Named<Objective> kObjectives[] = {
    {Objective::lm, "lm"}, {Objective::mlm, "mlm"}, {Objective::pairs, "pairs"}, {Objective::span, "span"}};
inline constexpr Named<Attending> kAttendings[] = {{Attending::objective, "objective"},
                                                   {Attending::causal, "causal"},
                                                   {Attending::bidirectional, "bidirectional"}};
inline constexpr Named<Attending> kEncoderAttendings[] = {kAttendings[2], kAttendings[1]};
inline constexpr Named<Pooler> kPoolers[] = {
    {Pooler::none, "none"}, {Pooler::dense, "dense"}, {Pooler::next_sentence, "next-sentence"}};
inline constexpr Named<InitChoice> kInitChoices[] = {
    {InitChoice::placement, "placement"}, {InitChoice::gpt2, "gpt2"}, {InitChoice::xavier, "xavier"}};
inline constexpr Named<Parametrization> kParametrizations[] = {
    {Parametrization::sp, "sp"}, {Parametrization::mup, "mup"}, {Parametrization::completep, "completep"},
    {Parametrization::nugpt, "nugpt"}};
inline constexpr Named<BranchWarmup> kBranchWarmups[] = {
    {BranchWarmup::none, "none"}, {BranchWarmup::prores, "prores"}, {BranchWarmup::branchnorm, "branchnorm"}};
inline constexpr Named<BlockForm> kBlockForms[] = {{BlockForm::sequential, "sequential"},
                                                  {BlockForm::parallel, "parallel"},
                                                  {BlockForm::parallel_shared, "parallel-shared"}};
inline constexpr Named<QkNormKind> kQkNormKinds[] = {
    {QkNormKind::none, "none"}, {QkNormKind::head, "head"}, {QkNormKind::full, "full"}, {QkNormKind::qkv, "qkv"},
    {QkNormKind::unit, "unit"}};
inline constexpr Named<OutputGate> kOutputGates[] = {{OutputGate::none, "none"},
                                                     {OutputGate::headwise, "headwise"},
                                                     {OutputGate::elementwise, "elementwise"}};
inline constexpr Named<ValueResidual> kValueResiduals[] = {
    {ValueResidual::none, "none"}, {ValueResidual::fixed, "fixed"}, {ValueResidual::learned, "learned"}};
inline constexpr Named<Recompute> kRecomputes[] = {
    {Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}};

inline constexpr int kMostStreams = 8;  // residual streams

// y = f(gate)·up: the feed-forward layer has two input matrices.
constexpr bool is_gated(Activation kind) { return kind >= Activation::geglu; }

struct Placement;  // placements.hpp

struct Config {
  std::string placement = "pre";
  const Placement* placement_row = nullptr;  // the row with this name; resolve() sets it
  NormKind norm = NormKind::layernorm;
  std::array<std::optional<NormChoice>, kNormSiteCount> norm_sites;  // open: as `norm`
  float norm_eps = 1e-5f;
  std::optional<bool> norm_bias;   // of `norm`; open: as `bias`, but none for RMSNorm, ScaleNorm, GatedNorm
  bool norm_gain = true;           // of `norm`; without one, layernorm and rmsnorm only normalize (OLMo, nanochat)
  float norm_gain_init = 1;        // initial gain; ScaleNorm: of √C
  bool norm_unit_offset = false;   // the gain is 1 + w; w starts at 0 (Gemma)
  float dyt_alpha = .5f;           // initial alpha of DyT and Derf
  int gated_norm_rank = 16;        // of the gate of GatedNorm
  std::optional<bool> final_norm;  // open: as the placement says
  bool embedding_norm = false;
  bool fix_norm = false;           // rows of the token embedding and of the classifier have length 1 (FixNorm)
  QkNormKind qk_norm = QkNormKind::none;    // norms of queries and keys, by head or all heads together; qkv: of
                                            // queries, keys and values by head; unit: nGPT's (layers/norm/unit_qk.hpp)
  BlockForm block = BlockForm::sequential;  // the feed-forward branch reads the output of attention, or x

  int n_layer = 4;     // L, of the decoder if there are two stacks
  int encoder_layers = 0;  // blocks of a second stack, whose output the first one reads by cross attention; 0: none
  int decoder_layers = 0;  // in the Config of an encoder (encoder_of): the blocks of the stack that reads it
  std::string encoder_placement = "same";   // or the name of a placement, for the encoder's blocks
  std::optional<NormKind> encoder_norm;     // open: `norm`
  Attending encoder_attention = Attending::bidirectional;
  int n_head = 4;      // H
  int kv_heads = 0;    // heads of k and v (GQA); 0: as many as heads
  int head_dim = 0;    // D; 0: channels / heads
  int channels = 128;  // C
  int embedding_channels = 0;  // E of a token, projected to C and back for the logits; 0: C
  int hidden = 0;      // F; 0: 4·C, or if gated 8/3·C rounded up to a multiple of 32
  int context = 256;   // longest sequence T
  int vocab_size = 0;  // V
  Objective objective = Objective::lm;
  float mask_fraction = .15f;  // of the tokens, under mlm
  int token_types = 0;         // learned vectors, of which the first is added to every token (BERT)
  bool head_transform = false;  // a linear layer, the activation and a norm before the classifier (BERT)
  Pooler pooler = Pooler::none;  // does not train, and no logit reads it

  int experts = 0;                 // E of a mixture (layers/moe), each `hidden` wide; 0: one feed-forward layer
  int experts_per_token = 2;       // k
  int shared_experts = 0;          // S that every token uses, in addition to its k
  bool router_renormalize = true;  // a token's k weights add up to 1
  bool router_logit_bias = false;  // the router's logits have a learned bias (gpt-oss)
  float router_loss = .01f;        // weight of the load-balancing loss
  float router_z_loss = 0;         // weight of the router's z-loss
  float router_bias = 0;           // step of the bias that balances the selection of experts; 0: no bias

  Position position = Position::learned;
  int relative_buckets = 32;              // of distances between a query and a key, each with a learned bias (T5)
  int relative_distance = 128;            // from here on, distances share the last bucket
  float rope_theta = 10000;
  float rope_fraction = 1;                // share of each head that RoPE rotates, from its start, in whole pairs
  std::string rope_layers = "all";        // layers that RoPE rotates; the others have no position (layer_set.hpp)
  RopeScaling rope_scaling = RopeScaling::none;
  float rope_factor = 1;                  // by which rope_scaling stretches positions
  int rope_original = 0;                  // context before the stretching; 0: `context`
  float rope_slow = 0, rope_fast = 0;     // turns in that context between which the stretching fades; 0: as usual
  bool rope_truncate = true;              // yarn: the stretching fades between whole pairs
  std::string rope_short, rope_long;      // longrope: each pair's factor, as 1,1.05,2: for examples up to
                                          // rope_original, and for longer ones
  std::optional<double> rope_magnitude;   // factor on what RoPE rotates; open: as rope_scaling says
  Attending attention = Attending::objective;  // resolve() replaces `objective`
  int window = 0;                         // keys that a query sees on each side, with itself; 0: all
  std::string window_layers = "all";      // layers that have the window, the others see all keys
  std::optional<double> window_rope_theta;  // base in those layers, without scaling; open: the base of all
  float attention_cap = 0;                // scores become c·tanh(S/c); 0 is off
  std::optional<double> attention_scale;  // factor on q·k; open: D^-½ (under qk_norm unit √D), or as the
                                          // parametrization says
  bool attention_sinks = false;           // a learned logit per head that takes weight from the keys (gpt-oss)
  OutputGate output_gate = OutputGate::none;
  std::optional<bool> head_scale;  // a learned factor on each head's output; open: as the placement says
  ValueResidual value_residual = ValueResidual::none;  // later layers mix in the first layer's values
  Activation activation = Activation::gelu_tanh;
  bool up_gain = false;    // a learned factor on each output of up and gate, times √C (nGPT)
  bool bias = true;
  std::optional<bool> qkv_bias, o_bias;  // biases of q, k and v, and of o; open: as `bias`
  bool head_bias = false;
  bool tied = true;
  std::optional<double> embedding_scale;  // factor on the token embedding before positions are added; open: 1, or
  bool root_embedding_scale = false;      // √C (Gemma); under fix_norm √embedding_channels
  std::optional<double> logit_scale;  // factor on the logits, before their cap; open: as the parametrization says, or
  bool root_logit_scale = false;      // 1/√C (T5)
  bool logit_gain = false;    // a learned factor on each token's logit (nGPT)
  float logit_cap = 0;        // logits become c·tanh(l/c); 0 is off
  bool stream_mix = false;    // before each block: x ← a·x + b·x₀, a and b learned, x₀ the first block's x
  float dropout = 0;
  float z_loss = 0;           // weight of log²Z in the training loss
  float label_smoothing = 0;  // share of a target's probability that goes to all tokens alike in training
  Matmul matmul = Matmul::fp32;  // input precision of products with weights and, without AMX, of attention
  Recompute recompute = Recompute::none;

  InitChoice init = InitChoice::placement;
  bool zero_init = false;             // o and down start at 0
  std::optional<bool> residual_gain;  // open: as the initialization says
  std::optional<double> init_gain;    // β on v, o and the FFN; open: as the initialization says
  std::optional<double> skip_scale;   // α; open: as the placement says
  std::optional<double> branch_scale;  // factor on what a branch adds to the stream; open: as the parametrization says
  BranchWarmup branch_warmup = BranchWarmup::none;
  int branch_warmup_steps = 0;  // T of the first block
  std::optional<double> layer_scale_init;  // initial value of LayerScale's gains; open: by depth
  float eigen_rate_init = .05f;            // α of ngpt at the start
  bool normed_weights = false;             // vectors of C weights have length 1 after each step (nGPT)
  Parametrization parametrization = Parametrization::sp;
  int base_channels = 0, base_layers = 0;  // the sizes at which all parametrizations are sp
  int base_heads = 0;                      // 0: n_head
  int streams = 4;                         // S, residual streams if the placement has several
  int residual_block = 1;                  // branches in each block of attention residuals
  int gated_residual_rank = 32;            // of the gates of the gated residual
  double mix_fraction = .25;               // under mix-ln, the share of first blocks that are Post-LN

  int lora_rank = 0;            // LoRA (layers/linear/lora.hpp); 0 is off
  float lora_alpha = 16;        // adapters are multiplied by alpha / rank
  float lora_dropout = 0;       // dropout on what adapters read
  std::string lora_on = "q,v";  // matrices with adapters: of q, k, v, o, gate, up, down
  std::string lora_shared;      // joined matrices (qkv, gate_up) whose adapters share `a`

  Config without_lora() const {
    Config c = *this;
    c.lora_rank = 0;
    c.lora_alpha = 16;
    c.lora_dropout = 0;
    c.lora_on = "q,v";
    c.lora_shared.clear();
    return c;
  }
  bool crosses() const { return encoder_layers > 0; }  // this stack has cross attention
  int branches() const { return crosses() ? 3 : 2; }   // of a block
  bool causal() const { return attention == Attending::causal; }
  bool projects() const { return embedding_channels != channels; }
  bool gated() const { return is_gated(activation); }
  int experts_run() const { return experts > 0 ? experts_per_token + shared_experts : 1; }  // of one token
  int qkv_width() const { return (n_head + 2 * kv_heads) * head_dim; }
  int gate_width() const {
    return output_gate == OutputGate::none ? 0 : n_head * (output_gate == OutputGate::elementwise ? head_dim : 1);
  }
  bool shares_values() const { return value_residual != ValueResidual::none && n_layer > 1; }
  // Channels of a head that RoPE rotates: truncated as Hugging Face does, up to rounding errors.
  int rope_dims() const { return static_cast<int>(rope_fraction * static_cast<float>(head_dim) + 1e-3f) / 2 * 2; }
  int window_of(int layer) const { return has_layer(window_layers, layer) ? window : 0; }
  bool rotates(int layer) const { return position == Position::rope && has_layer(rope_layers, layer); }
  // Whether this layer rotates by the angles of window_rope_theta.
  bool rotates_locally(int layer) const { return window_rope_theta && window_of(layer) > 0; }
};
