// Norms of every kind against PyTorch's LayerNorm and RMSNorm.

#include "layers/norm/norm.hpp"

#include "bench.hpp"

namespace {

constexpr int kRank = 16;  // of GatedNorm

struct Norms {
  int N, C;
  Buffer x, y, dy, dx, gain, bias, dgain, dbias, mean, rstd, variance, scalars, running, gate, dgate;

  Norms(int n, int c)
      : N(n), C(c), x(random_floats(size_t(n) * c)), y(allocate(size_t(n) * c)), dy(random_floats(size_t(n) * c)),
        dx(allocate(size_t(n) * c)), gain(random_floats(c)), bias(random_floats(c)), dgain(allocate(c)),
        dbias(allocate(c)), mean(allocate(std::max(n, c))), rstd(allocate(n)), variance(allocate(c)),
        scalars(random_floats(4)), running(allocate(2 * size_t(c))), gate(random_floats(2 * kRank * size_t(c))),
        dgate(allocate(2 * kRank * size_t(c))) {}

  Norm parameters(NormKind kind) const {
    return {.kind = kind, .gain = gain.get(), .bias = norm_row(kind).bias ? bias.get() : nullptr, .alpha = &scalars[0],
            .shift = &scalars[1], .running_mean = &running[0], .running_var = &running[C], .down = &gate[0],
            .up = &gate[kRank * size_t(C)], .rank = kRank};
  }
  Norm gradients(NormKind kind) const {
    return {.kind = kind, .gain = dgain.get(), .bias = norm_row(kind).bias ? dbias.get() : nullptr,
            .alpha = &scalars[2], .shift = &scalars[3], .down = &dgate[0], .up = &dgate[kRank * size_t(C)]};
  }
  NormSaved saved() const { return {mean.get(), rstd.get(), variance.get()}; }
  void forward(NormKind kind) const {
    norm_forward(y.get(), saved(), x.get(), parameters(kind), N, C, true);
  }
  void backward(NormKind kind) const {
    norm_backward(dx.get(), gradients(kind), dy.get(), x.get(), saved(), parameters(kind), N, C);
  }
};

void bench_direction(Bench& bench, const Norms& norms, bool forward) {
  const char* direction = forward ? "forward" : "backward";
  const std::string size = std::to_string(norms.N) + " x " + std::to_string(norms.C);
  constexpr size_t kKinds = std::size(kNormKinds), kPeers = 2;  // PyTorch has the first two
  std::vector<Contestant> contestants;
  for (const auto& [kind, name] : kNormKinds)
    contestants.push_back(bench.clock.ours([&norms, kind = kind, forward] {
      forward ? norms.forward(kind) : norms.backward(kind);
    }));
  for (size_t peer = 0; peer < kPeers; ++peer)
    contestants.push_back(bench.clock.theirs(std::string("norm kind=") + kNormKinds[peer].name + " direction=" +
                                             direction + " rows=" + std::to_string(norms.N) + " width=" +
                                             std::to_string(norms.C)));
  const std::vector<Times> times = bench.clock.race(contestants);
  bench.clock.peer.forget();

  const double bytes = (forward ? 8. : 12.) * norms.N * norms.C;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    Json row = {{"of", kNormKinds[kind].name}, {"direction", direction}, {"size", size}};
    add_speed(row, times[kind], bytes, bench.bandwidth.copy);
    if (kind < kPeers) add_peer(row, times[kind], times[kKinds + kind], bytes, "pytorch", "ratio");
    bench.report.row(row);
  }
  Json row = {{"of", "rmsnorm's time / layernorm's"}, {"direction", direction}, {"size", size}};
  row["speed"] = 1 / speedup(times[1], times[0]);
  if (times[kKinds].known() && times[kKinds + 1].known())
    row["pytorch"] = 1 / speedup(times[kKinds + 1], times[kKinds]);
  bench.report.row(row);
}

}  // namespace

void bench_norms(Bench& bench) {
  bench.report.table("norm", "Norms, GB/s: forward reads x and writes y, backward reads x and dy and writes dx",
                     {{"of", "", 28, kText}, {"direction", "", 8, kText}, {"size", "rows x width", 12, kText},
                      {"speed", "ours", 7, 2}, {"share", "of ceiling", 10, kShare}, {"pytorch", "PyTorch", 7, 2},
                      {"ratio", "ours / PyTorch", 14, 2}});
  std::vector<std::pair<int, int>> sizes = {{768, 128}};
  if (!bench.quick) sizes.insert(sizes.begin(), {32 * 1024, 4096});
  if (!bench.widths.empty()) sizes.clear();
  for (const int width : bench.widths) sizes.emplace_back(1024, width);
  for (const auto& [N, C] : sizes) {
    const Norms norms(N, C);
    for (const auto& [kind, name] : kNormKinds) norms.forward(kind);
    bench_direction(bench, norms, true);
    norms.forward(NormKind::layernorm);  // saves what its backward needs; the others take any numbers
    bench_direction(bench, norms, false);
  }
  bench.report.say("The ceiling is the bandwidth of copying. Above 100 % the data stay in the caches.");
  if (bench.clock.peer.present())
    bench.report.say("PyTorch allocates its result in every call, ours writes to a given buffer.");
}
