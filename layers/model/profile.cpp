#include "profile.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "layers/config/parametrization.hpp"
#include "layers/kernels/random.hpp"

namespace {

constexpr int kTokens = 1024;

bool has_skip_gains(const StackTensors& stack) {
  return std::ranges::any_of(stack.blocks, [](const Block& p) { return p.attention.skip_gain.present(); });
}

// The variance of element(0), element(1), ..., which are doubles.
template <class Element>
double variance(size_t n, Element element) {
  const double count = static_cast<double>(n);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += element(i);
  const double mean = sum / count;
  for (size_t i = 0; i < n; ++i) squares += (element(i) - mean) * (element(i) - mean);
  return squares / count;
}

// A branch of a block, with the stream that it reads.
struct View {
  const Branch& p;
  const BranchSaved& saved;
  const float* x;
};

std::vector<View> branches_of(const Block& p, const BlockSaved& saved, const float* x, const Config& config) {
  std::vector<View> list = {{p.attention, saved.attention, saved.mixed ? saved.mixed : x}};
  if (config.crosses()) list.push_back({p.cross, saved.cross, saved.attention.y});
  list.push_back({p.ffn, saved.ffn, saved.before_ffn()});
  return list;
}

// Returns the ω of the next branch from that of this one, after a pass through the branch.
double next_gain(const View& view, double gain, const BlockContext& c) {
  const size_t n = static_cast<size_t>(c.B) * c.T * c.config.channels;
  const double factor = static_cast<double>(view.p.streams.skip) * gain;
  const auto skipped = [&](size_t i) { return factor * static_cast<double>(view.x[i]); };
  const auto added = [&](size_t i) { return static_cast<double>(view.saved.s[i]) - skipped(i); };
  return std::sqrt(variance(n, skipped) + variance(n, added) / branch_factor(c.config));
}

// Each ω depends on the output of the branch before it, so a block runs once for each of its branches.
class Profile {
 public:
  void operator()(const BlockSaved& saved, const float* x, Block p, const BlockContext& c) {
    if (c.layer == 0) gain_ = 1;
    p.attention.warmup = p.cross.warmup = p.ffn.warmup = nullptr;
    if (!p.attention.skip_gain.present()) return block_forward(saved, x, p, c);
    if (saved.ffn.y == x) throw std::logic_error("a block that writes over its input cannot run twice");
    for (const View& view : branches_of(p, saved, x, c.config)) {
      std::fill_n(view.p.skip_gain.weight, c.config.channels, static_cast<float>(gain_));
      block_forward(saved, x, p, c);
      gain_ = next_gain(view, static_cast<double>(*view.p.skip_gain.weight), c);
    }
  }

 private:
  double gain_ = 1;
};

// Token t has the frequency 1/(t + 1), up to a factor: the initial embedding does not distinguish tokens.
std::vector<int> random_tokens(size_t n, int vocabulary, uint64_t key) {
  std::vector<double> sums;
  double sum = 0;
  for (int t = 0; t < vocabulary; ++t) sums.push_back(sum += 1. / (t + 1));
  std::vector<int> tokens(n);
  for (size_t i = 0; i < n; ++i) {
    const auto place = std::ranges::upper_bound(sums, rng::uniform(key, i) * sum);
    tokens[i] = static_cast<int>(std::min(place, sums.end() - 1) - sums.begin());
  }
  return tokens;
}

struct Pass {
  Config config;
  int B, T;
};
Pass pass_of(Config config) {
  config.recompute = Recompute::full;  // blocks share what they compute, but for their outputs
  const int T = std::min(config.context, kTokens);
  return {config, (kTokens + T - 1) / T, T};
}

}  // namespace

void profile_skip_gains(Model& model, const Activations& activations, const Batch& batch, const Dropout& dropout) {
  if (!has_skip_gains(model.p) && !has_skip_gains(model.p.encoder)) return;
  Profile profile;
  forward_blocks(model, activations, batch, dropout, std::ref(profile));
}

void profile_skip_gains(Model& model, uint64_t seed) {
  if (!has_skip_gains(model.p) && !has_skip_gains(model.p.encoder)) return;
  const auto [c, B, T] = pass_of(model.config);
  const size_t N = static_cast<size_t>(B) * T;
  const std::vector<int> tokens = random_tokens(N, c.vocab_size, rng::key({seed, rng::word("profile")}));
  const std::vector<int> sources = random_tokens(N, c.vocab_size, rng::key({seed, rng::word("profile sources")}));
  const std::vector<int> from(N, 0), to(N, T);
  Batch batch = {tokens.data(), nullptr, B, T};
  if (c.crosses()) batch.encoder = {sources.data(), T, nullptr, from.data(), to.data()};
  const Activations activations = allocate_activations(c, B, T, true);
  profile_skip_gains(model, activations, batch, {c.dropout, rng::key({seed, rng::word("profile dropout")})});
}

size_t profile_floats(const Config& config, const std::vector<TensorSpec>& table) {
  const auto is_gain = [](const TensorSpec& spec) { return spec.part.ends_with(".skip.gain"); };
  if (std::ranges::none_of(table, is_gain)) return 0;
  const auto [c, B, T] = pass_of(config);
  Layout activations;
  declare_activations(activations, c, B, T, true);
  return activations.size();
}
