#include "step.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "exchange.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/moe/router.hpp"
#include "layers/norm/norm.hpp"
#include "layers/norm/norm_batch.hpp"

std::string Diverged::message() const {
  const std::string subject = "step " + std::to_string(step) + ": the " + what;
  if (exploded) return subject + " has exploded: it is more than ten times that of uniform guessing";
  return subject + " is not finite; " +
         (tensor.empty() ? "every tensor is: their sum overflowed"
                         : "the first tensor with a NaN or an infinity is " + tensor);
}

TrainingState::TrainingState(Model m, int b, int t, const StepFunctions& functions, std::shared_ptr<Group> ranks)
    : model(std::move(m)), by(functions), B(b), T(t), activations(allocate_activations(model.config, B, T, true)),
      tokens(size_t(B) * T), targets(tokens.size()), group(std::move(ranks)) {
  assign_optimizers(model.table, by.optimizers);
  buckets = buckets_of(model.table);
  if (group->size == 1)
    shards = {{{{model.table, 0, model.gradient_floats}}, model.gradient_floats, state_floats(model.table)}};
  else shards = shards_of(model.table, group->size);
  optimizer_state = allocate(shard().state);
  size_t floats = 0;
  for (const ShardPart& part : shard().parts) floats = std::max(floats, scratch_floats(part.table));
  scratch = allocate(floats);
}

MicroBatches micro_batches(const int* tokens, const int* targets, int count, int B, int T) {
  const size_t n = size_t(B) * T;
  return {count, std::count_if(targets, targets + count * n, [](int target) { return target != kIgnore; }),
          [=](int* to_tokens, int* to_targets, int micro) {
            std::copy_n(tokens + micro * n, n, to_tokens);
            std::copy_n(targets + micro * n, n, to_targets);
          }};
}

namespace {

// collect() exchanges numbers. A tensor's number is its position in the table, counted from 1; 0 means no tensor.
double number_of(const TensorSpec* spec, const std::vector<TensorSpec>& table) {
  return spec ? static_cast<double>(spec - table.data() + 1) : 0;
}
std::string name_of(double number, const std::vector<TensorSpec>& table) {
  return number > 0 ? table[static_cast<size_t>(number) - 1].name : "";
}

// BatchNorm's running statistics follow the order of the micro-batches, on whatever ranks these are. So each
// micro-batch begins with zeros and leaves its part of the statistics. apply() adds the parts of all.
class RunningStatistics {
 public:
  RunningStatistics(Model& model, int micro_batches) {
    for (const TensorSpec& spec : model.table) {
      if (!is_running(spec)) continue;
      float* numbers = model.weights.get() + spec.offset;
      tensors.emplace_back(numbers, spec.size());
      running.insert(running.end(), numbers, numbers + spec.size());
    }
    parts.resize(micro_batches * running.size());
  }

  void clear() {
    for (const std::span<float> tensor : tensors) std::ranges::fill(tensor, 0.f);
  }

  void keep_part(int micro) {
    auto part = parts.begin() + ptrdiff_t(micro * running.size());
    for (const std::span<float> tensor : tensors) part = std::ranges::copy(tensor, part).out;
  }

  void apply(Group& group) {
    if (running.empty()) return;
    group.collect(parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      float& number = running[i % running.size()];
      number = add_to_running(number, static_cast<float>(parts[i]));
    }
    auto number = running.begin();
    for (const std::span<float> tensor : tensors) {
      std::copy_n(number, tensor.size(), tensor.begin());
      number += ptrdiff_t(tensor.size());
    }
  }

 private:
  std::vector<std::span<float>> tensors;
  std::vector<float> running;
  std::vector<double> parts;  // of each micro-batch, in the order of the tensors
};

// The selection bias of the experts moves by the load of the whole step, on all ranks (layers/moe/router.hpp).
void move_router_bias(TrainingState& s) {
  const Config& config = s.model.config;
  if (config.experts == 0 || config.router_bias == 0) return;
  const size_t size = s.model.load.size();
  std::vector<double> loads(s.group->size * size), load(size);
  std::ranges::copy(s.model.load, loads.begin() + ptrdiff_t(s.group->rank * size));
  s.group->collect(loads);
  for (size_t i = 0; i < loads.size(); ++i) load[i % size] += loads[i];
  for (const TensorSpec& spec : s.model.table)
    if (is_router_bias(spec))
      update_router_bias(s.model.weights.get() + spec.offset, &load[size_t(spec.layer) * config.experts],
                         config.experts, config.router_bias);
}

// Adds up the gradients of all lanes. As soon as backward has completed a bucket of a lane, it is added to the sums
// that wait for this lane. In the last lane, it then goes to the other ranks.
class LaneSums : Observer {
 public:
  LaneSums(TrainingState& state, const MicroBatches& micro_batches, const StepOptions& options, int64_t number,
           Observer* last)
      : s(state), batches(micro_batches), o(options), step(number), observer(last), losses(2 * batches.count),
        statistics(state.model, batches.count) {}

  // Leaves the sum of this rank's shard in model.gradients.
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

  // The sum of the losses of all ranks, added in the order of the micro-batches. Throws Diverged.
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
  // Moves the gradients to a buffer of their own.
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
      nats = s.by.loss_and_gradients(s.model, s.activations, batch, scale, dropout,
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

  // The gradients of all layers after this one are complete.
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
  Observer* observer;          // of the last micro-batch
  std::vector<double> losses;  // of each micro-batch: its loss, and the number of the first tensor that is not finite
  RunningStatistics statistics;
  std::vector<float*> waiting;  // sums of lanes that wait for later ones
  size_t merges = 0;            // number of waiting sums that the lane is added to
  size_t incomplete = 0;        // number of buckets of the lane
  bool is_last = false;         // of the step
  std::optional<GradientExchange> exchange;
};

// Throws Diverged with the first tensor, in the order in which backward fills them, whose gradient is not finite.
void require_finite(TrainingState& s, double norm, int64_t step) {
  if (std::isfinite(norm)) return;
  const std::vector<TensorSpec>& all = s.model.table;
  std::vector<double> numbers(s.group->size);
  for (const ShardPart& part : s.shard().parts) {  // backward fills the last part first, so the last one counts
    std::vector<TensorSpec> filled = gradients_of(part.table);
    std::reverse(filled.begin(), filled.end());
    if (const TensorSpec* bad = first_non_finite(filled, s.gradients_of(part)))
      numbers[s.group->rank] = number_of(&*std::ranges::find(all, bad->name, &TensorSpec::name), all);
  }
  s.group->collect(numbers);
  throw Diverged{step + 1, "gradient", name_of(*std::max_element(numbers.begin(), numbers.end()), all)};
}

// ‖g‖ from the shards of all ranks. The squares of pieces are added in the order of the gradients.
double norm_of_gradient(TrainingState& s) {
  if (s.group->size == 1) return s.by.norm(s.model.gradients.get(), s.model.table);
  std::vector<double> squares;
  for (size_t bucket = 0; bucket < s.buckets.size(); ++bucket) {
    for (const Shard& shard : s.shards) {
      const ShardPart& part = shard.parts[bucket];
      const size_t at = squares.size();
      for (const TensorSpec& slice : part.table) squares.resize(squares.size() + (slice.size() + kPiece - 1) / kPiece);
      if (&shard == &s.shard())
        std::ranges::copy(gradient_squares(s.gradients_of(part), part.table), squares.begin() + ptrdiff_t(at));
    }
  }
  s.group->collect(squares);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.));
}

// Updates the weights bucket by bucket. Sending a bucket overlaps with the update of the next.
void update(TrainingState& s, const StepOptions& o, int64_t step, double lr, float factor) {
  std::vector<std::unique_ptr<Group::Transfer>> sharing;
  float* weights = s.model.weights.get();
  for (size_t i = 0; i < s.shard().parts.size(); ++i) {
    const ShardPart& part = s.shard().parts[i];
    for (const Optimizer* row : s.by.optimizers)
      s.by.update(*row)({weights, s.optimizer_state.get(), s.gradients_of(part), s.scratch.get()},
                        tensors_of(part.table, *row), o.optimizer, {static_cast<float>(lr), factor, step + 1});
    sharing.push_back(share_weights(*s.group, s.shards, i, weights));
  }
  for (const auto& transfer : sharing) transfer->wait();
}

}  // namespace

StepResult training_step(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step, double lr,
                         StepObserver* observer) {
  std::ranges::fill(s.model.load, 0.);
  LaneSums sums(s, batches, o, step, observer);
  sums.add_all();
  const double nats = sums.nats();
  const double norm = norm_of_gradient(s);
  require_finite(s, norm, step);
  const float factor = s.by.clip(norm, o.clip);
  if (observer) {
    gather_gradients(*s.group, s.shards, s.model.gradients.get());
    observer->before_update();
  }
  if (!s.by.optimizers.empty()) {
    update(s, o, step, lr, factor);
    move_router_bias(s);
  }
  if (observer) observer->after_update();
  return {nats / static_cast<double>(batches.targets), norm, factor < 1, batches.targets};
}
