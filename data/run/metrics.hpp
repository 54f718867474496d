#pragma once
// metrics.csv: one row per step.

#include <cstdint>
#include <limits>
#include <string>

#include "data/host/files.hpp"

// metrics.csv, column by column.
namespace metrics {
enum Column {
  step, tokens, elapsed_s, train_loss, val_loss, val_bpb, lr, grad_norm, clipped, step_ms, tokens_per_second,
  val_loss_full, columns
};
inline constexpr const char* names[columns] = {"step", "tokens", "elapsed_s", "train_loss", "val_loss", "val_bpb", "lr",
                                               "grad_norm", "clipped", "step_ms", "tokens_per_second", "val_loss_full"};
}  // namespace metrics

// One line of it.
struct MetricsRow {
  int64_t step = 0, tokens = 0;
  double elapsed_s = 0, train_loss = 0;
  double val_loss = std::numeric_limits<double>::quiet_NaN(), val_bpb = std::numeric_limits<double>::quiet_NaN();
  double lr = 0, grad_norm = 0;
  bool clipped = false;
  double step_ms = 0, tokens_per_second = 0;
  double val_loss_full = std::numeric_limits<double>::quiet_NaN();  // whole validation split, at the last step
};

// The row as a line of metrics.csv, without its end.
std::string csv_line(const MetricsRow& row);

// metrics.csv, written line by line. When a run is resumed, lines past `last_step` are dropped, and the line of
// `last_step` itself is `unwritten` if the file lacks it.
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
