// The example of layers/embedding/embedding.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t N = 3, V = 4, C = 3;

// A language model without blocks: tokens are looked up and compared with all vectors of the same table.
struct Tied {
  std::vector<int> tokens, targets;
  Doubles x = Doubles(N * C), logits = Doubles(N * V), losses = Doubles(N);

  double loss(const Doubles& weight) {
    textbook::embedding_forward(x.data(), tokens.data(), weight.data(), N, C);
    textbook::linear_forward<double>(logits.data(), x.data(), weight.data(), nullptr, {N, C, V});
    textbook::cross_entropy_forward(losses.data(), logits.data(), targets.data(), N, V);
    return (losses[0] + losses[1] + losses[2]) / N;
  }
};

}  // namespace

TEST_CASE("layers/embedding/embedding.md is worked out right", "[worked][pages][embedding]") {
  WorkedPage page("embedding/embedding");
  const std::vector<int> tokens = page.integers("tokens"), targets = page.integers("targets");
  const Doubles weight = page.numbers("weight"), dx = page.numbers("dx");

  Doubles x(N * C), dweight(V * C);
  textbook::embedding_forward(x.data(), tokens.data(), weight.data(), N, C);
  textbook::embedding_backward(dweight.data(), tokens.data(), dx.data(), N, C);
  page.matches("x", x);
  page.matches("dweight", dweight);

  Tied model{tokens, targets};
  const double loss = model.loss(weight);
  Doubles dlogits(N * V), p(N * V);
  textbook::cross_entropy_backward(dlogits.data(), model.logits.data(), targets.data(), 1. / N, N, V);
  for (size_t i = 0; i < N * V; ++i) p[i] = N * dlogits[i] + (static_cast<int>(i % V) == targets[i / V]);
  page.matches("logits", model.logits);
  page.matches("p", p);
  page.matches("loss", Doubles{loss});
  page.matches("dlogits", dlogits);

  Doubles dx_tied(N * C), as_classifier(V * C), as_embedding(V * C);
  textbook::linear_backward<double>(dx_tied.data(), as_classifier.data(), nullptr, dlogits.data(), model.x.data(),
                                    weight.data(), {N, C, V});
  Doubles both = as_classifier;
  textbook::embedding_backward(as_embedding.data(), tokens.data(), dx_tied.data(), N, C);
  textbook::embedding_backward(both.data(), tokens.data(), dx_tied.data(), N, C);
  page.matches("dx_tied", dx_tied);
  page.matches("as_classifier", as_classifier);
  page.matches("as_embedding", as_embedding);
  page.matches("both", both);

  const double step = page.numbers("step")[0];
  Doubles moved = weight;
  moved[2 * C + 0] += step;
  const double moved_loss = model.loss(moved);
  page.matches("moved_loss", Doubles{moved_loss});
  page.matches("slope", Doubles{(moved_loss - loss) / step});

  const Doubles vectors = page.numbers("vectors"), dunit = page.numbers("dunit");
  Doubles unit(2 * C), dvectors(2 * C), length(2), along(2);
  textbook::unit_rows_forward(unit.data(), vectors.data(), 2, C);
  textbook::unit_rows_backward(dvectors.data(), dunit.data(), vectors.data(), 2, C);
  for (size_t v = 0; v < 2; ++v) {
    length[v] = vectors[v * C] / unit[v * C];
    along[v] = textbook::dot(&unit[v * C], &dunit[v * C], C);
  }
  page.matches("length", length);
  page.matches("unit", unit);
  page.matches("along", along);
  page.matches("dvectors", dvectors);
}
