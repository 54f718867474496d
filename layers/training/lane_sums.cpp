#include "lane_sums.hpp"

#include <bit>
#include <cstddef>
#include <optional>
#include <vector>

#include "exchange.hpp"

namespace {

// Adds up the gradients of all lanes. As soon as backward completes a bucket of a lane, adds it to the sums that wait
// for this lane. In the last lane, the bucket then goes to the other ranks.
class LaneSums : Observer {
 public:
  LaneSums(TrainingState& state, int all_lanes, Observer* last) : s(state), lanes(all_lanes), observer(last) {}

  // Leaves the sum for this rank's shard in model.gradients.
  void add_all(const std::function<void(int lane, Observer& watch)>& run_lane) {
    const Lanes mine = lanes_of(s.group->rank, s.group->size, lanes);
    for (const Lanes& subtree : subtrees(mine)) {
      for (int lane = subtree.first; lane < subtree.end(); ++lane) {
        if (lane > mine.first) set_aside();
        merges = static_cast<size_t>(std::countr_one(static_cast<unsigned>(lane - subtree.first)));
        if (lane + 1 == mine.end()) begin_exchange();
        is_last = lane + 1 == lanes;
        incomplete = s.buckets.size();
        run_lane(lane, *this);
        complete_after(kOutside - 1);
        waiting.resize(waiting.size() - merges);
      }
    }
    if (exchange) exchange->finish();
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
    exchange.emplace(*s.group, s.shards, lanes, roots);
  }

  void block(int layer, const float* x, const BlockSaved& saved, const float* dy, const Batch& batch) override {
    complete_after(layer);
    if (is_last && observer) observer->block(layer, x, saved, dy, batch);
  }

  void outside(const StackActivations& activations, const float* y, const Batch& batch, bool encoder) override {
    if (is_last && observer) observer->outside(activations, y, batch, encoder);
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
  int lanes;
  Observer* observer;           // for the last micro-batch
  std::vector<float*> waiting;  // sums of lanes that wait for later ones
  size_t merges = 0;            // number of waiting sums to add the lane to
  size_t incomplete = 0;        // number of buckets of the lane
  bool is_last = false;         // this is the step's last lane
  std::optional<GradientExchange> exchange;
};

}  // namespace

void add_lanes(TrainingState& s, int lanes, Observer* last,
               const std::function<void(int lane, Observer& watch)>& run_lane) {
  LaneSums(s, lanes, last).add_all(run_lane);
}
