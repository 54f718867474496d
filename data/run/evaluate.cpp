#include "evaluate.hpp"

#include <algorithm>
#include <limits>

#include "data/host/interrupt.hpp"
#include "data/host/progress.hpp"

namespace {

std::vector<TokenWindow> spread(const std::vector<TokenWindow>& all, size_t wanted) {
  if (wanted == 0 || wanted >= all.size()) return all;
  std::vector<TokenWindow> some;
  for (size_t i = 0; i < wanted; ++i) some.push_back(all[i * all.size() / wanted]);
  return some;
}

}  // namespace

int64_t validation_batches(const Dataset& data, int B) { return (static_cast<int64_t>(data.val.size()) + B - 1) / B; }

double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches,
                const std::function<bool(int64_t done, int64_t total)>& go_on) {
  const int T = model.config.context;
  const std::vector<TokenWindow> windows = spread(data.val, static_cast<size_t>(batches) * B);
  std::vector<int> tokens(static_cast<size_t>(B) * T), targets(tokens.size());
  double nats = 0;
  int64_t count = 0;
  const int64_t total = (static_cast<int64_t>(windows.size()) + B - 1) / B;
  for (size_t first = 0; first < windows.size(); first += B) {
    if (go_on && !go_on(static_cast<int64_t>(first) / B, total)) return std::numeric_limits<double>::quiet_NaN();
    fill_windows(tokens.data(), targets.data(), data, windows, first, B, T);
    nats += model_loss(model, activations, {tokens.data(), targets.data(), B, T});
    for (int target : targets) count += target >= 0;
  }
  return nats / static_cast<double>(count);
}

double evaluate_with_progress(const Model& model, const Activations& activations, const Dataset& data, int B,
                              int64_t batches) {
  const int64_t all = validation_batches(data, B);
  Progress progress(0, batches > 0 ? std::min(batches, all) : all, "validation", 10);
  return evaluate(model, activations, data, B, batches, [&](int64_t done, int64_t) {
    progress.update(done, [] { return std::string(); });
    return !interrupted();
  });
}
