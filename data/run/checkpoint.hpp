#pragma once
// Checkpoints: everything a run needs to go on, in one file that is either whole or not there.
//
//   "TRAINGPT"  u32 version  u32 length of the header
//   header      JSON, padded with spaces to a multiple of 64 bytes: settings, table of tensors, tokenizer, step, ...
//   weights     float32; each tensor lies where the table says. Behind them the optimizer's state, if there is any
//   checksum    u64 over everything before it
// All little-endian. Version 1 held the settings as TOML, under "options".

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"
#include "data/options/options.hpp"
#include "data/text/tokenizer.hpp"

// A tensor of the file: `offset` floats behind the beginning of the weights, and of each of the moments.
struct StoredTensor {
  std::string name;
  std::vector<int> shape;
  size_t offset, size;
};

struct CheckpointHeader {
  TrainOptions options;  // with a resolved Config
  Tokenizer tokenizer;
  int64_t step = 0;  // steps done
  double elapsed = 0;                // seconds of training so far
  double val_loss = std::numeric_limits<double>::quiet_NaN();   // at this step, nats a token
  double best_loss = std::numeric_limits<double>::infinity();   // the best so far
  int64_t best_step = 0;
  std::string unwritten_row;  // this step's line of metrics.csv, if it could not be written there
  uint64_t data_fingerprint = 0;
  bool optimizer = false;  // its state is in the file
  std::vector<StoredTensor> table;  // by offset; tensors do not overlap
  size_t floats = 0;
};

// Throws std::runtime_error (full disk, no permission); the file that was there before survives.
void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const OptimizerState* state);

// Throws std::runtime_error for what is no checkpoint, of another version, truncated or corrupted. Everything in the
// header has been checked against the rest of it and the size of the file; verify_checkpoint reads the weights too and
// checks the sum.
CheckpointHeader read_checkpoint_header(const std::string& path);
CheckpointHeader verify_checkpoint(const std::string& path);

// A trained model for use: weights, no gradients.
struct TrainedModel {
  std::string path;
  CheckpointHeader header;
  Model model;
};
TrainedModel load_trained_model(const std::string& path);

// Reads the weights, and the optimizer's state if `state` is given, into a model with tensors of the same names and
// shapes. Throws std::runtime_error naming the first tensor that differs, with what was expected and what was found.
void load_checkpoint(const std::string& path, Model& model, OptimizerState* state);
