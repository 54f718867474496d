#include "trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/textbook/step.hpp"
#include "directory.hpp"
#include "outcome.hpp"

Trainer::Trainer(const Command& given, const TrainOptions& in_force, Dataset text)
    : command(given), o(in_force), data(std::move(text)), model(o.config),
      activations(allocate_activations(model.config, o.batch, model.config.context, true)),
      moments{allocate(model.floats), allocate(model.floats)},
      tokens(size_t(o.batch) * model.config.context), targets(tokens.size()) {
  state.options = o;
  state.tokenizer = data.tokenizer;
  state.data_fingerprint = data.fingerprint;
}

void go_to_start(Trainer& t) {
  for (Buffer* moment : {&t.moments.m, &t.moments.v}) set_zero(moment->get(), t.model.floats);
  if (t.o.resume || !t.o.init_from.empty()) {
    const std::string path = t.o.resume ? t.path(kLastCheckpoint) : find_checkpoint(t.o.init_from);
    load_checkpoint(path, t.model, t.o.resume ? &t.moments : nullptr);
  } else {
    initialise(t.model, t.o.seed);
  }
}

bool out_of_patience(const Trainer& t, int64_t step) {
  const int64_t every = t.o.eval_every;
  return t.o.patience > 0 && every > 0 && step / every - t.state.best_step / every >= t.o.patience;
}

bool has_exploded(const Trainer& t) {
  if (std::isnan(t.first_loss)) return false;
  const int B = t.o.batch, T = t.model.config.context;
  const double nats = model_loss(t.model, t.activations, {t.tokens.data(), t.targets.data(), B, T});
  const double loss = nats / (static_cast<double>(B) * T);
  return !(loss <= 10 * std::max(t.first_loss, t.data.uniform_nats()));
}

void save(Trainer& t, const std::string& file, int64_t step) {
  for (const Buffer* buffer : {&t.model.weights, &t.moments.m, &t.moments.v})
    if (const TensorSpec* bad = first_non_finite(t.model.table, buffer->get()))
      throw Diverged{step, "update", bad->name};
  t.state.step = step;
  save_checkpoint(t.path(file), t.state, t.model, file == kBestCheckpoint ? nullptr : &t.moments);
}

namespace {

enum class Pass { forward, backward };  // fills the tensors of a table from its first, or from its last

void require_finite(double value, const char* what, Pass pass, const std::vector<TensorSpec>& table,
                    const float* buffer, int64_t step) {
  if (std::isfinite(value)) return;
  std::vector<TensorSpec> filled = table;
  if (pass == Pass::backward) std::reverse(filled.begin(), filled.end());
  const TensorSpec* first = first_non_finite(filled, buffer);
  throw Diverged{step + 1, what, first ? first->name : ""};
}

}  // namespace

StepResult train_step(Trainer& t, int64_t step, double lr) {  // step counts from 0
  const TrainOptions& o = t.o;
  const StepFunctions& by = o.textbook ? kTextbookStep : kFastStep;
  const int T = t.model.config.context;
  const StepRows rows = t.rows_of(step);
  const int64_t targets = targets_in(t.data, T, rows);
  const float scale = 1.f / static_cast<float>(targets);
  set_zero(t.model.gradients.get(), t.model.floats);
  double nats = 0;
  for (int micro = 0; micro < o.accumulate; ++micro) {
    const int first_row = micro * o.batch;
    draw_batch(t.tokens.data(), t.targets.data(), t.data, o.batch, T, rows, first_row);
    const Dropout dropout{o.config.dropout, o.seed, uint64_t(step), first_row};
    Observer* observer = t.diagnostics && micro + 1 == o.accumulate ? t.diagnostics->observer(step + 1) : nullptr;
    nats += by.loss_and_gradients(t.model, t.activations, {t.tokens.data(), t.targets.data(), o.batch, T}, scale, dropout,
                                  observer);
    require_finite(nats, "loss", Pass::forward, t.activations.table, t.activations.buffer.get(), step);
  }
  const double norm = by.norm(t.model.gradients.get(), t.model.table);
  require_finite(norm, "gradient", Pass::backward, t.model.table, t.model.gradients.get(), step);
  if (t.diagnostics) t.diagnostics->before_update();
  const float factor = by.clip(norm, o.clip);
  by.adamw(t.model.weights.get(), t.moments.m.get(), t.moments.v.get(), t.model.gradients.get(), t.model.table, o.adamw,
           static_cast<float>(lr), factor, step + 1);
  if (t.diagnostics) t.diagnostics->after_update();
  const double loss = nats / static_cast<double>(targets);
  if (std::isnan(t.first_loss)) t.first_loss = loss;
  return {loss, norm, factor < 1, targets};
}
