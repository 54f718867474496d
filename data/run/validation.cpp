#include "validation.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "data/host/format.hpp"
#include "data/host/interrupt.hpp"
#include "directory.hpp"
#include "evaluate.hpp"
#include "schedule.hpp"

namespace {

// NaN if the user stops it.
double measure(const Trainer& t, int64_t step, int64_t batches) {
  const double loss = evaluate_with_progress(t.model, t.activations, t.data, t.o.batch, batches);
  if (std::isfinite(loss) || interrupted()) return loss;
  const TensorSpec* bad = first_non_finite(t.activations.table, t.activations.buffer.get());
  throw Diverged{step, "validation loss", bad ? bad->name : ""};
}

}  // namespace

void validate(Trainer& t, Progress& progress, MetricsRow& row) {
  const double loss = measure(t, row.step, t.o.eval_batches);
  if (std::isnan(loss)) return;
  row.val_loss = t.state.val_loss = loss;
  row.val_bpb = t.data.bits_per_byte(loss);
  std::string text = "step " + std::to_string(row.step) + format("  val %.4f nats/token, ", loss) +
                     format("%.4f bits/byte", row.val_bpb);
  if (loss > t.state.best_loss)
    text += format("  (rising: the best was %.4f", t.state.best_loss) + " at step " +
            std::to_string(t.state.best_step) + ", kept in best.bin)";
  progress.line(text);
  if (loss >= t.state.best_loss) return;
  const auto [best_loss, best_step] = std::pair{t.state.best_loss, t.state.best_step};
  t.state.best_loss = loss, t.state.best_step = row.step;
  try {
    save(t, kBestCheckpoint, row.step);
  } catch (const std::runtime_error&) {  // a resumed run validates this step again
    t.state.best_loss = best_loss, t.state.best_step = best_step;
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
  const int64_t all = validation_batches(t.data, t.o.batch), limit = final_batches(t.o);
  if (t.o.eval_batches == 0 || t.o.eval_batches >= all) row.val_loss_full = row.val_loss;
  else if (!interrupted() && (limit == 0 || all <= limit)) row.val_loss_full = measure(t, row.step, 0);
  outcome.val_loss_full = row.val_loss_full;
  if (metrics.last().step == row.step) metrics.replace_last(row);
  save(t, kLastCheckpoint, outcome.step);
  return !interrupted();
}
