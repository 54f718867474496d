#pragma once
// Checkpoints: everything needed to resume a run, in one file that is either complete or absent.
//
//   "TRAINGPT"  u32 version  u32 length of the header
//   header      JSON, padded with spaces to a multiple of 64 bytes: settings, table of tensors, tokenizer, step, ...
//   weights     float32; the table has the offset of each tensor
//   state       float32; the optimizer's buffers, laid out like the weights. best.bin has none
//   checksum    u64 over everything before it
// All numbers are little-endian. Version 1 held the settings as TOML, under "options".

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"

// The header of a checkpoint. A Hugging Face folder can be read in its place, as a model of step 0.
struct CheckpointHeader {
  TrainOptions options;  // with a resolved Config
  Tokenizer tokenizer;
  int64_t step = 0;    // steps done
  double elapsed = 0;  // seconds of training so far
  double val_loss = std::numeric_limits<double>::quiet_NaN();  // nats per token, at this step
  double best_loss = std::numeric_limits<double>::infinity();  // the lowest so far
  int64_t best_step = 0;
  std::string unwritten_row;  // this step's line of metrics.csv, if it could not be written there
  uint64_t data_fingerprint = 0;
  bool optimizer = false;         // the file has the optimizer's state
  std::vector<TensorSpec> table;  // with offsets in the file and in their order; tensors do not overlap
  size_t floats = 0;              // in the weights, and in each buffer of the optimizer
};

// "ffn.up.weight (32, 8)", for errors.
std::string described(const TensorSpec& tensor);

// Throws std::runtime_error (full disk, no permission). An older file survives then.
void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const OptimizerState* state);

// Reads the header. Throws std::runtime_error if the file is not a checkpoint, or is of another version, truncated or
// corrupted. The fields of the header agree with each other and with the size of the file. verify_checkpoint() reads
// the weights too and compares the checksum.
CheckpointHeader read_checkpoint_header(const std::string& path);
CheckpointHeader verify_checkpoint(const std::string& path);

// A trained model with weights and without gradients.
struct TrainedModel {
  std::string path;
  CheckpointHeader header;
  Model model;
};
TrainedModel load_trained_model(const std::string& path);

// Reads the weights, and the optimizer's state if `state` is given, into a model with tensors of the same names and
// shapes. Otherwise throws std::runtime_error naming the first tensor that differs.
void load_checkpoint(const std::string& path, Model& model, OptimizerState* state);
