#pragma once
// The run directory: config.toml, metrics.csv, checkpoint.bin, best.bin, and outcome.json when the run is over.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/host/files.hpp"
#include "data/options/options.hpp"

// In a run's directory: the newest state, and the weights of the lowest validation loss so far.
inline constexpr const char* kLastCheckpoint = "checkpoint.bin";
inline constexpr const char* kBestCheckpoint = "best.bin";

// "runs/0002-pre-layernorm": one more than the highest number there is.
std::string next_run_directory(const std::string& name);

// Makes `directory` and locks it; "" becomes the next run directory of that name, which no other process gets.
DirectoryLock claim_directory(std::string& directory, const std::string& name);

// What a person means by a checkpoint: the file itself, a run's best.bin or else its checkpoint.bin, and for "" the
// newest run below runs/: that which saved its state last. Throws std::runtime_error if there is none.
std::string find_checkpoint(const std::string& file_or_run);

// The path of a checkpoint for a message. If the user asked for none, it says that this is the newest run, and whether
// that is still training or stopped early.
std::string name_of_checkpoint(const std::string& asked, const std::string& path);

// Throws std::runtime_error if the directory already holds a run, unless `replace` is set: then it removes the run.
void prepare_run_directory(const std::string& directory, bool replace);
void write_config(const std::string& directory, const TrainOptions& in_force, const TrainOptions& given);

// How a training process says that its numbers stopped being finite.
inline constexpr int kExitDiverged = 3;

// Thrown where they do.
struct Diverged {
  int64_t step;
  std::string what, tensor;  // "loss" or "gradient"; the first tensor with a NaN or an infinity, "" where there is none
  bool exploded = false;     // finite, but too large to be of use

  std::string message() const {
    const std::string subject = "step " + std::to_string(step) + ": the " + what;
    if (exploded) return subject + " has exploded: it is more than ten times that of uniform guessing";
    return subject + " is not finite; " +
           (tensor.empty() ? "every tensor is: their sum overflowed"
                           : "the first tensor with a NaN or an infinity is " + tensor);
  }
};

// How a run ended. outcome.json is there once it did, and not while it can go on.
struct RunOutcome {
  bool finished = false;  // else its numbers stopped being finite
  int64_t step = 0;       // steps done, or the one that failed
  std::string what;       // what was not finite: "loss", "gradient"
  std::string tensor;     // the first tensor with a NaN or an infinity, where there is one
  size_t parameters = 0;
  double unigram = 0, floor = 0;  // nats a token, of the text; floor 0: not known
  uint64_t data_fingerprint = 0;  // of its tokens
  double val_loss_full = std::numeric_limits<double>::quiet_NaN();  // on the whole validation split, if measured
  bool measured = true;           // false if the measurement at the end was stopped; --resume repeats it
};
void write_outcome(const std::string& directory, const RunOutcome& outcome);
std::optional<RunOutcome> read_outcome(const std::string& directory);  // none where the run is not over
void remove_outcome(const std::string& directory);

// Appends a sample to samples.txt, which `make report` shows. A resumed run may repeat a step: the last one counts.
void keep_sample(const std::string& directory, int64_t step, const std::string& text);

// A number in a CSV file: nine significant digits, and nothing for NaN.
std::string csv_number(double x);

// The fields of a line of numbers and plain words, as metrics.csv and diagnostics.csv have them: nothing is quoted.
std::vector<std::string> csv_fields(const std::string& line);

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

// metrics.csv, written line by line. Lines past `last_step` are dropped when a run is resumed.
class Metrics {
 public:
  Metrics(const std::string& directory, int64_t last_step);
  void write(const MetricsRow& row);
  void replace_last(const MetricsRow& row);
  const MetricsRow& last() const { return last_; }  // step 0 if there is none

 private:
  std::string path_;
  MetricsRow last_;
  GrowingFile file_;
};
