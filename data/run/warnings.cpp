#include "warnings.hpp"

#include "data/host/format.hpp"

std::vector<std::string> warnings_about(const TrainOptions& o) {
  const LearningRate& rate = o.rate;
  const bool warms_up = rate.warmup > 0 && o.steps > 0;
  const struct {
    bool holds;
    std::string line;
  } list[] = {
      {rate.lr == 0, "--lr 0: nothing will be learned"},
      {rate.lr >= .1, "--lr " + format("%g", rate.lr) + ": AdamW moves every weight by about so much in a step; try 1e-3"},
      {warms_up && rate.warmup >= o.steps,
       "--warmup " + std::to_string(rate.warmup) + " does not end before step " + std::to_string(o.steps) +
           ": the learning rate only gets to " + format("%.2g", rate.at(o.steps - 1, o.steps)) + " of " +
           format("%g", rate.lr)},
      {rate.min_lr > rate.lr, "--min-lr " + format("%g", rate.min_lr) + " is above --lr " + format("%g", rate.lr) +
                                  ": the learning rate rises at the end"},
      {o.min_lr && rate.schedule == Schedule::constant, "--min-lr has no effect with --schedule constant"},
      {o.patience > 0 && (o.eval_every == 0 || (o.val_data.empty() && o.val_fraction == 0)),
       "--patience has no effect without validations"},
      {!o.val_data.empty() && o.val_split != ValSplit::tail, "--val-split has no effect with --val-data"},
  };
  std::vector<std::string> lines;
  for (const auto& entry : list)
    if (entry.holds) lines.push_back(entry.line);
  return lines;
}

double epochs_of(const Dataset& data, const TrainOptions& o) {
  const double rows = static_cast<double>(o.steps) * o.batch * o.accumulate;
  return rows / (data.windows.empty() ? static_cast<double>(data.train) / o.config.context
                                      : static_cast<double>(data.windows.size()));
}

std::vector<std::string> warnings_about(const Dataset& data, const TrainOptions& o, size_t parameters) {
  // Repeating a text up to 4 times is as good as fresh text; beyond 16 times it adds little (Muennighoff et al. 2023,
  // arXiv 2305.16264).
  constexpr double kMostEpochs = 16, kGoodEpochs = 4, kFewestTokens = .1;
  const double epochs = epochs_of(data, o), each = static_cast<double>(data.train) / static_cast<double>(parameters);
  const bool from_scratch = o.init_from.empty();
  std::vector<std::string> lines;
  if (from_scratch && each < kFewestTokens)
    lines.push_back(format("the text has %.2g tokens for each parameter", each) +
                    ", so the model can learn it by heart: give more text or a smaller model");
  if (epochs > kMostEpochs)
    lines.push_back(format("the text is read %.0f times", epochs) + ", and more than 16 times mostly overfits: try --steps " +
                    std::to_string(static_cast<int64_t>(static_cast<double>(o.steps) * kGoodEpochs / epochs) + 1) +
                    " or --patience 5");
  return lines;
}
