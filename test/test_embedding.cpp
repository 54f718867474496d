#include "layers/embedding/embedding.hpp"

#include "check.hpp"
#include "layers/embedding/position.hpp"
#include "layers/kernels/elementwise.hpp"
#include "reference.hpp"

constexpr double kTolerance = 2e-7;  // measured: at most 4.9e-8

TEST_CASE("embedding and learned positions agree with PyTorch", "[embedding][position]") {
  for (const std::string& name : Reference::cases("embedding")) {
    const Reference ref("embedding", name);
    const int B = ref.integer("B"), T = ref.integer("T"), V = ref.integer("V"), C = ref.integer("C");
    const int context = ref.integer("Tctx");
    const std::vector<int> tokens = ref.ints("tokens");
    const std::vector<float> weight = ref.floats("weight"), dout = ref.floats("dout");
    const bool positions = ref.has("position");
    const std::string at = "embedding/" + name + "/";

    std::vector<float> out = garbage(B * T * C);
    embedding_forward(out.data(), tokens.data(), weight.data(), B * T, C);
    if (positions) position_forward(out.data(), ref.floats("position").data(), {B, T}, C);
    check_close(at + "out", out, ref.doubles("out"), kTolerance);

    std::vector<float> dtoken(V * C), dposition(context * C);
    for (const int runs : {1, 2}) {  // the second backward adds the same again
      embedding_backward(dtoken.data(), tokens.data(), dout.data(), B * T, C);
      check_close(at + "dtoken", dtoken, times(runs, ref.doubles("dtoken")), kTolerance, ref.scale("dtoken"));
      if (!positions) continue;
      learned_position_backward(dposition.data(), dout.data(), {B, T}, C);
      check_close(at + "dposition", dposition, times(runs, ref.doubles("dposition")), kTolerance,
                  ref.scale("dposition"));
    }
    for (int v = 0; v < V; ++v)  // tokens that do not occur
      if (std::find(tokens.begin(), tokens.end(), v) == tokens.end())
        for (int c = 0; c < C; ++c) CHECK(dtoken[v * C + c] == 0);
  }
}

TEST_CASE("embedding is the same for any number of threads", "[embedding]") {
  const int N = 600, V = 7, C = 97;
  const std::vector<float> weight = random_floats(V * C, 1), dx = random_floats(N * C, 2);
  const std::vector<int> tokens = random_ints(N, 3, V);
  check_same_for_all_threads([&] {
    std::vector<float> x = garbage(N * C), dweight(V * C);
    embedding_forward(x.data(), tokens.data(), weight.data(), N, C);
    embedding_backward(dweight.data(), tokens.data(), dx.data(), N, C);
    return joined({x, dweight});
  });
}

TEST_CASE("an embedding of 16-bit numbers gives the same rows as one of floats", "[embedding]") {
  const int N = 50, V = 9, C = 45;
  const std::vector<int> tokens = random_ints(N, 3, V);
  for (const NumberType type : {NumberType::bf16, NumberType::fp16}) {
    std::vector<float> weight = random_floats(V * C, 1), packed(floats_of(type, V * C));
    std::vector<float> want(N * C), x = garbage(N * C);
    round_to(type, packed.data(), 0, weight.data(), V * C);
    as_numbers(packed.data(), type, [&]<class Number>(const Number* numbers) {
      for (int i = 0; i < V * C; ++i) weight[i] = widened(numbers[i]);
    });
    embedding_forward(want.data(), tokens.data(), weight.data(), N, C, 3);
    embedding_forward(x.data(), tokens.data(), packed.data(), N, C, 3, type);
    CHECK(x == want);
  }
}
