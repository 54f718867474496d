#include "trainer.hpp"

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/options/settings_file.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/format.hpp"
#include "evaluate.hpp"
#include "fine_tune.hpp"
#include "inputs.hpp"
#include "layers/model/initialize.hpp"
#include "leader.hpp"

Trainer::Trainer(const Command& given, const CheckpointHeader& start, Dataset text, std::shared_ptr<Group> ranks)
    : TrainingState(model_to_train(start.options), start.options.batch, start.options.config.context,
                    step_functions(start.options), std::move(ranks)),
      command(given), data(std::move(text)), state(start) {
  state.tokenizer = data.tokenizer;
  state.data_fingerprint = data.fingerprint;
  state.converses = data.chat != nullptr;
  state.answers = data.counted.size() > 0;
  const TrainOptions& o = options();
  pairs = read_all(o.eval_pairs, read_pairs, question_tokens(data.tokenizer, o, o.unknown), model.config);
}

int64_t Trainer::batches_per_validation() const {
  const int64_t all = validation_batches(data, options().batch), wanted = options().eval_batches;
  return wanted > 0 ? std::min(wanted, all) : all;
}

bool Trainer::measures_whole_validation(int64_t steps) const {
  TrainOptions longer = options();
  longer.steps = steps;
  const int64_t all = validation_batches(data, longer.batch), limit = final_batches(longer);
  return limit == 0 || all <= limit;
}

std::string go_to_start(Trainer& t) {
  std::string norms;
  if (t.options().resume) {
    Buffer of_all = t.group->size > 1 ? allocate(state_floats(t.model.table)) : nullptr;
    Buffer& whole = t.group->size > 1 ? of_all : t.optimizer_state;
    load_checkpoint(last_checkpoint(t.options().out), t.model, &whole);
    order_state(t, whole.get());
    return norms;
  }
  if (t.options().init_from.empty()) {
    initialize(t.model, t.options().seed);
  } else {
    norms = start_from(t.model, find_checkpoint(t.options().init_from), t.options().seed);
    require_same_weights(t.options());
  }
  order_state(t, nullptr);
  return norms;
}

void require_work(const Trainer& t) {
  if (!t.options().resume || t.state.step < t.options().steps || t.options().time_in_all > 0) return;
  const auto outcome = read_outcome(t.options().out);
  if (outcome && outcome->finished && outcome->measured)
    throw std::invalid_argument(t.options().out + " is finished: say how far to go on, e.g. --steps " +
                                std::to_string(2 * t.state.step));
}

void write_config(const Trainer& t) {
  TrainOptions given = t.command.train;
  given.min_lr = t.options().min_lr;
  given.time_in_all = t.options().time_in_all;
  write_file(t.path(kRunConfig), std::string(kRunStart) + "; train_gpt train --config reads them back. Values after "
                                                             "a # follow from the\n# others.\n" +
                                        to_toml(t.options(), given));
}

// ---- steps -----------------------------------------------------------------------------------------------

StepResult take_step(Trainer& t, int64_t step, double lr) {
  StepObserver* observer = t.diagnostics ? t.diagnostics->observer(step + 1) : nullptr;
  t.batches = micro_batches(t.data, t.options(), step);
  t.within_step = true;
  const StepResult result = order_step(t, t.batches, step_options(t.options()), step, lr, observer);
  if (std::isnan(t.first_loss)) t.first_loss = result.loss;
  return result;
}

namespace {

// Waits for the thread that writes checkpoint.safetensors.
void finish_last(Trainer& t) {
  if (t.saving.valid()) std::exchange(t.saving, {}).get();
}

// Waits for the thread that writes best.safetensors. If it could not, the previous best.safetensors is still the best.
void finish_best(Trainer& t) {
  if (!t.saving_best.valid()) return;
  try {
    std::exchange(t.saving_best, {}).get();
  } catch (const std::runtime_error&) {
    std::tie(t.state.best_loss, t.state.best_step) = t.best_before;
    throw;
  }
}

void require_finite(int64_t step, const std::vector<TensorSpec>& table, const Buffer& buffer) {
  if (const TensorSpec* bad = first_non_finite(table, buffer.get())) throw Diverged{step, "update", bad->name};
}

// Writes the state to `file` of the run's directory, on another thread if training goes on and there is memory for a
// copy. Throws Diverged if a number to write is not finite.
void save(Trainer& t, const std::string& file, int64_t step, bool goes_on = false) {
  const bool best = file == kBestCheckpoint;
  require_finite(step, t.model.table, t.model.weights);
  Buffer of_all;
  if (t.group->size > 1 && !best) of_all = order_whole_state(t);
  const Buffer* whole = t.group->size > 1 ? &of_all : &t.optimizer_state;
  const Buffer* state = best ? nullptr : whole;
  if (state) require_finite(step, state_table(t.model.table), *state);
  t.state.step = step;
  best ? finish_best(t) : finish_last(t);
  std::shared_future<void>& saving = best ? t.saving_best : t.saving;
  const bool copies = goes_on && (!best || t.model.gradient_floats * sizeof(float) <= kMostBestCopy);
  if (copies) saving = save_checkpoint_later(t.path(file), t.state, t.model, state, t.saving_best);
  if (saving.valid()) return;
  finish_best(t);
  save_checkpoint(t.path(file), t.state, t.model, state);
}

// A model has exploded if its loss on the last batch is more than ten times the first loss of this call and more than
// ten times the loss of uniform guessing. Returns false before the first step. Throws Diverged if the loss is NaN
// because a weight is not finite.
bool has_exploded(const Trainer& t) {
  if (std::isnan(t.first_loss)) return false;
  const MicroBatches last = micro_batches(t.batches.batch(t.batches.count - 1), 1);
  const double nats = model_loss(t.model, t.activations, last.all);
  const double loss = nats / static_cast<double>(std::max<int64_t>(1, last.targets));
  if (std::isnan(loss)) require_finite(t.state.step, t.model.table, t.model.weights);
  return !(loss <= 10 * std::max(t.first_loss, t.data.uniform_nats()));
}

// Measures the loss. Returns NaN if the user stops it.
double measure(const Trainer& t, int64_t step, int64_t batches) {
  const double loss = evaluate_with_progress(t.model, t.activations, t.data, t.options().batch, batches, t.group.get());
  if (interrupted()) stopped_in_time();
  if (std::isfinite(loss) || interrupted()) return loss;
  const TensorSpec* bad = first_non_finite(t.activations.table, t.activations.buffer.get());
  throw Diverged{step, "validation loss", bad ? bad->name : ""};
}

}  // namespace

// ---- validation ------------------------------------------------------------------------------------------

void validate(Trainer& t, Progress& progress, MetricsRow& row) {
  const double loss = measure(t, row.step, t.options().eval_batches);
  if (std::isnan(loss)) return;
  row.val_loss = t.state.val_loss = loss;
  row.val_bpb = t.data.bits_per_byte(loss);
  if (has_json_lines())
    json_line(to_ascii({{"event", "validation"}, {"step", row.step}, {"val_loss", loss}, {"val_bpb", row.val_bpb},
                        {"best", loss < t.state.best_loss}}));
  std::string text = "step " + std::to_string(row.step) + "  val " + t.data.in_units(loss);
  if (loss >= t.data.unigram_nats - kStuckWithin && row.step > t.options().rate.warmup_steps(t.options().steps))
    text += format("  (no better than guessing by frequency, %.4f)", t.data.unigram_nats);
  else if (loss > t.state.best_loss)
    text += format("  (rising: the best was %.4f", t.state.best_loss) + " at step " +
            std::to_string(t.state.best_step) + ", kept in " + kBestCheckpoint + ")";
  progress.line(text);
  if (loss >= t.state.best_loss) return;
  try {
    finish_best(t);
    t.best_before = {t.state.best_loss, t.state.best_step};
    t.state.best_loss = loss;
    t.state.best_step = row.step;
    save(t, kBestCheckpoint, row.step, true);
  } catch (const std::runtime_error&) {  // a resumed run validates this step again
    std::tie(t.state.best_loss, t.state.best_step) = t.best_before;
    row.val_loss = row.val_bpb = std::numeric_limits<double>::quiet_NaN();
    throw;
  }
}

bool measure_end(Trainer& t, Metrics& metrics, Progress& progress, RunOutcome& outcome) {
  if (!t.validates()) return true;
  MetricsRow row = metrics.last();
  if (row.step != outcome.step) row = {outcome.step};  // metrics.csv has been removed
  if (std::isnan(row.val_loss)) validate(t, progress, row);
  t.state.val_loss = row.val_loss;
  const bool whole = t.batches_per_validation() == validation_batches(t.data, t.options().batch);
  if (whole) row.val_loss_full = row.val_loss;
  else if (!interrupted() && t.measures_whole_validation(t.options().steps))
    row.val_loss_full = measure(t, row.step, 0);
  outcome.val_loss_full = row.val_loss_full;
  finish_best(t);  // a run that is killed before this line has no loss in its row, and validates again
  if (metrics.last().step == row.step) metrics.replace_last(row);
  save(t, kLastCheckpoint, outcome.step);
  return !interrupted();
}

bool measure_pairs(const Trainer& t, RunOutcome& outcome) {
  if (t.pairs.empty()) return true;
  const std::vector<Score> scores = measure_with_progress(t.model, t.activations, t.pairs, t.options().batch);
  if (!scores.empty()) outcome.pairs = mean_of(scores);
  return !scores.empty();
}

bool out_of_patience(const Trainer& t, int64_t step) {
  const int64_t every = eval_every(t.options());
  return t.options().patience > 0 && every > 0 && step / every - t.state.best_step / every >= t.options().patience;
}

// ---- saving ----------------------------------------------------------------------------------------------

bool save_sound(Trainer& t, Progress& progress, int64_t step, bool goes_on) {
  if (!has_exploded(t)) {
    save(t, kLastCheckpoint, step, goes_on);
    return true;
  }
  finish_saving(t);
  progress.line("step " + std::to_string(step) + "  not saved: the loss has exploded; the last checkpoint stays");
  return false;
}

void finish_saving(Trainer& t) {
  finish_best(t);
  finish_last(t);
}

void check_saving(Trainer& t) {
  const auto written = [](const std::shared_future<void>& saving) {
    return saving.valid() && saving.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (written(t.saving_best)) finish_best(t);
  if (written(t.saving)) finish_last(t);
}

void save_and_fail(Trainer& t, const Metrics& metrics, const std::runtime_error& error) {
  std::string text = plain_text(error);
  for (const auto finish : {finish_best, finish_last}) try {
      finish(t);
    } catch (const std::runtime_error&) {  // the state is saved again below
    }
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
