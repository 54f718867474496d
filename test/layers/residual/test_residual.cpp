// What residual.hpp promises besides a branch's numbers, which test_textbook.cpp (each placement) and test_model.cpp
// (PyTorch) check.

#include "layers/residual/residual.hpp"
#include "layers/model/resolve.hpp"

#include "branch.hpp"
#include "check.hpp"

namespace {

constexpr int N = 40, C = 33, kLayer = 2;

// A branch with norms only: W_out is square, and the block has no second branch.
Branch declare(Layout& layout, const Config& config) {
  Branch branch, other;
  branch.streams = declare_streams(layout, config, "b", 2 * kLayer);
  declare_branch_in(branch, layout, config, "b", kLayer);
  declare_branch_inner(branch, layout, config, "b", kLayer, C);
  declare_branch_out(branch, layout, config, "b", kLayer);
  declare_shared({&branch, &other}, layout, config, kLayer);
  return branch;
}

// The floats that a declaration takes.
template <class Declare>
size_t floats_of(Declare declare) {
  Layout layout;
  declare(layout);
  return layout.size();
}
size_t parameter_floats(const Config& config) {
  return floats_of([&](Layout& layout) { declare(layout, config); });
}
size_t saved_floats(const Config& config, int rows) {
  return floats_of([&](Layout& layout) { declare_saved(layout, config, kLayer, rows, C); });
}
size_t scratch_floats(const Config& config, int rows) {
  return floats_of([&](Layout& layout) { declare_streams_scratch(layout, config, rows, true); });
}

struct Run {
  std::vector<float> y, dx, gradients;
  std::vector<TensorSpec> table;
};

// F and W_out are the identity: h = u, f = m.
Run run(const std::string& placement, double skip, int backwards = 1, int rows = N) {
  Config config;
  config.placement = placement, config.vocab_size = 1, config.channels = C, config.n_head = 1,
  config.skip_scale = skip, config.streams = 3, config.gated_residual_rank = 3;
  config = resolve(config);
  const int wide = stream_count(config) * rows * C;
  std::vector<float> weights = random_floats(parameter_floats(config), 1, 1, .3f), gradients(weights.size()),
                     kept = garbage(saved_floats(config, rows)), between = garbage(scratch_floats(config, rows));
  Layout on_weights(weights.data()), on_gradients(gradients.data()), layout(kept.data());
  const Branch p = declare(on_weights, config), g = declare(on_gradients, config);
  BranchSaved saved = declare_saved(layout, config, kLayer, rows, C);
  Layout scratch_layout(between.data());
  StreamsScratch streams = declare_streams_scratch(scratch_layout, config, rows, true);
  std::vector<std::vector<float>> sums;
  add_sums(streams, sums, config, rows);
  Run r;
  r.table = on_weights.table();

  const std::vector<float> x = random_floats(wide, 2), dy = random_floats(wide, 3);
  std::vector<float> normed = garbage(rows * C);
  r.y = garbage(wide);
  saved.y = r.y.data();
  const float* u = enter(saved, streams, x.data(), p, {rows, C});
  CHECK(u == saved.u_or(saved.streams.h_or(x.data())));
  CHECK((u == x.data()) == !(p.norm_in.present() || p.streams.mixes()));  // an absent norm costs nothing
  const std::vector<float> h(u, u + rows * C);
  const float* m = branch_inner(saved, h.data(), p, rows, C, true);
  CHECK((m == h.data()) == !p.norm_inner.present());
  std::vector<float> f(m, m + rows * C);
  saved.f = f.data();
  leave(saved, streams, normed.data(), x.data(), p, {rows, C});
  for (int i = 0; i < backwards; ++i) {
    r.dx = dy;
    std::vector<float> scratch = garbage(rows * C);
    const float* df = leave_backward(r.dx.data(), scratch.data(), g, streams, x.data(), saved, p, {rows, C});
    const bool alone = p.streams.rule == StreamRule::single || is_attnres(p.streams.rule);
    CHECK((df == r.dx.data()) == !(p.norm_out.present() || p.gain.present() || !alone));
    std::vector<float> du(df, df + rows * C);
    branch_inner_backward(du.data(), g, h.data(), saved, p, rows, C);
    enter_backward(r.dx.data(), g, streams, du.data(), x.data(), saved, p, {rows, C});
  }
  r.gradients = gradients;
  return r;
}

}  // namespace

TEST_CASE("a placement declares the norms of its row and no others", "[residual]") {
  for (const Placement& row : placements()) {
    std::vector<std::string> want, got;
    for (const auto& [there, name] : {std::pair{row.norm_in, "b.norm_in"},
                                      {row.norm_inner, "b.norm_inner"},
                                      {row.norm_out, "b.norm_out"},
                                      {row.norm_sum, "b.norm_sum"}})
      for (const char* part : {".gain", ".bias"})
        if (there) want.push_back(std::string(name) + part);
    if (row.gain != LearnedGain::none) want.push_back(row.gain == LearnedGain::block ? "scale.gain" : "b.scale.gain");
    if (row.skip_gain) want.emplace_back("b.skip.gain");
    if (row.gpas) want.emplace_back("gpas.gate");
    CHECK((row.gain == LearnedGain::none || !row.norm_out));
    CHECK_FALSE((row.gpas && (row.norm_sum || row.streams != StreamRule::single)));
    const bool adds_alone = row.norm_sum && !row.bypass && row.streams == StreamRule::single;
    CHECK((adds_alone || !row.skip_gain));
    CHECK((row.in_scale(kLayer) == 1 || row.norm_in));
    CHECK((row.first_write(kLayer) == 1 || row.streams == StreamRule::siamese));
    CHECK_FALSE((mixes(row.streams) && (row.norm_out || row.norm_sum || row.gain != LearnedGain::none)));
    for (const TensorSpec& spec : run(row.name, 1).table)
      if (spec.name.find(".streams.") == spec.name.npos) got.push_back(spec.name);
    CHECK(got == want);
  }
}

TEST_CASE("without norms a branch is skip·x + f, and its gradient skip·dy + df", "[residual]") {
  const std::vector<float> x = random_floats(N * C, 2), dy = random_floats(N * C, 3);
  const Run r = run("none", 2.5);
  for (int i = 0; i < N * C; ++i) {
    CHECK(r.y[i] == Approx(3.5f * x[i]));
    CHECK(r.dx[i] == Approx(3.5f * dy[i]));
  }
}

TEST_CASE("gradients of a branch's norms accumulate", "[residual]") {
  for (const Placement& row : placements()) {
    const Run once = run(row.name, 1.3), twice = run(row.name, 1.3, 2);
    CHECK(same_bits(once.dx, twice.dx));
    std::vector<float> doubled = once.gradients;
    for (float& g : doubled) g *= 2;
    CHECK(same_bits(doubled, twice.gradients));
  }
}

TEST_CASE("a branch works in place", "[residual]") {
  for (const Placement& row : placements()) {
    Config config;
    config.placement = row.name, config.vocab_size = 1, config.channels = C, config.n_head = 1, config.streams = 3;
    config = resolve(config);
    std::vector<float> weights = random_floats(parameter_floats(config), 1, 1, .3f), kept(saved_floats(config, N)),
                       between(scratch_floats(config, N)), normed(N * C);
    Layout layout(weights.data()), kept_layout(kept.data());
    const Branch p = declare(layout, config);
    BranchSaved saved = declare_saved(kept_layout, config, kLayer, N, C);
    Layout scratch_layout(between.data());
    StreamsScratch streams = declare_streams_scratch(scratch_layout, config, N, true);
    std::vector<std::vector<float>> sums;
    add_sums(streams, sums, config, N);
    std::vector<float> x = random_floats(stream_count(config) * N * C, 2), y = garbage(x.size());
    std::vector<float> f = random_floats(N * C, 3);
    enter(saved, streams, x.data(), p, {N, C});
    saved.f = f.data(), saved.y = y.data();
    leave(saved, streams, normed.data(), x.data(), p, {N, C});
    saved.y = x.data();
    leave(saved, streams, normed.data(), x.data(), p, {N, C});
    CHECK(same_bits(x, y));
  }
}

TEST_CASE("a branch is the same for any number of threads", "[residual]") {
  for (const Placement& row : placements())
    check_same_for_all_threads([&] {
      const Run r = run(row.name, 1.3, 1, 700);
      return joined({r.y, r.dx, r.gradients});
    });
}
