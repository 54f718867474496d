#include "result.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "data/files/files.hpp"
#include "data/run/evaluate.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"
#include "statistics.hpp"

namespace {

double number(const std::string& field) {
  return field.empty() ? RunResult::kUnknown : std::strtod(field.c_str(), nullptr);
}

bool is_number(const std::string& field) {
  char* end = nullptr;
  std::strtod(field.c_str(), &end);
  return !std::isspace(static_cast<unsigned char>(field[0])) && *end == '\0';  // true for ""
}

// Training losses by step, from metrics.csv.
struct Curves {
  std::vector<double> step, loss;
  double full = RunResult::kUnknown;  // final loss on the whole validation split
};

// Reads a run's metrics.csv and fills the fields of `r` that come from it.
Curves read_curves(RunResult& r, const std::string& directory) {
  Curves curves;
  std::vector<double> norm, clipped;
  r.seconds = 0;
  for (const auto& row : read_metrics(directory)) {
    r.steps = number(row[metrics::step]);
    r.tokens = number(row[metrics::tokens]);
    r.seconds = number(row[metrics::elapsed_s]);
    curves.step.push_back(r.steps);
    curves.loss.push_back(number(row[metrics::train_loss]));
    norm.push_back(number(row[metrics::grad_norm]));
    clipped.push_back(number(row[metrics::clipped]));
    curves.full = number(row[metrics::val_loss_full]);
    if (row[metrics::val_loss].empty()) continue;
    const double val_loss = number(row[metrics::val_loss]);
    r.at_step.push_back(r.steps);
    r.at_second.push_back(r.seconds);
    r.val_loss.push_back(val_loss);
    if (val_loss < r.best_loss || std::isnan(r.best_loss)) {
      r.best_loss = val_loss;
      r.best_step = r.steps;
    }
  }
  r.tokens_per_second = r.tokens / r.seconds;
  if (!curves.loss.empty()) r.final_train = curves.loss.back();
  if (!curves.step.empty() && curves.step.front() == 1) r.initial_loss = curves.loss.front();
  r.loss_spikes = share_of_spikes(curves.loss);
  r.grad_spikes = share_of_spikes(norm);
  r.clipped = estimate(clipped).mean;
  return curves;
}

// Uses outcome.json, because the last rows of metrics.csv may be missing.
void read_end(RunResult& r, const Curves& curves, const RunOutcome& outcome) {
  const double steps = static_cast<double>(outcome.step);
  r.final_loss = outcome.val_loss_full;
  r.whole = !std::isnan(outcome.val_loss_full) || !std::isnan(curves.full);
  if (r.steps < steps) {
    r.tokens *= steps / r.steps;
    r.steps = steps;
    r.seconds = r.final_train = RunResult::kUnknown;
  } else if (std::isnan(r.final_loss)) {
    const bool validated = !r.val_loss.empty() && r.at_step.back() == r.steps;
    r.final_loss = r.whole ? curves.full : validated ? r.val_loss.back() : RunResult::kUnknown;
  }
}

// A run with a final loss above this limit has diverged. The first training loss alone is not enough: if a run starts
// from a checkpoint, it is the loss of a trained model on one batch.
double divergence_limit(const RunResult& r) {
  constexpr double kNoiseOfBatch = 0.1;  // nats
  return std::fmax(r.initial_loss, r.unigram) + kNoiseOfBatch;
}

RunState state_of(const RunResult& r) {
  if (r.final_loss > divergence_limit(r)) return RunState::diverged;
  return std::abs(r.final_loss - r.unigram) <= kStuckWithin ? RunState::stuck : RunState::finished;
}

// Returns the step after the last one with a loss of at most `limit`, or the last step.
int64_t high_from(const Curves& curves, double limit) {
  int64_t from = 1;
  for (size_t i = 0; i < curves.loss.size(); ++i)
    if (curves.loss[i] <= limit) from = static_cast<int64_t>(curves.step[i]) + (i + 1 < curves.loss.size());
  return from;
}

}  // namespace

const char* name_of(RunState state) {
  constexpr const char* kNames[] = {"finished", "diverged", "stuck", "failed"};
  return kNames[static_cast<int>(state)];
}

std::string describe(const RunResult& r) {
  std::string text = name_of(r.state);
  if (r.state == RunState::diverged)
    text += (r.first_tensor.empty() ? " from step " : " at step ") + std::to_string(r.stopped_at);
  if (!r.first_tensor.empty()) text += ", first in " + r.first_tensor;
  return std::isnan(r.final_loss) ? text : text + format(", %.4f", r.final_loss);
}

std::vector<std::vector<std::string>> read_metrics(const std::string& directory) {
  std::vector<std::vector<std::string>> rows;
  const std::string path = directory + "/" + kMetrics;
  if (!std::filesystem::exists(path)) return rows;
  std::istringstream file(read_file(path));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = csv_fields(line);
  while (std::getline(file, line) && !file.eof()) {  // a last line without a newline may be incomplete
    const std::vector<std::string> fields = csv_fields(line);
    if (fields.size() != header.size() || !std::all_of(fields.begin(), fields.end(), is_number)) continue;
    std::vector<std::string> row;
    for (const char* name : metrics::names) {
      const size_t at = static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
      row.push_back(at < fields.size() ? fields[at] : "");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

RunResult read_result(const std::string& directory, bool timed) {
  RunResult r;
  const Curves curves = read_curves(r, directory);
  if (const auto history = read_history(directory); !history.empty()) r.trained_by = history.back();
  if (const auto outcome = read_outcome(directory)) {
    r.unigram = outcome->unigram;
    if (outcome->floor > 0) r.floor = outcome->floor;
    r.parameters = outcome->parameters;
    r.pairs = outcome->pairs;
    r.flops = outcome->flops;
    if (outcome->finished) {
      read_end(r, curves, *outcome);
      r.state = state_of(r);
      if (r.state == RunState::diverged) r.stopped_at = high_from(curves, divergence_limit(r));
    } else {
      r.state = RunState::diverged;
      r.stopped_at = outcome->step;
      r.first_tensor = outcome->tensor;
    }
  }
  if (timed) return r;
  r.seconds = r.tokens_per_second = RunResult::kUnknown;
  r.at_second.assign(r.at_step.size(), RunResult::kUnknown);
  return r;
}
