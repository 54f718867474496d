// Each layer other than the matrix products, forward and backward.

#include "layers/feed_forward/activation.hpp"
#include "layers/attention/attention.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/dropout/dropout.hpp"
#include "layers/embedding/embedding.hpp"
#include "layers/training/optimizer.hpp"
#include "layers/embedding/position.hpp"
#include "layers/residual/residual.hpp"
#include "layers/textbook/adamw.hpp"
#include "layers/textbook/cross_entropy.hpp"
#include "layers/textbook/position.hpp"

#include "bench.hpp"

namespace {

// A layer at one size.
struct Case {
  std::string of, direction, size;
  double work, ceiling;  // in bytes or operations
  std::function<void()> ours;
  std::string theirs = {};  // the request to the peer if PyTorch has such a function
};

void run(Bench& bench, const Case& c) {
  std::vector<Contestant> contestants = {bench.clock.ours(c.ours)};
  if (!c.theirs.empty()) contestants.push_back(bench.clock.theirs(c.theirs));
  const std::vector<Times> times = bench.clock.race(contestants);
  bench.clock.peer.forget();
  Json row = {{"of", c.of}, {"direction", c.direction}, {"size", c.size}};
  add_speed(row, times[0], c.work, c.ceiling);
  if (times.size() > 1) add_peer(row, times[0], times[1], c.work, "pytorch", "ratio");
  bench.report.row(row);
}

std::string sizes(int a, int b) { return std::to_string(a) + " x " + std::to_string(b); }
std::string sized(int rows, int width) {
  return " rows=" + std::to_string(rows) + " width=" + std::to_string(width);
}

void bench_activation(Bench& bench, Activation kind, int N, int F) {
  const int width = is_gated(kind) ? 2 * F : F;  // x (N,width)
  const Buffer x = random_floats(size_t(N) * width), dy = random_floats(size_t(N) * F);
  const Buffer y = allocate(size_t(N) * F), dx = allocate(size_t(N) * width);
  const char* name = name_of(kActivations, kind);
  const double bytes = 4. * N, copy = bench.bandwidth.copy;
  const bool has_peer = kind == Activation::gelu || kind == Activation::gelu_tanh;
  const auto line = [&](const char* direction) {
    return has_peer ? std::string("activation kind=") + name + " direction=" + direction + sized(N, F) : "";
  };
  run(bench, {name, "forward", sizes(N, F), bytes * (width + F), copy,
              [&] { activation_forward(y.get(), x.get(), kind, N, F); }, line("forward")});
  run(bench, {name, "backward", sizes(N, F), bytes * (2 * width + F), copy,
              [&] { activation_backward(dx.get(), dy.get(), x.get(), kind, N, F); }, line("backward")});
}

void bench_residual(Bench& bench, int N, int C) {
  const size_t n = size_t(N) * C;
  const Buffer x = random_floats(n), f = random_floats(n), y = allocate(n);
  const Branch none;  // without norms: y = x + f, and dx = dy + df
  const double bytes = 12. * N * C, copy = bench.bandwidth.copy;
  run(bench, {"residual", "forward", sizes(N, C), bytes, copy,
              [&] { streams_write(y.get(), y.get(), {}, x.get(), f.get(), none.streams, {N, C}); }});
  run(bench, {"residual", "backward", sizes(N, C), bytes, copy,
              [&] { streams_read_backward(y.get(), {}, {}, f.get(), x.get(), {}, none.streams, {N, C}); }});
}

void bench_embedding(Bench& bench, int N, int C, int V) {
  const Buffer x = random_floats(size_t(N) * C), weight = random_floats(size_t(V) * C);
  const std::vector<int> tokens = random_tokens(N, V);
  const double copy = bench.bandwidth.copy;
  run(bench, {"embedding", "forward", sizes(N, C), 8. * N * C, copy,
              [&] { embedding_forward(x.get(), tokens.data(), weight.get(), N, C); }});
  run(bench, {"embedding", "backward", sizes(N, C), 12. * N * C, copy,
              [&] { embedding_backward(weight.get(), tokens.data(), x.get(), N, C); }});
}

// RoPE rotates the heads of q and k in place.
void bench_rope(Bench& bench, int B, int T, int heads, int D) {
  const int C = heads * D, N = B * T;
  const Buffer x = random_floats(size_t(N) * C);
  const RopeTable table(T, D, 10000);
  const std::vector<size_t> positions = textbook::positions(B, T);
  const double bytes = 8. * N * C, copy = bench.bandwidth.copy;
  run(bench, {"RoPE", "forward", sizes(N, C), bytes, copy,
              [&] { rope_forward(x.get(), table, {B, T}, heads, D, C); }});
  run(bench, {"RoPE", "backward", sizes(N, C), bytes, copy,
              [&] { rope_backward(x.get(), table, {B, T}, heads, D, C); }});
  run(bench, {"its textbook", "forward", sizes(N, C), bytes, copy,
              [&] { textbook::rope_forward(x.get(), {10000, size_t(D)}, positions, heads, D, C); }});
}

void bench_cross_entropy(Bench& bench, int N, int V) {
  const Buffer logits = random_floats(size_t(N) * V), dlogits = allocate(size_t(N) * V), losses = allocate(N);
  const std::vector<int> targets = random_tokens(N, V);
  const auto line = [&](const char* direction) {
    return std::string("cross_entropy direction=") + direction + sized(N, V);
  };
  run(bench, {"cross-entropy", "forward", sizes(N, V), 4. * N * V, bench.bandwidth.read,
              [&] { cross_entropy(losses.get(), nullptr, logits.get(), targets.data(), 1, N, V); }, line("forward")});
  run(bench, {"cross-entropy", "both", sizes(N, V), 8. * N * V, bench.bandwidth.copy,
              [&] { cross_entropy(losses.get(), dlogits.get(), logits.get(), targets.data(), 1, N, V); },
              line("both")});
  run(bench, {"its textbook", "both", sizes(N, V), 8. * N * V, bench.bandwidth.copy, [&] {
                textbook::cross_entropy_forward(losses.get(), logits.get(), targets.data(), N, V);
                textbook::cross_entropy_backward(dlogits.get(), logits.get(), targets.data(), 1.f, N, V);
              }});
}

void bench_dropout(Bench& bench, int N, int C) {
  const Buffer x = random_floats(size_t(N) * C);
  Dropout dropout{.p = .1f};
  run(bench, {"dropout", "either", sizes(N, C), 8. * N * C, bench.bandwidth.copy, [&] {
                ++dropout.step;
                dropout_apply(x.get(), dropout, 0, DropoutSite::ffn_out, 1, N, C);
              }});
}

void bench_optimizer(Bench& bench, int n) {
  const Buffer w = random_floats(n), state = allocate(2 * size_t(n)), g = random_floats(n);
  float *m = state.get(), *v = m + n;
  Layout layout;
  layout.take("weights", Role::ffn_in, {n / 1024, 1024});
  std::vector<TensorSpec> table = layout.table();
  assign_optimizers(table, kAdamWAlone);
  int64_t t = 0;
  run(bench, {"clipping", "norm", std::to_string(n), 4. * n, bench.bandwidth.read,
              [&] { gradient_norm(g.get(), table); }});
  run(bench, {"AdamW", "step", std::to_string(n), 28. * n, bench.bandwidth.copy,
              [&] { kAdamW.update({w.get(), state.get(), g.get()}, table, {}, {1e-4f, 1, ++t}); },
              "adamw size=" + std::to_string(n)});
  run(bench, {"its textbook", "step", std::to_string(n), 28. * n, bench.bandwidth.copy, [&] {
                textbook::adamw_step(w.get(), m, v, g.get(), n, {.9f, .95f, 1e-8f, .1f},
                                     {1e-4f, 1.f, static_cast<int>(++t)});
              }});
}

void bench_attention(Bench& bench, int B, int T, int H, int D, Matmul matmul = Matmul::fp32) {
  AttentionShape shape{B, T, H, H, D};
  shape.words = multiplies_words(matmul);
  const bool bf16 = matmul == Matmul::bf16;
  const size_t rows = size_t(B) * T;
  const Buffer qkv = random_floats(rows * shape.qkv_width()), dqkv = allocate(rows * shape.qkv_width());
  const Buffer out = allocate(rows * shape.width()), dout = random_floats(rows * shape.width());
  const Buffer lse = allocate(rows * H);
  const auto forward = [&] { attention_forward(out.get(), lse.get(), qkv.get(), shape, {}, 0); };
  forward();
  // Each product covers the causal half of (T,T). Forward has two; backward has five, because it recomputes the scores.
  const double product = 2. * B * H * (T * (T + 1.) / 2) * D;
  const std::string size = "B" + std::to_string(B) + " T" + std::to_string(T) + " H" + std::to_string(H) + " D" +
                           std::to_string(D);
  const auto line = [&](const char* direction) {
    return std::string("attention direction=") + direction + " batch=" + std::to_string(B) + " time=" +
           std::to_string(T) + " heads=" + std::to_string(H) + " size=" + std::to_string(D) +
           " matmul=" + (bf16 ? "bf16" : "fp32");
  };
  const char* name = bf16 ? "in bf16" : "attention";
  const double peak = bench.flops(matmul);
  run(bench, {name, "forward", size, 2 * product, peak, forward, line("forward")});
  run(bench, {name, "backward", size, 5 * product, peak, [&] {
                attention_backward(dqkv.get(), dout.get(), out.get(), lse.get(), qkv.get(), shape, {}, 0);
              }, line("backward")});
}

std::vector<Column> columns(const char* work) {
  return {{"of", "", 14, kText}, {"direction", "", 8, kText}, {"size", work, 18, kText}, {"speed", "ours", 7, 1},
          {"share", "of ceiling", 10, kShare}, {"pytorch", "PyTorch", 7, 1}, {"ratio", "ours / PyTorch", 14, 2}};
}

}  // namespace

void bench_layers(Bench& bench) {
  const int N = bench.quick ? 64 : 1024;
  bench.report.table("attention", "Attention, causal, GFLOP/s: the products of the half that is not masked",
                     columns(""));
  bench_attention(bench, bench.quick ? 1 : 12, 64, 4, 32);
  if (!bench.quick) {
    bench_attention(bench, 4, 64, 12, 64);
    bench_attention(bench, 1, 1024, 12, 64);
    if (gemm_prefers_words()) bench_attention(bench, 1, 1024, 12, 64, Matmul::bf16);
  }
  bench.report.table("layers", "Layers, GB/s: each input read once, each output written once", columns("rows x width"));
  for (Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::swiglu})
    bench_activation(bench, kind, N, 3072);
  bench_residual(bench, N, 768);
  bench_embedding(bench, N, 768, bench.quick ? 1000 : 50257);
  bench_rope(bench, 1, N, 24, 64);
  bench_cross_entropy(bench, N / 4, 50257);
  bench_dropout(bench, N, 768);
  bench_optimizer(bench, bench.quick ? 1 << 20 : 1 << 25);
  bench.report.say("The ceiling is the bandwidth of reading if nothing is written, else of copying. Above 100 % the\n"
                   "data stay in the caches.");
}
