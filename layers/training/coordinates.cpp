#include "coordinates.hpp"

#include <cmath>
#include <stdexcept>

namespace {

struct Snapshot {
  int layer;
  std::string part;
  std::vector<float> values;
};

struct BranchView {
  const char* name;
  const float* base;    // the stream that the branch is added to
  const float* bypass;  // what else is added; null if nothing
};

// f = (s − skip·base − bypass) / (out_scale·first_write), if it was not kept.
std::vector<float> output_of(const BranchView& view, const BranchSaved& saved, const Branch& p, size_t n) {
  if (saved.f) return {saved.f, saved.f + n};
  const float* s = saved.before_sum();
  const float scale = p.out_scale() * p.streams.first_write;
  std::vector<float> f(n);
  for (size_t i = 0; i < n; ++i)
    f[i] = (s[i] - p.streams.skip * view.base[i] - (view.bypass ? view.bypass[i] : 0)) / scale;
  return f;
}

std::vector<Snapshot> activations_of(const Model& model, const Activations& a, const Batch& batch) {
  const Config& c = model.config;
  const size_t N = size_t(batch.B) * batch.T, n = N * c.channels;
  std::vector<Snapshot> all;
  all.push_back({kOutside, "logits", std::vector<float>(N * c.vocab_size)});
  batch_logits(all.back().values.data(), model, a, batch);
  const float* x = a.streams;
  for (int l = 0; l < c.n_layer; ++l) {
    const BlockSaved& saved = a.blocks[l];
    const Block& p = model.p.blocks[l];
    const float *before = saved.mixed ? saved.mixed : x, *y = saved.ffn.y;
    const BranchView attention{"attention", before, nullptr};
    const BranchView ffn{"ffn", saved.before_ffn(), p.ffn.bypass ? x : nullptr};
    all.push_back({l, attention.name, output_of(attention, saved.attention, p.attention, n)});
    all.push_back({l, ffn.name, output_of(ffn, saved.ffn, p.ffn, n)});
    all.push_back({l, "stream", {y, y + stream_count(c) * n}});
    x = y;
  }
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double(a[i]) - double(b[i]), 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

}  // namespace

std::vector<std::vector<Change>> changes_by_step(TrainingState& state, const CoordinateCheck& check) {
  if (state.model.config.recompute != Recompute::none) throw std::logic_error("blocks share buffers");
  const MicroBatches first = check.batches(0);
  const Batch batch = first.batch(0);
  const std::vector<Snapshot> start = activations_of(state.model, state.activations, batch);
  std::vector<std::vector<Change>> steps;
  for (int step = 0; step < check.steps; ++step) {
    training_step(state, check.batches(step), check.options, step, check.lr);
    const std::vector<Snapshot> now = activations_of(state.model, state.activations, batch);
    std::vector<Change>& changes = steps.emplace_back();
    for (size_t i = 0; i < now.size(); ++i)
      changes.push_back({now[i].layer, now[i].part, distance(now[i].values, start[i].values)});
  }
  return steps;
}

double size_of_change(const std::vector<Change>& changes, const std::string& part) {
  double squares = 0;
  int count = 0;
  for (const Change& change : changes) {
    if (change.part != part) continue;
    const bool alone = part == "stream";
    squares = (alone ? 0 : squares) + change.rms * change.rms;
    count = alone ? 1 : count + 1;
  }
  return std::sqrt(squares / count);
}

double log_log_slope(const std::vector<std::pair<double, double>>& points) {
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  const double n = static_cast<double>(points.size());
  for (const auto& [x, y] : points) {
    mean_x += std::log(x) / n;
    mean_y += std::log(y) / n;
  }
  for (const auto& [x, y] : points) {
    xx += (std::log(x) - mean_x) * (std::log(x) - mean_x);
    xy += (std::log(x) - mean_x) * (std::log(y) - mean_y);
  }
  return xx > 0 ? xy / xx : NAN;
}
