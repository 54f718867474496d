#include "tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/run/csv.hpp"
#include "data/run/metrics.hpp"

namespace {

// ---- CSV -------------------------------------------------------------------------------------------------

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string field(double x) { return csv_number(x); }
std::string field(int64_t n) { return std::to_string(n); }

// A file whose rows are lists of fields.
class Csv {
 public:
  explicit Csv(const std::string& path) : file_(path) {}
  void row(const std::vector<std::string>& fields) {
    std::string line;
    for (const std::string& text : fields) line += (&text == &fields[0] ? "" : ",") + field(text);
    file_.write(line + "\n");
  }
  void publish() {
    file_.finish();
    file_.publish();
  }

 private:
  WholeFile file_;
};

using Fields = std::vector<std::string>;

Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// metrics.csv has a column `lr`, the rate of the step; the option is the highest of a run.
std::string column_of(const std::string& key) { return key == "lr" ? "peak_lr" : key; }

Fields split(const std::string& text) {
  Fields fields;
  std::istringstream in(text);
  for (std::string one; in >> one;) fields.push_back(one);
  return fields;
}

Fields key_columns(const Comparison& c) {
  Fields columns;
  for (const std::string& key : c.grid.keys) columns.push_back(column_of(key));
  return columns;
}

Fields tuned_column(const Comparison& c) { return c.tuned_key.empty() ? Fields{} : Fields{column_of(c.tuned_key)}; }

Fields key_fields(const Comparison& c, size_t cell) {
  Fields fields;
  for (const std::string& key : c.grid.keys) fields.push_back(c.grid.cells[cell].value(key));
  return fields;
}

// The columns that say which run a row belongs to.
Fields run_columns(const Comparison& c) {
  return Fields{"cell", "stage"} + key_columns(c) + Fields{"seed"} + tuned_column(c);
}

Fields run_fields(const Comparison& c, const PlannedRun& p) {
  Fields fields = {c.grid.cells[p.cell].name, p.stage == Stage::tune ? "tune" : "final"};
  fields = fields + key_fields(c, p.cell) + Fields{p.seed};
  if (!c.tuned_key.empty()) fields.push_back(p.tuned ? option_text(*p.tuned) : "");
  return fields;
}

void write_curves(const Comparison& c, const std::string& directory) {
  Csv csv(directory + "/curves.csv");
  csv.row(run_columns(c) + Fields(std::begin(metrics::names), std::end(metrics::names)));
  for (const FinishedRun& run : c.runs) {
    const Fields of_run = run_fields(c, run.plan);
    for (Fields row : read_metrics(directory + "/" + run.plan.directory)) {
      for (const auto time : {metrics::elapsed_s, metrics::step_ms, metrics::tokens_per_second})
        if (!c.timed) row[time].clear();
      csv.row(of_run + row);
    }
  }
  csv.publish();
}

void write_runs(const Comparison& c, const std::string& directory) {
  Csv csv(directory + "/runs.csv");
  csv.row(run_columns(c) + split("state stopped_at first_tensor initial_loss final_val best_val best_step final_train steps "
                                 "tokens seconds tokens_per_second loss_spikes grad_spikes clipped steps_to_target "
                                 "seconds_to_target parameters unigram floor directory command"));
  for (const FinishedRun& run : c.runs) {
    const RunResult& r = run.result;
    csv.row(run_fields(c, run.plan) +
            Fields{name_of(r.state), r.stopped_at > 0 ? field(r.stopped_at) : "", r.first_tensor, field(r.initial_loss),
                   field(r.final_loss), field(r.best_loss), field(r.best_step), field(r.final_train), field(r.steps),
                   field(r.tokens), field(r.seconds), field(r.tokens_per_second), field(r.loss_spikes),
                   field(r.grad_spikes), field(r.clipped), field(first_at_or_below(c.target, r.at_step, r.val_loss)),
                   field(first_at_or_below(c.target, r.at_second, r.val_loss)), field(int64_t(r.parameters)),
                   field(r.unigram), field(r.floor), run.plan.directory, run.command});
  }
  csv.publish();
}

void write_summary(const Comparison& c, const std::string& directory) {
  Csv csv(directory + "/summary.csv");
  csv.row(Fields{"cell"} + key_columns(c) + tuned_column(c) +
          split("at_edge n finished diverged stuck failed mean sd ci best difference difference_ci verdict target "
                "steps_to_target seconds_to_target seconds tokens_per_second loss_spikes grad_spikes clipped parameters "
                "lr_sensitivity"));
  for (size_t i = 0; i < c.cells.size(); ++i) {
    const CellSummary& s = c.cells[i];
    const Fields tuned = c.tuned_key.empty() ? Fields{} : Fields{std::isnan(s.tuned) ? "" : option_text(s.tuned)};
    csv.row(Fields{c.grid.cells[i].name} + key_fields(c, i) + tuned +
            Fields{s.at_edge ? "1" : "", field(int64_t(s.runs)), field(int64_t(s.count[0])), field(int64_t(s.count[1])),
                   field(int64_t(s.count[2])), field(int64_t(s.count[3])), field(s.loss.mean), field(s.loss.sd),
                   field(s.loss.half_width), field(s.best), field(s.difference.mean), field(s.difference.half_width),
                   s.verdict, field(c.target), field(s.steps_to_target), field(s.seconds_to_target), field(s.seconds),
                   field(s.tokens_per_second), field(s.loss_spikes), field(s.grad_spikes), field(s.clipped),
                   field(int64_t(s.parameters)), field(s.lr_sensitivity)});
  }
  csv.publish();
}

// The rows of all runs' diagnostics.csv, if any has one.
void write_diagnostics(const Comparison& c, const std::string& directory) {
  const auto path_of = [&](const FinishedRun& run) { return directory + "/" + run.plan.directory + "/diagnostics.csv"; };
  bool any = false;
  for (const FinishedRun& run : c.runs) any |= run.plan.stage == Stage::final && std::filesystem::exists(path_of(run));
  if (!any) return;
  Csv csv(directory + "/diagnostics.csv");
  csv.row(run_columns(c) + split("step layer part what value"));
  for (const FinishedRun& run : c.runs) {
    if (run.plan.stage != Stage::final || !std::filesystem::exists(path_of(run))) continue;
    const Fields of_run = run_fields(c, run.plan);
    std::istringstream file(read_file(path_of(run)));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) csv.row(of_run + csv_fields(line));
  }
  csv.publish();
}

// ---- the terminal ----------------------------------------------------------------------------------------

std::string shown(double x, const char* how) { return std::isnan(x) ? "" : format(how, x); }
std::string with_error(double x, double half_width, const char* how) {
  if (std::isnan(x)) return "";
  return format(how, x) + (std::isnan(half_width) ? "" : format(" ± %.4f", half_width));
}

std::string state_of(const CellSummary& s) {
  std::string text = std::to_string(s.count[0]) + "/" + std::to_string(s.runs) + " finished";
  for (const RunState state : {RunState::diverged, RunState::stuck, RunState::failed})
    if (const int n = s.count[static_cast<int>(state)]) text += ", " + std::to_string(n) + " " + name_of(state);
  return text;
}

// Columns as wide as their longest text; the first to the left, the others to the right.
void print_aligned(const std::vector<Fields>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Fields& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  for (const Fields& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;  // nothing in the whole column
      const std::string space(widths[i] - columns_of(row[i]), ' ');
      line += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    std::puts(line.c_str());
  }
}

void print_failures(const Comparison& c) {
  for (const FinishedRun& run : c.runs) {
    const RunResult& r = run.result;
    if (run.plan.stage != Stage::final || r.state == RunState::finished) continue;
    std::string text = run.plan.label + ": " + name_of(r.state);
    if (r.state == RunState::diverged) text += (r.first_tensor.empty() ? " from step " : " at step ") + std::to_string(r.stopped_at);
    if (!r.first_tensor.empty()) text += ", first in " + r.first_tensor;
    if (r.state == RunState::stuck) text += format(" at %.4f", r.final_loss) + format(", the unigram entropy being %.4f", r.unigram);
    if (r.state == RunState::failed) text += ", see " + run.plan.directory + "/log.txt";
    std::puts(text.c_str());
  }
}

}  // namespace

std::string unequal_tokens(const Comparison& c) {
  if (c.fewest_tokens == c.most_tokens) return "";
  return format("runs train on %.0f to ", c.fewest_tokens) + format("%.0f tokens: ", c.most_tokens) +
         "to give all the same, name steps too, e.g. --grid batch=4 steps=400 + batch=8 steps=200";
}

namespace {

// The meaning of the columns. `means`: a cell has several seeds; `edge`: a rate is marked with a star.
void print_legend(const Comparison& c, bool means, bool edge) {
  std::printf("final val   loss on the whole validation split, nats per token%s\n",
              means ? "; mean over the seeds ± the half width of its 95 % t interval" : "");
  std::printf("best        lowest validation loss during training, on --eval-batches batches\n");
  if (c.cells.size() > 1)
    std::printf("difference  to %s, of pairs with the same seed; \"not distinguishable\": its interval holds 0%s\n",
                c.grid.cells[c.baseline].name.c_str(), means ? "" : " or, with one seed, is not known");
  if (c.cells.size() > 2)
    std::printf("            not corrected for the number of cells: of twenty equal ones, one is expected to look different\n");
  if (c.cells.size() > 1 && c.cells[c.baseline].count[0] < c.cells[c.baseline].runs)
    std::printf("            none is given where not every seed of the baseline finished; --baseline names another\n");
  if (!std::isnan(c.target)) std::printf("to %.3f    steps until the validation loss is down to that\n", c.target);
  if (const std::string text = unequal_tokens(c); !text.empty()) std::printf("unequal     %s\n", text.c_str());
  if (edge) std::printf("*           the lowest or the highest of the values tried: the best may lie beyond\n");
}

}  // namespace

void write_tables(const Comparison& c, const std::string& directory) {
  write_curves(c, directory);
  write_runs(c, directory);
  write_diagnostics(c, directory);
  write_summary(c, directory);
}

void print_table(const Comparison& c) {
  bool edge = false, means = false;
  Fields header = c.grid.keys.empty() ? Fields{"cell"} : c.grid.keys;
  header = header + Fields{c.tuned_key, "final val", "best", "difference", "", "to " + shown(c.target, "%.3f"), "seconds",
                           "tokens/s", "spikes", "clipped", "sensitivity"};
  std::vector<Fields> rows = {header};
  for (size_t i = 0; i < c.cells.size(); ++i) {
    const CellSummary& s = c.cells[i];
    edge |= s.at_edge, means |= !std::isnan(s.loss.half_width);
    const std::string loss = with_error(s.loss.mean, s.loss.half_width, "%.4f");
    rows.push_back((c.grid.keys.empty() ? Fields{c.grid.cells[i].name} : key_fields(c, i)) +
                   Fields{std::isnan(s.tuned) ? "" : option_text(s.tuned) + (s.at_edge ? "*" : ""),
                          loss.empty() ? state_of(s) : loss, shown(s.best, "%.4f"),
                          with_error(s.difference.mean, s.difference.half_width, "%+.4f"), s.verdict,
                          shown(s.steps_to_target, "%.0f"), shown(s.seconds, "%.1f"), shown(s.tokens_per_second, "%.0f"),
                          shown(100 * s.loss_spikes, "%.1f%%"), shown(100 * s.clipped, "%.0f%%"),
                          shown(s.lr_sensitivity, "%.3f")});
  }
  std::puts("");
  print_aligned(rows);
  std::puts("");
  print_failures(c);
  print_legend(c, means, edge);
}
