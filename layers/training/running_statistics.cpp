#include "running_statistics.hpp"

#include <algorithm>
#include <cstddef>

#include "layers/norm/norm_batch.hpp"

RunningStatistics::RunningStatistics(Model& model, int micro_batches) {
  for (const TensorSpec& spec : model.table) {
    if (!is_running(spec)) continue;
    float* numbers = model.weights.get() + spec.offset;
    tensors.emplace_back(numbers, spec.size());
    running.insert(running.end(), numbers, numbers + spec.size());
  }
  parts.resize(micro_batches * running.size());
}

void RunningStatistics::clear() {
  for (const std::span<float> tensor : tensors) std::ranges::fill(tensor, 0.f);
}

void RunningStatistics::keep_part(int micro) {
  auto part = parts.begin() + ptrdiff_t(micro * running.size());
  for (const std::span<float> tensor : tensors) part = std::ranges::copy(tensor, part).out;
}

void RunningStatistics::apply(Group& group) {
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
