#include "evaluate.hpp"

#include <algorithm>
#include <limits>

#include "data/host/interrupt.hpp"
#include "data/host/progress.hpp"

int64_t validation_batches(const Dataset& data, int B) { return (static_cast<int64_t>(data.val.size()) + B - 1) / B; }

double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches,
                const std::function<bool(int64_t done, int64_t total)>& go_on) {
  const int T = model.config.context;
  const std::vector<TokenWindow>& all = data.val;
  const size_t wanted = batches == 0 ? all.size() : std::min(all.size(), static_cast<size_t>(batches) * B);
  std::vector<TokenWindow> windows;
  for (size_t i = 0; i < wanted; ++i) windows.push_back(all[i * all.size() / wanted]);
  std::vector<int> tokens(static_cast<size_t>(B) * T), targets(tokens.size());
  double nats = 0;
  int64_t count = 0;
  const int64_t total = (static_cast<int64_t>(wanted) + B - 1) / B;
  for (int64_t done = 0; done < total; ++done) {
    if (go_on && !go_on(done, total)) return std::numeric_limits<double>::quiet_NaN();
    fill_windows(tokens.data(), targets.data(), data, windows, static_cast<size_t>(done) * B, B, T);
    nats += model_loss(model, activations, {tokens.data(), targets.data(), B, T});
    for (int target : targets) count += target >= 0;
  }
  return nats / static_cast<double>(count);
}

double evaluate_with_progress(const Model& model, const Activations& activations, const Dataset& data, int B,
                              int64_t batches) {
  Progress progress(0, 0, "validation", 10);
  return evaluate(model, activations, data, B, batches, [&](int64_t done, int64_t total) {
    progress.set_total(total);
    progress.update(done, [] { return std::string(); });
    return !interrupted();
  });
}
