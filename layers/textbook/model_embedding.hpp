#pragma once
// From tokens (N) to what enters the first block, x (N,C):
//   forward   token's row → + position → norm, where there is one → dropout
//   backward  the other way round; d holds dx and is overwritten

#include "dropout.hpp"
#include "embedding.hpp"
#include "masks.hpp"
#include "modules.hpp"
#include "position.hpp"

namespace textbook {

template <class Number>
struct Embedding {
  Pass<Number>& pass;
  Sizes s = pass.sizes;
  const ModelTensors& t = pass.p.model.p;
  NormModule<Number> norm = {pass, t.embedding_norm, s.C};
  std::vector<Number> on_x = row_multipliers<Number>(pass.dropout, 0, DropoutSite::embedding, s.B, s.T, s.C);
  std::vector<Number> embedded = std::vector<Number>(s.N * s.C);

  void forward(Number* x, const int* tokens) {
    embedding_forward(embedded.data(), tokens, pass.p.at(t.token), s.N, s.C, *pass.config.embedding_scale);
    if (t.position) learned_position_forward(embedded.data(), pass.p.at(t.position), 0, s.B, s.T, s.C);
    if (pass.config.position == Position::sinusoidal)
      sinusoidal_position_forward(embedded.data(), 0, s.B, s.T, s.C);
    norm.forward(x, embedded.data());
    dropout_forward(x, on_x.data(), s.N * s.C);
  }

  void backward(Number* d, const int* tokens) {
    std::vector<Number> dembedded(s.N * s.C);
    dropout_backward(d, on_x.data(), s.N * s.C);
    norm.backward(dembedded.data(), d, embedded.data());
    if (t.position) learned_position_backward(pass.g.at(t.position), dembedded.data(), s.B, s.T, s.C);
    embedding_backward(pass.g.at(t.token), tokens, dembedded.data(), s.N, s.C, *pass.config.embedding_scale);
  }
};

}  // namespace textbook
