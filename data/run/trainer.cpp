#include "trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "directory.hpp"
#include "layers/textbook/step.hpp"

Trainer::Trainer(const Command& given, const TrainOptions& in_force, Dataset text)
    : TrainingState(Model(in_force.config), in_force.batch, in_force.config.context,
                    in_force.textbook ? kTextbookStep : kFastStep),
      command(given), o(in_force), data(std::move(text)) {
  state.options = o;
  state.tokenizer = data.tokenizer;
  state.data_fingerprint = data.fingerprint;
}

void go_to_start(Trainer& t) {
  for (const Buffer& slot : t.optimizer_state) set_zero(slot.get(), t.model.floats);
  if (t.o.resume || !t.o.init_from.empty()) {
    const std::string path = t.o.resume ? t.path(kLastCheckpoint) : find_checkpoint(t.o.init_from);
    load_checkpoint(path, t.model, t.o.resume ? &t.optimizer_state : nullptr);
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
  const auto require_finite = [&](const Buffer& buffer) {
    if (const TensorSpec* bad = first_non_finite(t.model.table, buffer.get()))
      throw Diverged{step, "update", bad->name};
  };
  require_finite(t.model.weights);
  for (const Buffer& slot : t.optimizer_state) require_finite(slot);
  t.state.step = step;
  save_checkpoint(t.path(file), t.state, t.model, file == kBestCheckpoint ? nullptr : &t.optimizer_state);
}

bool save_sound(Trainer& t, Progress& progress, int64_t step) {
  if (!has_exploded(t)) return save(t, kLastCheckpoint, step), true;
  progress.line("step " + std::to_string(step) + "  not saved: the loss has exploded; the last checkpoint stays");
  return false;
}

void save_and_fail(Trainer& t, const Metrics& metrics, const std::runtime_error& error) {
  std::string text = error.what();
  try {
    if (!t.within_step && !has_exploded(t)) {
      if (metrics.last().step != t.state.step) t.state.unwritten_row = csv_line(t.row);
      save(t, kLastCheckpoint, t.state.step);
      text += "; step " + std::to_string(t.state.step) + " is saved";
    }
  } catch (const std::runtime_error&) {
  }
  throw std::runtime_error(text);
}

void write_config(const Trainer& t) {
  TrainOptions given = t.command.train;
  given.min_lr = t.o.min_lr;
  write_config(t.o.out, t.o, given);
}

StepRows rows_of(const TrainOptions& o, int64_t step) {
  return {o.data_seed, uint64_t(step), uint64_t(o.batch) * o.accumulate};
}

MicroBatches micro_batches(const Dataset& data, const TrainOptions& o, int64_t step) {
  const StepRows rows = rows_of(o, step);
  const int B = o.batch, T = o.config.context;
  return {o.accumulate, targets_in(data, T, rows), [&data, rows, B, T](int* tokens, int* targets, int micro) {
            draw_batch(tokens, targets, data, B, T, rows, uint64_t(micro) * B);
          }};
}

StepResult take_step(Trainer& t, int64_t step, double lr) {
  StepObserver* observer = t.diagnostics ? t.diagnostics->observer(step + 1) : nullptr;
  const StepResult result =
      training_step(t, micro_batches(t.data, t.o, step), {t.o.adamw, t.o.clip, t.o.seed}, step, lr, observer);
  if (std::isnan(t.first_loss)) t.first_loss = result.loss;
  return result;
}
