#include "lane_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "exchange.hpp"
#include "running_statistics.hpp"

namespace {

// Adds up the gradients of all lanes. As soon as backward completes a bucket of a lane, adds it to the sums that wait
// for this lane. In the last lane, the bucket then goes to the other ranks.
class LaneSums : Observer {
 public:
  LaneSums(TrainingState& state, const MicroBatches& micro_batches, const StepOptions& options, int64_t number,
           Observer* last)
      : s(state), batches(micro_batches), o(options), step(number), observer(last), losses(2 * batches.count),
        statistics(state.model, batches.count) {}

  // Leaves the sum for this rank's shard in model.gradients.
  void add_all() {
    const Lanes mine = lanes_of(s.group->rank, s.group->size, o.lanes);
    for (const Lanes& subtree : subtrees(mine)) {
      for (int lane = subtree.first; lane < subtree.end(); ++lane) {
        if (lane > mine.first) set_aside();
        merges = static_cast<size_t>(std::countr_one(static_cast<unsigned>(lane - subtree.first)));
        if (lane + 1 == mine.end()) begin_exchange();
        add_micro_batches(lane);
        waiting.resize(waiting.size() - merges);
      }
    }
    if (exchange) exchange->finish();
    statistics.apply(*s.group);
  }

  // Returns the sum of all ranks' losses, added in the order of the micro-batches. Throws Diverged.
  double nats() {
    s.group->collect(losses);
    double sum = 0;
    for (int micro = 0; micro < batches.count; ++micro) {
      sum += losses[2 * micro];
      if (!std::isfinite(sum)) throw Diverged{step + 1, "loss", name_of(losses[2 * micro + 1], s.activations.table)};
    }
    return sum;
  }

 private:
  // Moves the gradients to their own buffer.
  void set_aside() {
    const size_t depth = waiting.size();
    if (s.lane_sums.size() == depth) s.lane_sums.push_back(allocate(s.model.gradient_floats));
    swap_gradients(s.model, s.lane_sums[depth]);
    waiting.push_back(s.lane_sums[depth].get());
  }

  void begin_exchange() {
    if (s.group->size == 1) return;
    std::vector<float*> roots(waiting.begin(), waiting.end() - ptrdiff_t(merges));
    roots.push_back(s.model.gradients.get());
    exchange.emplace(*s.group, s.shards, o.lanes, roots);
  }

  void add_micro_batches(int lane) {
    set_zero(s.model.gradients.get(), s.model.gradient_floats);
    const float scale = 1.f / static_cast<float>(batches.targets);
    const int length = batches.count / o.lanes;
    for (int micro = lane * length; micro < (lane + 1) * length; ++micro) {
      batches.fill(s.tokens.data(), s.targets.data(), micro);
      const Batch batch{s.tokens.data(), s.targets.data(), s.B, s.T};
      const Dropout dropout{s.model.config.dropout, o.dropout_seed, uint64_t(step), micro * s.B};
      double& nats = losses[2 * micro];
      statistics.clear();
      is_last = micro + 1 == batches.count;
      incomplete = s.buckets.size();
      nats = s.functions.loss_and_gradients(s.model, s.activations, batch, scale, dropout,
                                            micro + 1 == (lane + 1) * length ? this : nullptr);
      statistics.keep_part(micro);
      if (!std::isfinite(nats))
        losses[2 * micro + 1] = number_of(first_non_finite(s.activations.table, s.activations.buffer.get()),
                                          s.activations.table);
    }
    complete_after(kOutside - 1);
  }

  void block(int layer, const float* x, const BlockSaved& saved, const float* dy, int B, int T) override {
    complete_after(layer);
    if (is_last && observer) observer->block(layer, x, saved, dy, B, T);
  }

  void outside(const Activations& activations, const float* y, int B, int T) override {
    if (is_last && observer) observer->outside(activations, y, B, T);
  }

  // Called when the gradients of all layers after this one are complete.
  void complete_after(int layer) {
    for (; incomplete > 0 && s.buckets[incomplete - 1].layer > layer; --incomplete) {
      const std::vector<TensorSpec>& table = s.buckets[incomplete - 1].table;
      const size_t begin = table.front().gradient, end = table.back().gradient + table.back().size();
      for (size_t i = 1; i <= merges; ++i)
        add(s.model.gradients.get() + begin, waiting[waiting.size() - i] + begin, end - begin);
      if (exchange) exchange->send(incomplete - 1);
    }
    if (exchange) exchange->advance();
  }

  TrainingState& s;
  const MicroBatches& batches;
  const StepOptions& o;
  int64_t step;
  Observer* observer;          // for the last micro-batch
  std::vector<double> losses;  // per micro-batch: its loss, and the number of the first tensor that is not finite
  RunningStatistics statistics;
  std::vector<float*> waiting;  // sums of lanes that wait for later ones
  size_t merges = 0;            // number of waiting sums to add the lane to
  size_t incomplete = 0;        // number of buckets of the lane
  bool is_last = false;         // this is the step's last micro-batch
  std::optional<GradientExchange> exchange;
};

}  // namespace

double add_micro_batches(TrainingState& s, const MicroBatches& batches, const StepOptions& options, int64_t step,
                         Observer* last) {
  LaneSums sums(s, batches, options, step, last);
  sums.add_all();
  return sums.nats();
}
