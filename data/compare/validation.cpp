#include "validation.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "data/run/evaluate.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/directory.hpp"
#include "data/text/load_dataset.hpp"
#include "layers/kernels/random.hpp"

namespace {

// Returns the number of validation rows that a run's final loss is measured on: all, or those of --eval-batches.
size_t rows_at_end(const TrainOptions& o, const Dataset& data) {
  const int64_t all = validation_batches(data, o.batch), limit = final_batches(o);
  const bool whole = limit == 0 || all <= limit || o.eval_batches == 0 || all <= o.eval_batches;
  return whole ? data.val.size() : static_cast<size_t>(o.eval_batches) * o.batch;
}

// Adds the targets of a window that count.
void add_targets(std::vector<Stretch>& targets, const Dataset& data, const TokenWindow& window) {
  const size_t begin = window.start + 1, end = begin + static_cast<size_t>(window.length);
  if (data.counted.size() == 0) return targets.push_back({begin, end});
  for (size_t at = begin; at < end; ++at)
    if (data.counted[at] != 0) targets.push_back({at, at + 1});
}

// Does not depend on how the targets are divided into windows.
uint64_t hash_places(std::vector<Stretch> targets) {
  std::ranges::sort(targets, {}, &Stretch::begin);
  uint64_t hash = 0;
  for (size_t i = 0; i < targets.size();) {
    const size_t begin = targets[i].begin;
    size_t end = begin;
    for (; i < targets.size() && targets[i].begin <= end; ++i) end = std::max(end, targets[i].end);
    hash = rng::key({hash, begin, end});
  }
  return hash;
}

// What is hidden depends on the windows and on their places in the row.
uint64_t hash_hidden(uint64_t hash, const Dataset& data, std::span<const TokenWindow> row) {
  hash = rng::key({hash, std::bit_cast<uint64_t>(data.masking.fraction), data.spans.sentinels.size()});
  for (const TokenWindow& window : row)
    hash = rng::key({hash, window.start, uint64_t(window.length), uint64_t(window.text_length)});
  return hash;
}

}  // namespace

Reading reading_of(const TrainOptions& o) {
  return {o.init_from, o.data_limit, o.config.context, o.config.objective, o.mask_fraction,
          final_batches(o) == 0 ? 0 : o.batch};
}

Dataset load_text(TrainOptions o, const std::string& out) {
  o.out = out;
  if (o.init_from.empty()) return load_dataset(o, nullptr, o.config.context);
  const CheckpointHeader from = read_checkpoint_header(find_checkpoint(o.init_from));
  return load_dataset(o, &from.tokenizer, o.config.context);
}

uint64_t hash_validation(const TrainOptions& o, const Dataset& data) {
  const size_t all = data.val.size(), rows = rows_at_end(o, data);
  std::vector<Stretch> targets;
  uint64_t hidden = 0;
  for (size_t i = 0; i < rows; ++i) {
    const std::span<const TokenWindow> row = data.val[i * all / rows];
    if (data.hides()) hidden = hash_hidden(hidden, data, row);
    else for (const TokenWindow& window : row) add_targets(targets, data, window);
  }
  return data.hides() ? hidden : hash_places(std::move(targets));
}
