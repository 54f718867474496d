#include "result.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "../files.hpp"
#include "../run.hpp"
#include "statistics.hpp"

namespace {

double number(const std::string& field) {
  return field.empty() ? RunResult::kUnknown : std::strtod(field.c_str(), nullptr);
}

double mean(const std::vector<double>& x) { return estimate(x).mean; }

// The curves of a run, and what can be read off them.
void read_curves(RunResult& r, const std::string& directory) {
  std::vector<double> loss, norm, clipped;
  double full = RunResult::kUnknown;
  r.seconds = 0;
  for (const auto& row : read_metrics(directory)) {
    r.steps = number(row[metrics::step]), r.tokens = number(row[metrics::tokens]), r.seconds = number(row[metrics::elapsed_s]);
    loss.push_back(number(row[metrics::train_loss]));
    norm.push_back(number(row[metrics::grad_norm]));
    clipped.push_back(number(row[metrics::clipped]));
    full = number(row[metrics::val_loss_full]);
    if (row[metrics::val_loss].empty()) continue;
    r.at_step.push_back(r.steps), r.at_second.push_back(r.seconds), r.val_loss.push_back(number(row[metrics::val_loss]));
    if (r.val_loss.back() < r.best_loss || std::isnan(r.best_loss)) r.best_loss = r.val_loss.back(), r.best_step = r.steps;
  }
  if (loss.empty()) return;
  r.initial_loss = loss.front();
  r.final_train = loss.back();
  r.final_loss = !std::isnan(full) ? full
                 : !r.val_loss.empty() && r.at_step.back() == r.steps ? r.val_loss.back() : r.final_train;
  r.loss_spikes = share_of_spikes(loss), r.grad_spikes = share_of_spikes(norm), r.clipped = mean(clipped);
  for (size_t i = 0; i < loss.size(); ++i)
    if (loss[i] <= r.initial_loss) r.stopped_at = static_cast<int64_t>(i) + 2;  // the step behind the last good one
}

State state_of(const RunResult& r, bool outcome_finished) {
  if (!outcome_finished || !(r.final_loss <= r.initial_loss)) return State::diverged;
  return std::abs(r.final_loss - r.unigram) <= kStuckWithin ? State::stuck : State::finished;
}

}  // namespace

const char* name_of(State state) {
  constexpr const char* kNames[] = {"finished", "diverged", "stuck", "failed"};
  return kNames[static_cast<int>(state)];
}

std::vector<std::vector<std::string>> read_metrics(const std::string& directory) {
  std::vector<std::vector<std::string>> rows;
  const std::string path = directory + "/metrics.csv";
  if (!std::filesystem::exists(path)) return rows;
  std::istringstream file(read_file(path));
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> fields = csv_fields(line);
    if (fields.size() == metrics::val_loss_full) fields.emplace_back();  // of a file without that column
    if (fields.size() == metrics::columns) rows.push_back(std::move(fields));
  }
  return rows;
}

RunResult read_result(const std::string& directory, bool timed) {
  RunResult r;
  read_curves(r, directory);
  const auto outcome = read_outcome(directory);
  if (outcome) {
    r.unigram = outcome->unigram;
    if (outcome->floor > 0) r.floor = outcome->floor;
    r.parameters = outcome->parameters;
    r.state = state_of(r, outcome->finished);
    if (!outcome->finished) r.stopped_at = outcome->step, r.first_tensor = outcome->tensor;
  }
  if (!outcome || !outcome->finished) r.final_loss = RunResult::kUnknown;  // what stands last is not where it would end
  if (r.state != State::diverged) r.stopped_at = 0;
  r.tokens_per_second = r.tokens / r.seconds;
  if (!timed) r.seconds = r.tokens_per_second = RunResult::kUnknown, r.at_second.assign(r.at_step.size(), RunResult::kUnknown);
  return r;
}
