#include "whole_model.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "exchange.hpp"

Losses::Losses(TrainingState& state, int micro_batches) : s(state), numbers(2 * micro_batches) {}

void Losses::set(int micro, double nats) {
  numbers[2 * micro] = nats;
  if (!std::isfinite(nats))
    numbers[2 * micro + 1] = number_of(first_non_finite(s.activations.table, s.activations.buffer.get()),
                                       s.activations.table);
}

double Losses::sum(int64_t step) {
  s.group->collect(numbers);
  double sum = 0;
  for (size_t micro = 0; micro < numbers.size(); micro += 2) {
    sum += numbers[micro];
    if (!std::isfinite(sum))
      throw Diverged{step + 1, "loss", tensor_name(numbers[micro + 1], s.activations.table)};
  }
  return sum;
}

double norm_of_gradient(TrainingState& s) {
  if (s.group->size == 1) return s.functions.norm(s.model.gradients.get(), s.model.table);
  std::vector<double> squares;
  for (size_t bucket = 0; bucket < s.buckets.size(); ++bucket) {
    for (const Shard& shard : s.shards) {
      const ShardPart& part = shard.parts[bucket];
      const size_t at = squares.size();
      for (const TensorSpec& slice : part.table) squares.resize(squares.size() + (slice.size() + kStrip - 1) / kStrip);
      if (&shard == &s.shard())
        std::ranges::copy(gradient_squares(s.gradients_of(part), part.table), squares.begin() + ptrdiff_t(at));
    }
  }
  s.group->collect(squares);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.));
}

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
  throw Diverged{step + 1, "gradient", tensor_name(*std::max_element(numbers.begin(), numbers.end()), all)};
}

void gather_gradients(TrainingState& s) { gather_gradients(*s.group, s.shards, s.model.gradients.get()); }

std::vector<double> load_of_experts(TrainingState& s) {
  const size_t size = s.model.load.size();
  std::vector<double> loads(s.group->size * size), load(size);
  std::ranges::copy(s.model.load, loads.begin() + ptrdiff_t(s.group->rank * size));
  s.group->collect(loads);
  for (size_t i = 0; i < loads.size(); ++i) load[i % size] += loads[i];
  return load;
}

void update_parts(TrainingState& s, const std::function<void(const ShardPart& part)>& update) {
  std::vector<std::unique_ptr<Group::Transfer>> sharing;
  for (size_t i = 0; i < s.shard().parts.size(); ++i) {
    update(s.shard().parts[i]);
    sharing.push_back(share_weights(*s.group, s.shards, i, s.model.weights.get()));
  }
  for (const auto& transfer : sharing) transfer->wait();
}
