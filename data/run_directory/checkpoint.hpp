#pragma once
// Checkpoints: everything needed to resume a run, in one safetensors file that is either complete or absent. README.md
// states the layout.

#include <future>
#include <string>

#include "checkpoint_file.hpp"
#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"

// "ffn.up.weight (32, 8)", for errors.
std::string described(const TensorSpec& tensor);

// Throws std::runtime_error (full disk, no permission, a header of more than 100 MB). An older file survives then.
void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const Buffer* state);

// The same on another thread, from a copy of the numbers, which is freed when it is written. get() of the result waits
// and throws. The result is not valid if there is no memory for the copy: then nothing has happened. Where the system
// does not say how much memory is free, half of all counts. The file is written once `after` is done; if that throws,
// it is not written, and get() throws the same.
std::shared_future<void> save_checkpoint_later(const std::string& path, const CheckpointHeader& header,
                                               const Model& model, const Buffer* state,
                                               const std::shared_future<void>& after = {});

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

// Reads the weights, and the optimizer's state if `state` is given, into a model with tensors of the same names,
// shapes and optimizers. Otherwise throws std::runtime_error naming the first tensor that differs.
void load_checkpoint(const std::string& path, Model& model, Buffer* state);
