#include "block.hpp"

#include <algorithm>

#include "layers/kernels/elementwise.hpp"

namespace {

bool is_sequential(const Config& config) { return config.block == BlockForm::sequential; }
bool shares_norm(const Config& config) { return config.block == BlockForm::parallel_shared; }

// ---- a branch ----------------------------------------------------------------------------------------------

// A branch without `enters` reads the normalized input of the other branch.
template <class Sublayer>
void declare_branch(Sublayer& p, Layout& layout, const Config& config, const std::string& name, int layer,
                    bool enters) {
  if (enters) declare_branch_enter(p, layout, config, name, layer, 2 * layer + (name == "ffn"));
  declare_sublayer(p, layout, config, name, layer);
  declare_branch_leave(p, layout, config, name, layer);
}

template <class Sublayer, class Saved>
void declare_saved(Saved& saved, Layout& layout, const Config& config, const std::string& name, int layer, int B, int T,
                   bool enters) {
  const int N = B * T, width = Sublayer::inner_width(config), rows = Sublayer::inner_rows(config, N);
  static_cast<BranchSaved&>(saved) = declare_branch_saved(layout, config, name, layer, N, width, enters, rows);
  declare_sublayer_saved(saved, layout, config, name, layer, B, T);
}

// u → y: adds f = sublayer(u) to x. Without `leaves`, only writes what the sublayer saves before f. b is the block's
// input.
template <class Saved, class Sublayer>
void forward(const Saved& saved, const float* x, const float* u, const Sublayer& p, const BlockContext& c, bool leaves,
             const float* b) {
  const int N = c.B * c.T, C = c.config.channels;
  const float* m = sublayer_inner(saved, u, p, c);
  if (!leaves) return;
  float* f = saved.f ? saved.f : c.scratch.f;
  sublayer_out(f, saved, m, p, c);
  dropout_apply(f, c.dropout, c.layer, Sublayer::kDropout, c.B, c.T, C);
  branch_leave(saved.y, saved, c.scratch.streams, c.scratch.normed, x, f, p, N, C, c.training, b);
}

// d holds dy before the call and ds after it. Writes du. x is the stream that the branch has read.
template <class Saved, class Sublayer>
void backward(float* du, float* d, const Sublayer& g, const float* x, const float* u, const Saved& saved,
              const Sublayer& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  float* scratch = c.scratch.f;
  const float* df =
      branch_leave_backward(d, scratch, g, c.scratch.streams, x, saved.f, saved, p, N, C, c.scratch.bypass);
  if (c.dropout.p > 0) {
    if (df == d) copy_rows(scratch, d, N, C);  // d is still needed
    dropout_apply(scratch, c.dropout, c.layer, Sublayer::kDropout, c.B, c.T, C);
    df = scratch;
  }
  sublayer_backward(du, g, df, u, saved, p, c);
}

}  // namespace

// ---- declarations ------------------------------------------------------------------------------------------

// The initial factors are nanochat's (gpt.py, 92d63d4): from the first block to the last, 1.15 to 1.05 on the stream
// and .2 to .05 on the first block's input.
static Mix declare_stream_mix(Layout& layout, const Config& config, int layer) {
  const float depth = static_cast<float>(layer) / static_cast<float>(std::max(config.n_layer - 1, 1));
  return declare_mix(layout, "stream_mix", 1.15f - .1f * depth, .2f - .15f * depth);
}

Block declare_block(Layout& layout, const Config& config, int layer) {
  layout.enter_layer(layer);
  Block p;
  if (config.stream_mix) p.mix = declare_stream_mix(layout, config, layer);
  declare_branch(p.attention, layout, config, "attention", layer, true);
  declare_branch(p.ffn, layout, config, "ffn", layer, !shares_norm(config));
  if (!is_sequential(config)) p.ffn.skip = 1;  // the output of attention's branch contains skip·x
  declare_shared_gain(p.attention, p.ffn, layout, config, layer);
  layout.leave_layer();
  return p;
}

BlockSaved declare_block_saved(Layout& layout, Config config, int layer, int B, int T, bool training) {
  if (!training) config.recompute = Recompute::full;
  const std::vector<int> stream = {stream_count(config) * B * T, config.channels};
  layout.enter_layer(layer);
  BlockSaved saved;
  layout.share(config.recompute >= Recompute::selective);
  if (config.stream_mix) saved.mixed = layout.take("stream_mix", Role::residual, stream);
  declare_saved<Attention>(saved.attention, layout, config, "attention", layer, B, T, true);
  layout.share(config.recompute >= Recompute::full);
  saved.attention.y = layout.take("attention.y", Role::residual, stream);
  declare_saved<FeedForward>(saved.ffn, layout, config, "ffn", layer, B, T, !shares_norm(config));
  layout.share(!training);
  saved.ffn.y = layout.take("ffn.y", Role::residual, stream);
  layout.share(false);
  layout.leave_layer();
  return saved;
}

BlockScratch declare_block_scratch(Layout& layout, const Config& config, int B, int T, bool backward) {
  const int N = B * T, C = config.channels;
  BlockScratch scratch{};
  scratch.f = layout.take("scratch.f", Role::scratch, {N, C});
  scratch.normed = layout.take("scratch.normed", Role::scratch, {N, C});
  const int inner = std::max(FeedForward::inner_width(config), Attention::inner_width(config));
  scratch.lora = declare_lora_scratch(layout, config, N, std::max(C, inner), backward);
  scratch.streams = declare_streams_scratch(layout, config, N, backward);
  const bool moe = config.experts > 0;
  if (moe) scratch.rows = layout.take("scratch.rows", Role::scratch, {N, C});
  if (!backward) return scratch;
  if (moe) scratch.drows = layout.take("scratch.rows_gradient", Role::scratch, {N, C});
  if (moe) scratch.dscores = layout.take("scratch.scores_gradient", Role::router, {N, config.experts});
  if (has_bypass(config)) scratch.bypass = layout.take("scratch.bypass", Role::scratch, {N, C});
  if (!is_sequential(config)) scratch.du = layout.take("scratch.du", Role::scratch, {N, C});
  const int run = config.experts_run();
  scratch.inner = layout.take("scratch.wide", Role::scratch,
                              {N, std::max(run * FeedForward::inner_width(config), Attention::inner_width(config))});
  const int joined = std::max(run * FeedForward::up_width(config), config.qkv_width());
  scratch.joined = layout.take("scratch.wider", Role::scratch, {N, joined});
  return scratch;
}

// ---- schedules ---------------------------------------------------------------------------------------------

// The feed-forward branch reads the output of attention's branch, or x. In both cases it adds to that output. Its y is
// kept, so recomputation stops before its end unless backward needs more.
void block_forward(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  if (p.mix.present()) mix_forward(saved.mixed, C, x, C, c.carried.x, p.mix, N, C);
  if (p.mix.present()) x = saved.mixed;
  const StreamsScratch& streams = c.scratch.streams;
  const float* middle = saved.attention.y;
  const float* u = branch_enter(saved.attention, streams, x, p.attention, N, C, c.training);
  forward(saved.attention, x, u, p.attention, c, c.runs(Recompute::full), x);
  const float* read = is_sequential(c.config) ? middle : x;
  if (!shares_norm(c.config)) u = branch_enter(saved.ffn, streams, read, p.ffn, N, C, c.training);
  const bool ends = !c.again || branch_saves_end(c.config, c.layer, "ffn");
  forward(saved.ffn, middle, u, p.ffn, c, c.runs(Recompute::full) && ends, x);
}

// d holds dy until both branches have read it. Parallel branches both read it before either adds to it (they have no
// norm_sum).
void block_backward(float* d, const Block& g, const float* x, const BlockSaved& saved, const Block& p,
                    const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  const bool sequential = is_sequential(c.config), shared = shares_norm(c.config);
  const float* stream = x;
  if (p.mix.present()) x = saved.mixed;
  const StreamsScratch& streams = c.scratch.streams;
  const float *middle = saved.attention.y, *u = branch_entered(saved.attention, x);
  const float* u_ffn = shared ? u : branch_entered(saved.ffn, middle);
  float *du = c.scratch.normed, *du_ffn = sequential ? du : c.scratch.du;

  backward(du_ffn, d, g.ffn, middle, u_ffn, saved.ffn, p.ffn, c);
  if (sequential) branch_enter_backward(d, g.ffn, streams, du_ffn, middle, saved.ffn, p.ffn, N, C);
  backward(du, d, g.attention, x, u, saved.attention, p.attention, c);
  if (shared) scaled_add(du, 1, du, du_ffn, N, C);
  branch_enter_backward(d, g.attention, streams, du, x, saved.attention, p.attention, N, C);
  if (!sequential && !shared) branch_enter_backward(d, g.ffn, streams, du_ffn, x, saved.ffn, p.ffn, N, C);
  if (p.ffn.bypass) scaled_add(d, 1, c.scratch.bypass, d, N, C);
  if (p.mix.present()) mix_backward(d, C, c.carried.dx, !c.last(), g.mix, stream, c.carried.x, p.mix, N, C);
}
