#pragma once
// The CSV files of a run, and metrics.csv: one row per step.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/files/files.hpp"

// Writes a number for a CSV file: nine significant digits, nothing for NaN.
std::string csv_number(double x);

// Splits a line of numbers and plain words, as in metrics.csv and diagnostics.csv. Fields are never quoted.
std::vector<std::string> csv_fields(const std::string& line);

// Reads the header and the rows of `path` up to step `last_step`, in `columns`; the first column is the step. `words`
// are the columns without numbers. If `once`, each step has one row.
struct CsvRows {
  std::string text;
  std::vector<size_t> dropped;  // numbers of the unreadable lines, from 1 on, without an incomplete last one
};
CsvRows csv_up_to(const std::string& path, const std::vector<std::string>& columns, int64_t last_step,
                  const std::vector<std::string>& words, bool once);

// Reports the dropped rows on standard error, and returns the others.
std::string readable_rows(const std::string& path, CsvRows rows);

// The columns of metrics.csv.
namespace metrics {
enum Column {
  step, tokens, elapsed_s, train_loss, val_loss, val_bpb, lr, grad_norm, clipped, step_ms, tokens_per_second,
  val_loss_full, columns
};
inline constexpr const char* names[columns] = {"step", "tokens", "elapsed_s", "train_loss", "val_loss", "val_bpb", "lr",
                                               "grad_norm", "clipped", "step_ms", "tokens_per_second", "val_loss_full"};
}  // namespace metrics

// One row of metrics.csv. NaN is an empty field.
struct MetricsRow {
  int64_t step = 0, tokens = 0;
  double elapsed_s = 0, train_loss = 0;
  double val_loss = std::numeric_limits<double>::quiet_NaN(), val_bpb = std::numeric_limits<double>::quiet_NaN();
  double lr = 0, grad_norm = 0;
  bool clipped = false;
  double step_ms = 0, tokens_per_second = 0;
  double val_loss_full = std::numeric_limits<double>::quiet_NaN();  // on the whole validation split, at the last step
};

// Returns the row of this step from a metrics.csv; one of step 0 if it or the file is not there.
MetricsRow row_of_step(const std::string& path, int64_t step);

// Returns the row as a line of metrics.csv, without '\n'.
std::string csv_line(const MetricsRow& row);

// Writes metrics.csv line by line, and with --json the event of each step. A resumed run drops the lines after
// `last_step`. If the file lacks the line of `last_step`, adds `unwritten`.
class Metrics {
 public:
  Metrics(const std::string& directory, int64_t last_step, const std::string& unwritten = "");
  void write(const MetricsRow& row);
  void replace_last(const MetricsRow& row);
  const MetricsRow& last() const { return last_; }  // step 0 if there is none

 private:
  std::string path_;
  MetricsRow last_;
  GrowingFile file_;
};
