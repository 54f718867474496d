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
      tokens(size_t(B) * T), targets(tokens.size()), group(std::move(ranks)) {
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

MicroBatches micro_batches(const int* tokens, const int* targets, int count, int B, int T, const int* begins) {
  const size_t n = size_t(B) * T;
  MicroBatches batches;
  batches.count = count;
  batches.targets = std::count_if(targets, targets + count * n, [](int target) { return target != kIgnore; });
  batches.fill = [=](int* to_tokens, int* to_targets, int micro) {
    std::copy_n(tokens + micro * n, n, to_tokens);
    std::copy_n(targets + micro * n, n, to_targets);
  };
  if (begins) batches.fill_begins = [=](int* to, int micro) { std::copy_n(begins + micro * n, n, to); };
  return batches;
}
