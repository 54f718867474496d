#pragma once
// The whole model, put together from the textbook's layers.

#include <deque>
#include <numeric>

#include "block.hpp"
#include "cross_entropy.hpp"
#include "dropout.hpp"
#include "embedding.hpp"
#include "position.hpp"
#include "unit_rows.hpp"

namespace textbook {

// ---- word vectors --------------------------------------------------------------------------------------------

// WordVectors: the matrix of the token embedding, or of the classifier. Under FixNorm, what reads it reads rows of
// length 1. In nGPT the classifier reads rows times learned factors.
//   forward   returns the matrix (V,E) to read
//   backward  reads the gradient of what forward has returned, adds to that of the matrix

template <class Number>
struct WordVectors {
  Pass<Number>& pass;
  const Matrix& matrix;
  RowGain gain = {};
  size_t V = pass.sizes.V, E = pass.config.embedding_channels;
  std::vector<Number> unit = {};

  const Number* forward() {
    if (!pass.config.fix_norm && !gain.present()) return pass.p.at(matrix);
    unit.resize(V * E);
    if (gain.present())
      scaled_rows_forward(unit.data(), pass.p.at(matrix), pass.p.at(gain.weight), gain.factor, V, E);
    else unit_rows_forward(unit.data(), pass.p.at(matrix), V, E);
    return unit.data();
  }
  void backward(const std::vector<Number>& d) {
    if (gain.present())
      scaled_rows_backward(pass.g.at(matrix), pass.g.at(gain.weight), d.data(), pass.p.at(matrix),
                           pass.p.at(gain.weight), gain.factor, V, E);
    else if (pass.config.fix_norm) unit_rows_backward(pass.g.at(matrix), d.data(), pass.p.at(matrix), V, E);
    else add(pass.g.at(matrix), Number(1), d.data(), V * E);
  }
};

// ---- embedding -----------------------------------------------------------------------------------------------

// Embedding: from the tokens to the input of the first block of a stack.
//   tokens (N)   x (N,C)
//   forward   token embedding (N,E) → projection to C channels, if E is not C → + positional encoding
//             → + the first token type, if there are types → norm, if the model has one → dropout
//   backward  the same in reverse; d holds dx and is overwritten

template <class Number>
struct Embedding {
  Pass<Number>& pass;
  const StackTensors& t;
  Sizes s = pass.sizes;
  const ModelTensors& shared = pass.p.model.p;
  size_t E = pass.config.embedding_channels;
  WordVectors<Number> words = {pass, shared.token};
  LinearModule<Number> project = {pass, shared.project_in, E, s.C};
  NormModule<Number> norm = {pass, t.embedding_norm, s.C};
  std::vector<Number> on_x = row_multipliers<Number>(pass.dropout, 0, DropoutSite::embedding, s.B, s.T, s.C);
  std::vector<Number> token = std::vector<Number>(s.N * E), embedded = std::vector<Number>(s.N * s.C);

  void forward(Number* x, const int* tokens) {
    embedding_forward(token.data(), tokens, words.forward(), s.N, E, *pass.config.embedding_scale);
    if (E != s.C) project.forward(embedded.data(), token.data());
    else embedded = token;
    if (t.position) learned_position_forward(embedded.data(), pass.p.at(t.position), pass.positions(), s.C);
    if (pass.config.position == Position::sinusoidal)
      sinusoidal_position_forward(embedded.data(), pass.positions(), s.C);
    for (size_t n = 0; t.types && n < s.N; ++n) add(&embedded[n * s.C], Number(1), pass.p.at(t.types), s.C);
    norm.forward(x, embedded.data());
    dropout_forward(x, on_x.data(), s.N * s.C);
  }

  void backward(Number* d, const int* tokens) {
    std::vector<Number> dembedded(s.N * s.C), dtoken(s.N * E), dwords(s.V * E);
    dropout_backward(d, on_x.data(), s.N * s.C);
    norm.backward(dembedded.data(), d, embedded.data());
    for (size_t n = 0; t.types && n < s.N; ++n) add(pass.g.at(t.types), Number(1), &dembedded[n * s.C], s.C);
    if (t.position) learned_position_backward(pass.g.at(t.position), dembedded.data(), pass.positions(), s.C);
    if (E != s.C) project.backward(dtoken.data(), dembedded.data(), token.data());
    else dtoken = dembedded;
    embedding_backward(dwords.data(), tokens, dtoken.data(), s.N, E, *pass.config.embedding_scale);
    words.backward(dwords);
  }
};

// ---- stack ---------------------------------------------------------------------------------------------------

// Stack: the blocks between the tokens and the head, or the decoder.
//   tokens (N)   h (N,C)
//   forward   embedding → a copy in each stream → blocks → sum, mean or read of the streams → final norm → h
//   backward  the same in reverse; dh is overwritten
// ResiDual: x[0] + final norm(x[1]) in place of the sum and its norm.
// SiameseNorm: x[0] begins as first_norm of the embedding, and the sum is x[0] + second_norm(x[1]).
// Attention over depth: a weighted mean in place of the sum.

template <class Number>
struct Stack {
  Pass<Number>& pass;
  const StackTensors& t;
  size_t NC = pass.sizes.N * pass.sizes.C;
  Embedding<Number> embedding = {pass, t};
  NormModule<Number> norm = {pass, t.final_norm, pass.sizes.C};
  NormModule<Number> first_norm = {pass, t.first_norm, pass.sizes.C};
  NormModule<Number> second_norm = {pass, t.second_norm, pass.sizes.C};
  std::deque<Block<Number>> blocks = {};  // std::vector would compile how to move a block
  std::vector<std::vector<Number>> x = {};  // (S,N,C) each: x[l] is the input of block l, x.back() the last output
  std::vector<Number> h = std::vector<Number>(NC), added = h;  // added: what the final norm reads
  StreamRule rule = stream_rule(pass.config);
  StreamEnd end = pass.config.placement_row->stream_end;
  bool dual = rule == StreamRule::dual, siamese = rule == StreamRule::siamese, depth = is_attnres(rule);
  DepthSaved<Number> of_mean = {};
  StreamsSaved<Number> of_end = {};
  Rows rows = {pass.sizes.N, pass.sizes.C};

  Stack(Pass<Number>& in_pass, const StackTensors& tensors) : pass(in_pass), t(tensors) {
    pass.table_of_relative = t.relative;
    for (const ::Block& block : t.blocks) blocks.emplace_back(pass, block, int(blocks.size()));
    x.resize(blocks.size() + 1, std::vector<Number>(pass.sizes.S * NC));
  }

  Sources<Number> sources() const { return pass.sums.sources(2 * blocks.size(), x.back().data()); }

  void add_streams() {
    const std::vector<Number>& last = x.back();
    if (depth)
      return depth_forward(added.data(), of_mean, sources(), pass.p.depth(t.depth), pass.sizes.N, pass.sizes.C);
    if (mixes(rule))
      return streams_end_forward(added.data(), of_end, last.data(), end, pass.p.streams(t.read), rows);
    if (siamese) second_norm.forward(added.data(), &last[NC]);
    else added.assign(last.begin() + (dual ? NC : 0), last.begin() + (dual ? 2 : 1) * NC);
    if (siamese) add(added.data(), Number(1), last.data(), NC);
  }

  void forward(const int* tokens) {
    embedding.forward(x[0].data(), tokens);
    pass.x0.assign(x[0].begin(), x[0].begin() + NC);
    for (size_t i = NC; i < x[0].size(); ++i) x[0][i] = x[0][i % NC];  // each stream starts as a copy
    if (siamese) first_norm.forward(x[0].data(), &x[0][NC]);
    for (size_t l = 0; l < blocks.size(); ++l) blocks[l].forward(x[l + 1].data(), x[l].data());
    add_streams();
    norm.forward(h.data(), added.data());
    if (dual) add(h.data(), Number(1), x.back().data(), NC);
  }

  void backward(const std::vector<Number>& dh, const int* tokens) {
    std::vector<Number> dy(x[0].size()), dx(x[0].size());
    pass.dx0.assign(NC, 0);
    pass.dvalues.clear();
    norm.backward(dy.data(), dh.data(), added.data());
    if (mixes(rule)) {
      const std::vector<Number> dadded(dy.begin(), dy.begin() + NC);
      streams_end_backward(dy.data(), pass.g.streams(t.read), dadded.data(), of_end, x.back().data(), end,
                           pass.p.streams(t.read), rows);
    }
    if (siamese) second_norm.backward(&dy[NC], dy.data(), &x.back()[NC]);
    if (dual) std::copy(dy.begin(), dy.begin() + NC, dy.begin() + NC);
    if (dual) std::copy(dh.begin(), dh.end(), dy.begin());
    if (depth) mean_backward(dy);
    for (size_t l = blocks.size(); l-- > 0; dy.swap(dx)) blocks[l].backward(dx.data(), dy.data(), x[l].data());
    if (siamese) first_norm.backward(dx.data(), dy.data(), &x[0][NC]);
    if (siamese) std::copy(dx.begin(), dx.begin() + NC, dy.begin());
    for (size_t i = NC; i < dy.size(); ++i) dy[i % NC] += dy[i];
    for (size_t i = 0; i < NC; ++i) dy[i] += pass.dx0[i];  // each block has mixed x0 in
    embedding.backward(dy.data(), tokens);
  }

  // d holds the gradient of the mean before the call. After it, d holds that of the last output, or zeros if the output
  // is a finished sum, whose gradient pass.sums has.
  void mean_backward(std::vector<Number>& d) {
    std::vector<std::vector<Number>> dv;
    depth_backward(dv, pass.g.depth(t.depth), d.data(), of_mean, sources(), pass.p.depth(t.depth), pass.sizes.N,
                   pass.sizes.C);
    pass.sums.d.assign(pass.sums.v.size(), std::vector<Number>(NC));
    d.assign(NC, 0);
    pass.sums.add_gradients(d.data(), dv, 2 * blocks.size(), NC);
  }

  // Call after forward. Returns the losses of all routers, which training adds to the sum.
  Number router_losses() const {
    Number sum = 0;
    for (const Block<Number>& block : blocks)
      if (pass.config.experts > 0)
        sum += textbook::router_losses(block.ffn.experts.routed, block.ffn.experts.routing, pass.sizes.N);
    return sum;
  }
};

// ---- head ----------------------------------------------------------------------------------------------------

// Head: from the end of the stack to the loss.
//   h (N,C)   targets (N)
//   forward   h → transform, if the head has one → projection to E channels, if E is not C → logits (N,V), scaled
//             → soft cap, if the model has one → sum of the losses
//   backward  the same in reverse, for of_loss · (the sum + the z-loss, if the model has one)
//   transform: a linear layer (C to C), the activation, and a norm

template <class Number>
struct Head {
  Pass<Number>& pass;
  Sizes s = pass.sizes;
  const ModelTensors& t = pass.p.model.p;
  double scale = *pass.config.logit_scale, cap = pass.config.logit_cap, z_loss = pass.config.z_loss;
  size_t E = pass.config.embedding_channels;
  NormModule<Number> transform_norm = {pass, t.transform_norm, s.C};
  LinearModule<Number> transform = {pass, t.transform, s.C, s.C};
  LinearModule<Number> project = {pass, t.project_out, s.C, E};
  WordVectors<Number> words = {pass, t.head ? t.head : t.token, t.logit_gain};  // tied: the token embedding
  std::vector<Number> up = std::vector<Number>(s.N * s.C), active = up, wide = up;
  std::vector<Number> read = std::vector<Number>(s.N * E);
  std::vector<Number> raw = std::vector<Number>(s.N * s.V), logits = raw;

  Number forward(const std::vector<Number>& h, const int* targets) {
    wide = h;
    if (pass.config.head_transform) {
      transform.forward(up.data(), h.data());
      activation_forward(active.data(), up.data(), pass.config.activation, s.N, s.C);
      transform_norm.forward(wide.data(), active.data());
    }
    if (E != s.C) project.forward(read.data(), wide.data());
    else read = wide;
    linear_forward(raw.data(), read.data(), words.forward(), pass.p.at(t.head_bias), {s.N, E, s.V});
    for (Number& logit : raw) logit *= scale;
    logits = raw;
    if (cap > 0) soft_cap_forward(logits.data(), raw.data(), cap, s.N * s.V);
    std::vector<Number> losses(s.N);
    cross_entropy_forward(losses.data(), logits.data(), targets, s.N, s.V);
    return std::accumulate(losses.begin(), losses.end(), Number(0));
  }

  // Returns dh.
  std::vector<Number> backward(const std::vector<Number>& h, const int* targets, Number of_loss) {
    std::vector<Number> dlogits(s.N * s.V), dread(s.N * E), dwide(s.N * s.C), dwords(s.V * E);
    cross_entropy_backward(dlogits.data(), logits.data(), targets, of_loss, s.N, s.V);
    if (z_loss > 0) z_loss_backward(dlogits.data(), logits.data(), targets, Number(z_loss), of_loss, s.N, s.V);
    smoothing_backward(dlogits.data(), targets, pass.config.label_smoothing, of_loss, s.N, s.V);
    if (cap > 0) soft_cap_backward(dlogits.data(), dlogits.data(), raw.data(), cap, s.N * s.V);
    for (Number& d : dlogits) d *= scale;
    linear_backward(dread.data(), dwords.data(), pass.g.at(t.head_bias), dlogits.data(), read.data(), words.forward(),
                    {s.N, E, s.V});
    words.backward(dwords);
    if (E != s.C) project.backward(dwide.data(), dread.data(), wide.data());
    else dwide = dread;
    if (!pass.config.head_transform) return dwide;
    std::vector<Number> dactive(s.N * s.C), dup(s.N * s.C), dh(s.N * s.C);
    transform_norm.backward(dactive.data(), dwide.data(), active.data());
    activation_backward(dup.data(), dactive.data(), up.data(), pass.config.activation, s.N, s.C);
    transform.backward(dh.data(), dup.data(), h.data());
    return dh;
  }
};

// ---- model ---------------------------------------------------------------------------------------------------

// Model: a stack and the head. If there is an encoder, the stack is a decoder, and its cross attention reads what the
// encoder makes of the sources. The constructor copies the weights of the fast model into `p`; the gradients `g` start
// at 0.

template <class Number>
struct Model {
  Parameters<Number> p, g;
  Pass<Number> pass, source_pass;
  Stack<Number> stack, encoder;
  Head<Number> head;
  // A router's loss is a mean over the tokens of its stack, so the encoder's, a sum over other tokens, has this factor.
  Number of_sources = source_pass.sizes.N > 0 ? double(pass.sizes.N) / double(source_pass.sizes.N) : 0;

  Model(const ::Model& model, size_t B, size_t T, const Dropout& dropout, bool training = true,
        const EncoderInput& source = {})
      : p{model, training, {model.weights.get(), model.weights.get() + model.floats}},
        g{model, training, std::vector<Number>(model.floats)},
        pass{model.config, sizes_of(model.config, B, T), dropout, p, g},
        source_pass{model.encoder, sizes_of(model.encoder, B, source.T), of_encoder(dropout), p, g},
        stack(reading(source), model.p), encoder(source_pass, model.p.encoder), head{pass} {}
  Model(const Model&) = delete;  // members refer to others

  // Returns the sum of the losses of all targets except kIgnore.
  Number forward(const Batch& batch) {
    pass.begins = batch.begins;
    source_pass.begins = batch.encoder.begins;
    if (pass.config.crosses()) encoder.forward(batch.encoder.tokens);
    pass.memory = encoder.h;
    stack.forward(batch.tokens);
    return head.forward(stack.h, batch.targets);
  }

  // Call after forward. Returns the losses of all routers, which training adds to the sum.
  Number router_losses() const { return of_sources * encoder.router_losses() + stack.router_losses(); }

  // Call after forward. Adds scale · the gradients of the sum to g. The routers' losses may have another scale.
  void backward(const Batch& batch, Number scale) { backward(batch, scale, scale); }
  void backward(const Batch& batch, Number scale, Number router_scale) {
    pass.router_scale = router_scale;
    source_pass.router_scale = router_scale * of_sources;
    pass.dmemory.assign(pass.memory.size(), 0);
    stack.backward(head.backward(stack.h, batch.targets, scale), batch.tokens);
    if (pass.config.crosses()) encoder.backward(pass.dmemory, batch.encoder.tokens);
  }

 private:
  Pass<Number>& reading(const EncoderInput& source) {
    pass.source = source;
    return pass;
  }
};

}  // namespace textbook
