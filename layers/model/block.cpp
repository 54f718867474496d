#include "block.hpp"

#include <algorithm>

#include "layers/kernels/elementwise.hpp"

namespace {

bool is_sequential(const Config& config) { return config.block == BlockForm::sequential; }
bool shares_norm(const Config& config) { return config.block == BlockForm::parallel_shared; }

// ---- declarations ------------------------------------------------------------------------------------------

// A branch without `enters` reads the u of the other branch. `place` is its place in the block.
template <class Sublayer>
void declare_branch(Sublayer& p, Layout& layout, const Config& config, const std::string& name, int layer, int place,
                    bool enters = true) {
  p.streams = declare_streams(layout, config, name, config.branches() * layer + place);
  if (enters) declare_branch_in(p, layout, config, name, layer);
  declare_sublayer(p, layout, config, name, layer);
  declare_branch_out(p, layout, config, name, layer);
}

template <class Sublayer, class Saved>
void declare_saved(Saved& saved, Layout& layout, const Config& config, const std::string& name, int layer, int B, int T,
                   bool enters) {
  const int N = B * T, width = Sublayer::inner_width(config), rows = Sublayer::inner_rows(config, N);
  layout.share(config.recompute >= Recompute::selective);
  const StreamsSaved streams = declare_streams_saved(layout, config, name, N);
  static_cast<BranchSaved&>(saved) = declare_branch_saved(layout, config, name, layer, N, width, enters, rows);
  saved.streams = streams;
  declare_sublayer_saved(saved, layout, config, name, layer, B, T);
}

// True if later branches may read the output of this one again: attention over depth keeps it.
bool keeps_sum(const Config& config, int layer, int place) {
  return is_attnres(stream_rule(config)) && begins_sum(config, config.branches() * layer + place + 1);
}

// The initial factors are nanochat's (gpt.py, 92d63d4): from the first block to the last, 1.15 to 1.05 on the stream
// and .2 to .05 on the first block's input.
Mix declare_stream_mix(Layout& layout, const Config& config, int layer) {
  const float depth = static_cast<float>(layer) / static_cast<float>(std::max(config.n_layer - 1, 1));
  return declare_mix(layout, "stream_mix", 1.15f - .1f * depth, .2f - .15f * depth);
}

}  // namespace

Block declare_block(Layout& layout, const Config& config, int layer) {
  layout.enter_layer(layer);
  Block p;
  if (config.stream_mix) p.mix = declare_stream_mix(layout, config, layer);
  declare_branch(p.attention, layout, config, "attention", layer, 0);
  if (config.crosses()) declare_branch(p.cross, layout, config, "cross", layer, 1);
  declare_branch(p.ffn, layout, config, "ffn", layer, config.branches() - 1, !shares_norm(config));
  if (!is_sequential(config)) p.ffn.streams.skip = 1;  // the output of attention's branch contains skip·x
  declare_shared({&p.attention, &p.cross, &p.ffn}, layout, config, layer);
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
  layout.share(config.recompute >= Recompute::full && !keeps_sum(config, layer, 0));
  saved.attention.y = layout.take("attention.y", Role::residual, stream);
  if (config.crosses()) {
    layout.share(config.recompute >= Recompute::full);
    declare_saved<CrossAttention>(saved.cross, layout, config, "cross", layer, B, T, true);
    layout.share(config.recompute >= Recompute::full);
    saved.cross.y = layout.take("cross.y", Role::residual, stream);
  }
  declare_saved<FeedForward>(saved.ffn, layout, config, "ffn", layer, B, T, !shares_norm(config));
  layout.share(!training && !keeps_sum(config, layer, config.branches() - 1));
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
  if (config.crosses()) scratch.memory = layout.take("scratch.memory", Role::scratch, {N, C});
  if (!is_sequential(config)) scratch.du = layout.take("scratch.du", Role::scratch, {N, C});
  const int run = config.experts_run();
  scratch.inner = layout.take("scratch.wide", Role::scratch,
                              {N, std::max(run * FeedForward::inner_width(config), Attention::inner_width(config))});
  const int joined = std::max(run * FeedForward::up_width(config), config.qkv_width());
  scratch.joined = layout.take("scratch.wider", Role::scratch, {N, joined});
  return scratch;
}

// ---- forward -----------------------------------------------------------------------------------------------

namespace {

// The stages of a branch that recomputation leaves out if it has kept what they write.
struct Stages {
  bool core = true;  // sublayer_core
  bool end = true;   // from W_out on
};

// x → u
template <class Sublayer>
const float* enter(const BranchSaved& saved, const float* x, const Sublayer& p, const BlockContext& c) {
  const float* h = streams_read(saved.streams, c.scratch.streams, x, p.streams, c.rows());
  return branch_in(saved, h, p, c.rows());
}

// u → f, added to the stream x: writes saved.y. b is the input of the block.
template <class Saved, class Sublayer>
void leave(const Saved& saved, const float* x, const float* u, const float* b, const Sublayer& p, const BlockContext& c,
           Stages run) {
  if (run.core) sublayer_core(saved, u, p, c);
  const float* m = sublayer_inner(saved, u, p, c);
  if (!run.end) return;
  float* f = saved.f ? saved.f : c.scratch.f;
  sublayer_out(f, saved, m, p, c);
  dropout_apply(f, c.dropout, c.layer, Sublayer::kDropout, c.B, c.T, c.config.channels);
  const float* o = branch_out(c.scratch.normed, saved, f, p, c.rows());
  const float* skipped = branch_skip(saved, x, p, c.rows());
  streams_write(saved.y, saved.before_sum(), c.scratch.streams, skipped, o, p.streams, c.rows());
  branch_sum(saved, b, p, c.rows());
}

// Each branch reads what the one before leaves; parallel ones read x. Either way it adds to what the one before leaves.
void run_branches(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& c, Stages attention,
                  Stages ffn) {
  const float* u = enter(saved.attention, x, p.attention, c);
  leave(saved.attention, x, u, x, p.attention, c, attention);
  if (c.config.crosses()) {
    u = enter(saved.cross, saved.attention.y, p.cross, c);
    leave(saved.cross, saved.attention.y, u, x, p.cross, c, attention);
  }
  const float* middle = saved.before_ffn();
  if (!shares_norm(c.config)) u = enter(saved.ffn, is_sequential(c.config) ? middle : x, p.ffn, c);
  leave(saved.ffn, middle, u, x, p.ffn, c, ffn);
}

// Returns what the branches read.
const float* mix_in(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  if (!p.mix.present()) return x;
  mix_forward(saved.mixed, x, c.carried.x, p.mix, {N, C, size_t(C)});
  return saved.mixed;
}

}  // namespace

void block_forward(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& c) {
  run_branches(saved, mix_in(saved, x, p, c), p, c, {}, {});
}

// The y of the second branch is kept, so its end is needed only if backward reads more of it.
void block_recompute(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& c) {
  const bool full = c.config.recompute == Recompute::full;
  const bool ends = full && branch_saves_end(c.config, c.layer, "ffn");
  run_branches(saved, mix_in(saved, x, p, c), p, c, {.core = full, .end = full}, {.core = full, .end = ends});
}

// ---- backward ----------------------------------------------------------------------------------------------

namespace {

// d holds dy before the call and ds after it. Writes du. x is the stream that the branch has read.
template <class Saved, class Sublayer>
void leave_backward(float* du, float* d, const Sublayer& g, const float* x, const float* u, const Saved& saved,
                    const Sublayer& p, const BlockContext& c) {
  float* scratch = c.scratch.f;
  branch_sum_backward(d, c.scratch.bypass, g, saved, p, c.rows());  // y = branch_sum(s)
  const float* df = streams_write_backward(d, scratch, c.scratch.streams, x, saved.f, saved.streams, p.streams,
                                           c.rows());             // s = streams_write(x, o)
  df = branch_out_backward(scratch, g, df, saved, p, c.rows());  // o = branch_out(f)
  if (c.dropout.p > 0) {
    if (df == d) copy_rows(scratch, d, c.B * c.T, c.config.channels);  // d is still needed
    dropout_apply(scratch, c.dropout, c.layer, Sublayer::kDropout, c.B, c.T, c.config.channels);
    df = scratch;
  }
  sublayer_backward(du, g, df, u, saved, p, c);
}

// d holds ds before the call and dx after it; du is overwritten.
template <class Sublayer>
void enter_backward(float* d, const Sublayer& g, float* du, const float* x, const BranchSaved& saved, const Sublayer& p,
                    const BlockContext& c) {
  branch_in_backward(du, g, saved.streams.h_or(x), saved, p, c.rows());  // u = branch_in(h)
  if (p.skip_gain.present()) return branch_skip_backward(d, g, du, x, p, c.rows());
  streams_read_backward(d, g.streams, c.scratch.streams, du, x, saved.streams, p.streams, c.rows());
}

template <class Saved, class Sublayer>
void branch_backward(float* d, const Sublayer& g, const float* x, const Saved& saved, const Sublayer& p,
                     const BlockContext& c) {
  float* du = c.scratch.normed;
  leave_backward(du, d, g, x, saved.u_or(saved.streams.h_or(x)), saved, p, c);
  enter_backward(d, g, du, x, saved, p, c);
}

// d holds dy until both branches have read it: parallel branches have one stream and no norm_sum.
void parallel_backward(float* d, const Block& g, const float* x, const BlockSaved& saved, const Block& p,
                       const BlockContext& c) {
  const bool shared = shares_norm(c.config);
  float *du = c.scratch.normed, *du_ffn = c.scratch.du;
  const float *u = saved.attention.u_or(x), *u_ffn = shared ? u : saved.ffn.u_or(x);
  leave_backward(du_ffn, d, g.ffn, x, u_ffn, saved.ffn, p.ffn, c);
  leave_backward(du, d, g.attention, x, u, saved.attention, p.attention, c);
  if (shared) scaled_add(du, 1, du, du_ffn, c.B * c.T, c.config.channels);
  enter_backward(d, g.attention, du, x, saved.attention, p.attention, c);
  if (!shared) enter_backward(d, g.ffn, du_ffn, x, saved.ffn, p.ffn, c);
}

}  // namespace

void block_backward(float* d, const Block& g, const float* x, const BlockSaved& saved, const Block& p,
                    const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  const float* read = p.mix.present() ? saved.mixed : x;
  if (is_sequential(c.config)) {
    branch_backward(d, g.ffn, saved.before_ffn(), saved.ffn, p.ffn, c);
    if (c.config.crosses()) branch_backward(d, g.cross, saved.attention.y, saved.cross, p.cross, c);
    branch_backward(d, g.attention, read, saved.attention, p.attention, c);
  } else {
    parallel_backward(d, g, read, saved, p, c);
  }
  if (p.ffn.bypass) scaled_add(d, 1, c.scratch.bypass, d, N, C);
  if (p.mix.present()) mix_backward(d, c.carried.dx, !c.last(), g.mix, x, c.carried.x, p.mix, {N, C, size_t(C)});
}
