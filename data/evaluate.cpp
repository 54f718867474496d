#include "evaluate.hpp"

#include <cstdio>

#include "checkpoint.hpp"
#include "machine.hpp"
#include "progress.hpp"
#include "run.hpp"

namespace {

std::vector<Window> spread(const std::vector<Window>& all, size_t wanted) {
  if (wanted == 0 || wanted >= all.size()) return all;
  std::vector<Window> some;
  for (size_t i = 0; i < wanted; ++i) some.push_back(all[i * all.size() / wanted]);
  return some;
}

}  // namespace

double evaluate(const Model& model, const Activations& activations, const Dataset& data, int B, int64_t batches) {
  const int T = model.config.context;
  const std::vector<Window> windows = spread(data.val, static_cast<size_t>(batches) * B);
  std::vector<int> tokens(static_cast<size_t>(B) * T), targets(tokens.size());
  double nats = 0;
  int64_t count = 0;
  for (size_t first = 0; first < windows.size(); first += B) {
    fill_windows(tokens.data(), targets.data(), data, windows, first, B, T);
    nats += model_loss(model, activations, {tokens.data(), targets.data(), B, T});
    for (int target : targets) count += target >= 0;
  }
  return nats / static_cast<double>(count);
}

void run_eval(const EvalOptions& options) {
  use_threads(options.threads);
  const auto [path, header, model] = load_trained_model(find_checkpoint(options.checkpoint));
  const Dataset data = load_for_evaluation(options, header.tokenizer, model.config.context);
  for (const std::string& note : data.notes) std::fprintf(stderr, "NOTE: %s\n", note.c_str());
  const Activations activations = allocate_activations(model.config, options.batch, model.config.context, false);
  const Stopwatch clock;
  const double loss = evaluate(model, activations, data, options.batch, 0);
  const double tokens = static_cast<double>(data.val_targets());
  std::printf("%s, step %lld, on %s (%s tokens)\n", path.c_str(), static_cast<long long>(header.step),
              data.name.c_str(), format_count(tokens).c_str());
  std::printf("loss %.4f nats/token, %.4f bits/byte%s  (%s tokens/s)\n", loss, data.bits_per_byte(loss),
              data.floor > 0 ? format(", floor %.4f nats/token", data.floor).c_str() : "",
              format_count(tokens / clock.seconds()).c_str());
}
