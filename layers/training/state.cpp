#include "state.hpp"

#include <algorithm>
#include <utility>

#include "layers/cross_entropy/cross_entropy.hpp"

std::string Diverged::message() const {
  const std::string subject = "step " + std::to_string(step) + ": the " + what;
  if (exploded) return subject + " has exploded: it is more than ten times the loss of uniform guessing";
  return subject + " is not finite; " +
         (tensor.empty() ? "every tensor is: their sum overflowed"
                         : "the first tensor with a NaN or an infinity is " + tensor);
}

TrainingState::TrainingState(Model m, int b, int t, const StepFunctions& of_step, std::shared_ptr<Group> ranks)
    : model(std::move(m)), functions(of_step), B(b), T(t),
      activations(allocate_activations(model.config, B, T, true)),
      group(std::move(ranks)) {
  assign_optimizers(model.table, functions.optimizers);
  buckets = buckets_of(model.table);
  if (group->size == 1)
    shards = {{{{model.table, 0, model.gradient_floats}}, model.gradient_floats, state_floats(model.table)}};
  else shards = shards_of(model.table, group->size);
  optimizer_state = allocate(shard().state);
  size_t floats = 0;
  for (const ShardPart& part : shard().parts) floats = std::max(floats, scratch_floats(part.table));
  scratch = allocate(floats);
}

Batch rows_of(Batch batch, int first, int count) {
  batch.B = count;
  const auto skip = [first](const int*& numbers, int length) {
    if (numbers) numbers += static_cast<size_t>(first) * length;
  };
  for (const int** numbers : {&batch.tokens, &batch.targets, &batch.begins, &batch.encoder.from, &batch.encoder.to})
    skip(*numbers, batch.T);
  for (const int** numbers : {&batch.encoder.tokens, &batch.encoder.begins}) skip(*numbers, batch.encoder.T);
  return batch;
}

MicroBatches micro_batches(const Batch& all, int count, std::shared_ptr<const void> owner) {
  const int* end = all.targets + static_cast<size_t>(all.B) * all.T;
  const auto targets = std::count_if(all.targets, end, [](int target) { return target != kIgnore; });
  return {count, targets, all, std::move(owner)};
}
