#pragma once
// The run directory: config.toml, metrics.csv, checkpoint.bin, best.bin, and outcome.json when the run is over.

#include <cstdint>
#include <string>

#include "data/host/files.hpp"
#include "data/options/options.hpp"

// In a run's directory: the newest state, and the weights of the lowest validation loss so far.
inline constexpr const char* kLastCheckpoint = "checkpoint.bin";
inline constexpr const char* kBestCheckpoint = "best.bin";

// "runs/0002-pre-layernorm": one more than the highest number there is.
std::string next_run_directory(const std::string& name);

// Makes `directory` and locks it; "" becomes the next run directory of that name, which no other process gets.
DirectoryLock claim_directory(std::string& directory, const std::string& name);

// Finds the checkpoint that the user names: the file itself, a run's best.bin or else its checkpoint.bin, and for
// "" the run below runs/ that saved its state last. Throws std::runtime_error if there is none.
std::string find_checkpoint(const std::string& file_or_run);

// The path of a checkpoint for a message. If the user asked for none, it says that this is the newest run, and whether
// that is still training or stopped early.
std::string name_of_checkpoint(const std::string& asked, const std::string& path);

// Throws std::runtime_error if the directory already holds a run, unless `replace` is set: then it removes the run.
void prepare_run_directory(const std::string& directory, bool replace);
void write_config(const std::string& directory, const TrainOptions& in_force, const TrainOptions& given);

// Appends a sample to samples.txt, which `make report` shows. A resumed run may repeat a step: the last one counts.
void keep_sample(const std::string& directory, int64_t step, const std::string& text);
