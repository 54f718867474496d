#pragma once
// The run directory: config.toml, metrics.csv, checkpoint.safetensors, best.safetensors, and outcome.json after the
// run.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/files/files.hpp"
#include "data/files/paths.hpp"

// The files with the newest state, and with the weights of the lowest validation loss so far.
inline constexpr const char* kLastCheckpoint = "checkpoint.safetensors";
inline constexpr const char* kBestCheckpoint = "best.safetensors";
inline constexpr const char *kMetrics = "metrics.csv", *kDiagnostics = "diagnostics.csv";

// Returns the path of the newest state in a directory, whether it exists or not.
std::string last_checkpoint(const std::string& directory);

bool has_checkpoint(const std::string& directory);

// Returns a path such as "runs/0002-pre-layernorm"; the number is one more than the highest in use.
std::string next_run_directory(const std::string& name);

// Creates `directory` and locks it. If it is "", it becomes the next run directory of that name, which no other process
// gets.
DirectoryLock claim_directory(std::string& directory, const std::string& name,
                              DirectoryLock::Kind kind = DirectoryLock::Kind::alone);

// Returns the checkpoint of the run in runs/ that saved its state last; "" if there is none.
std::string newest_checkpoint();

// Finds the checkpoint that the user names: a file, a run's best.safetensors or else its checkpoint.safetensors, or a
// folder of Hugging Face. For "", takes newest_checkpoint(). Throws std::runtime_error if there is none.
std::string find_checkpoint(const std::string& file_or_run);

// Throws std::runtime_error for a model in a file that train_gpt does not read, such as a GGUF file, or a folder that
// has only such files.
void refuse_foreign_model(const std::string& path);

// Returns the path of a checkpoint for a message. If the user named none, adds that this is the newest run, and whether
// it is still training or stopped early.
std::string name_of_checkpoint(const std::string& asked, const std::string& path);

// Throws std::runtime_error if the directory already holds a run, unless `replace` is set: then returns its files.
// `resumed` allows files that this command has read, because --resume began with a run that has no checkpoint yet.
std::vector<std::string> replaced_run(const std::string& directory, bool replace, bool resumed = false);

// Does the same, and removes the files.
void prepare_run_directory(const std::string& directory, bool replace, bool resumed = false);

// Throws std::runtime_error if a file that a run writes is a link, a pipe or a device.
void check_run_directory(const std::string& directory);

// Removes the files of a run, and the directory if nothing else is in it.
void remove_run(const std::string& directory);

// Appends a sample to samples.txt, which `make report` shows. A resumed run may repeat a step: the last sample counts.
void keep_sample(const std::string& directory, int64_t step, const std::string& text);

// ---- outcome.json ----------------------------------------------------------------------------------------

// The exit code of a training run whose numbers stopped being finite.
inline constexpr int kExitDiverged = 3;

// How a run ended. outcome.json exists only after the end of a run, not while it can continue.
struct RunOutcome {
  bool finished = false;  // false: its numbers stopped being finite
  bool early = false;     // finished before its last step, because of --patience
  int64_t step = 0;       // steps done, or the step that failed
  std::string what;       // what was not finite: "loss", "gradient"
  std::string tensor;     // the first tensor with a NaN or an infinity, if there is one
  size_t parameters = 0;
  double unigram = 0, floor = 0;  // nats per token of the text; floor 0 is unknown (null in the file)
  uint64_t data_fingerprint = 0;  // hash of the tokens; text in the file, because JSON's numbers end at 2^53
  double val_loss_full = std::numeric_limits<double>::quiet_NaN();  // on the whole validation split, if measured
  bool measured = true;  // false: the final validation was interrupted, and --resume repeats it
  double pairs = std::numeric_limits<double>::quiet_NaN();  // share of --eval-pairs that is right, if measured
  double flops = std::numeric_limits<double>::quiet_NaN();  // of the steps, as layers/model/size.hpp counts
  std::vector<std::string> inputs = {};  // in a comparison's run: hashes of what it has read
};
void write_outcome(const std::string& directory, const RunOutcome& outcome);  // with --json also prints the event `end`
std::optional<RunOutcome> read_outcome(const std::string& directory);  // nothing if the run is not over
void remove_outcome(const std::string& directory);
