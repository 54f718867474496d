// Rows that hold several examples against rows of one: attention, and whole training steps.

#include "layers/attention/attention.hpp"
#include "layers/attention/scores.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/presets.hpp"
#include "layers/training/step.hpp"

#include "bench.hpp"

namespace {

// The rows of a batch.
struct Rows {
  int B, T, mean;           // mean: of the examples' lengths, which are uniform in 1 ... 2·mean − 1; 0: one in each row
  std::vector<int> begins;  // (B,T)

  Rows(int b, int t, int m) : B(b), T(t), mean(m), begins(size_t(B) * T) {
    uint64_t drawn = 0;
    for (int row = 0; mean > 0 && row < B; ++row)
      for (int begin = 0, end; begin < T; begin = end) {
        end = std::min(T, begin + 1 + static_cast<int>(rng::below(uint64_t(2 * mean - 1), 1, drawn++)));
        std::fill(&begins[size_t(row) * T + begin], &begins[size_t(row) * T] + end, begin);
      }
  }

  const int* begins_or_null() const { return mean > 0 ? begins.data() : nullptr; }
  AttentionShape shape(int H, int D) const {
    AttentionShape shape{B, T, H, H, D};
    shape.begins = begins_or_null();
    return shape;
  }
  // Numbers of pairs of a query and a key that it sees, and of the tiles that have them.
  double pairs() const {
    double sum = 0;
    for (size_t i = 0; i < begins.size(); ++i) sum += static_cast<int>(i % T) - begins[i] + 1;
    return sum;
  }
  double tiles() const {
    double sum = 0;
    for (int b = 0; b < B; ++b)
      for (int q = 0; q < T; q += kTile) sum += (q - SeenKeys(shape(1, 1), b, q).first_tile()) / kTile + 1;
    return sum;
  }
};

// Times work(rows) of all rows in turn. The first ones are the stream.
template <class Work>
void race(Bench& bench, const std::string& of, const std::string& size, const std::vector<Rows>& all,
          const Work& work) {
  std::vector<Contestant> contestants;
  for (const Rows& rows : all) contestants.push_back(bench.clock.ours([&work, &rows] { work(rows); }));
  const std::vector<Times> times = bench.clock.race(contestants);
  for (size_t i = 0; i < all.size(); ++i)
    bench.report.row({{"of", of}, {"size", size}, {"mean", all[i].mean > 0 ? std::to_string(all[i].mean) : "one"},
                      {"pairs", all[i].pairs() / all[0].pairs()}, {"tiles", all[i].tiles() / all[0].tiles()},
                      {"ms", 1e3 * times[i].seconds()}, {"ratio", 1 / speedup(times[i], times[0])}});
}

std::string size_of(int B, int T) { return "B" + std::to_string(B) + " T" + std::to_string(T); }

std::vector<Rows> rows_of(int B, int T) { return {{B, T, 0}, {B, T, T / 2}, {B, T, T / 8}}; }

void bench_packed_attention(Bench& bench, int B, int T, int H, int D) {
  const std::vector<Rows> all = rows_of(B, T);
  const AttentionShape any = all[0].shape(H, D);
  const size_t N = size_t(B) * T;
  const Buffer qkv = random_floats(N * any.qkv_width()), dqkv = allocate(N * any.qkv_width());
  const Buffer out = allocate(N * any.width()), dout = random_floats(N * any.width()), lse = allocate(N * H);
  const auto forward = [&](const Rows& rows) {
    attention_forward(out.get(), lse.get(), qkv.get(), rows.shape(H, D), {}, 0);
  };
  const std::string size = size_of(B, T) + " H" + std::to_string(H) + " D" + std::to_string(D);
  race(bench, "attention, forward", size, all, forward);
  // Any out and lse will do, because the time does not depend on them.
  forward(all[0]);
  race(bench, "attention, backward", size, all, [&](const Rows& rows) {
    attention_backward(dqkv.get(), dout.get(), out.get(), lse.get(), qkv.get(), rows.shape(H, D), {}, 0);
  });
}

void bench_step(Bench& bench, const char* model, int B, int T) {
  Config config = preset_config("gpt2", model);
  config.context = T, config.vocab_size = 512;
  TrainingState state(Model(resolve(config)), B, T);
  random_weights(state.model);
  const std::vector<int> tokens = random_tokens(size_t(B) * T, config.vocab_size), targets = tokens;
  int64_t t = 0;
  race(bench, std::string("step, GPT-2 ") + model, size_of(B, T), rows_of(B, T), [&](const Rows& rows) {
    training_step(state, micro_batches({tokens.data(), targets.data(), B, T, rows.begins_or_null()}, 1), {}, t++, 1e-5);
  });
}

}  // namespace

void bench_packed(Bench& all) {
  Bench bench = all;
  bench.report.table("packed", "Rows of several examples: pairs, tiles and time as shares of those of rows of one",
                     {{"of", "", 22, kText}, {"size", "", 18, kText}, {"mean", "mean length", 11, kText},
                      {"pairs", "pairs", 6, kShare}, {"tiles", "tiles", 6, kShare}, {"ms", "ms", 8, 2},
                      {"ratio", "time", 6, kShare}});
  if (bench.quick) return bench_packed_attention(bench, 1, 256, 4, 32);
  bench_packed_attention(bench, 12, 256, 4, 32);
  bench_packed_attention(bench, 1, 1024, 12, 64);
  bench_step(bench, "nano", 2, 1024);
  bench.clock.rounds = std::min(bench.clock.rounds, 3);
  bench_step(bench, "124M", 1, 1024);
  bench.report.say("pairs: of a query and a key that it sees. tiles: of 64 queries and 64 keys that are computed.");
}
