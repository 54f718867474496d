#include "evaluate.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "data/host/interrupt.hpp"
#include "data/host/progress.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/buffer.hpp"
#include "leader.hpp"

int64_t validation_batches(const Dataset& data, int B) { return (static_cast<int64_t>(data.val.size()) + B - 1) / B; }

int validation_length(const Model& model, const Dataset& data) {
  return std::min(model.config.context, data.val.longest());
}

double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches,
                const std::function<bool(int64_t done, int64_t total)>& go_on, Group* group) {
  Group alone;
  Group& ranks = group ? *group : alone;
  const int T = validation_length(model, data);
  const size_t all = data.val.size(), wanted = batches == 0 ? all : std::min(all, static_cast<size_t>(batches) * B);
  Rows rows;
  for (size_t i = 0; i < wanted; ++i) rows.add(data.val[i * all / wanted]);
  double nats = 0;
  int64_t counted = 0;
  const int64_t total = (static_cast<int64_t>(wanted) + B - 1) / B;
  for (int64_t done = 0; done < total; done += ranks.size) {
    if (go_on && !go_on(done, total)) return std::numeric_limits<double>::quiet_NaN();
    const int count = static_cast<int>(std::min<int64_t>(ranks.size, total - done));
    RowBatch inputs = fill_rows(data, rows, static_cast<size_t>(done) * B, count * B, T);
    for (const double loss : order_losses(ranks, model, activations, inputs, B)) nats += loss;
    for (int target : inputs.targets) counted += target >= 0;
  }
  return nats / static_cast<double>(counted);
}

Answers count_answers(const Model& model, const Activations& activations, const Dataset& data) {
  const int T = validation_length(model, data);
  const auto V = static_cast<size_t>(model.config.vocab_size);
  const Buffer logits = allocate(checked_product({static_cast<size_t>(T), V}));
  Answers answers;
  for (size_t r = 0; r < data.val.size() && !interrupted(); ++r) {
    const RowBatch row = fill_rows(data, data.val, r, 1, T);
    batch_logits(logits.get(), model, activations, row.batch());
    const auto is_right = [&](int t) {
      const float* at = logits.get() + static_cast<size_t>(t) * V;
      return row.targets[t] == kIgnore || std::max_element(at, at + V) == at + row.targets[t];
    };
    int begin = 0;
    for (const TokenWindow& example : data.val[r]) {
      const int first = std::exchange(begin, begin + example.length);
      answers.cut += example.cut == Cut::first;
      if (example.cut != Cut::none) continue;
      bool exact = true;
      for (int i = 0; i < example.length; ++i) exact = exact && is_right(first + i);
      ++answers.all;
      answers.exact += exact;
    }
  }
  return answers;
}

double evaluate_with_progress(const Model& model, const Activations& activations, const Dataset& data, int B,
                              int64_t batches, Group* group) {
  Progress progress(0, 0, "validation", 10);
  return evaluate(model, activations, data, B, batches, [&](int64_t done, int64_t total) {
    progress.set_total(total);
    progress.update(done, [] { return std::string(); });
    return !interrupted();
  }, group);
}
