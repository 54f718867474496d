#pragma once
// Checkpoints: everything needed to resume a run, in one safetensors file that is either complete or absent. README.md
// states the layout.

#include <future>
#include <optional>
#include <string>

#include "checkpoint_file.hpp"
#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"

// "ffn.up.weight (32, 8)", for errors.
std::string described(const TensorSpec& tensor);

// Throws std::runtime_error (full disk, no permission, a header of more than 100 MB), and then keeps an older file.
void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const Buffer* state);

// Does the same on another thread, from a copy of the numbers that training changes, which is freed after writing. The
// model must stay where it is until then. get() of the result waits and throws. If there is no memory for the copy,
// does nothing and returns an invalid result; if the system does not tell how much memory is free, assumes that half of
// all memory is. Writes the file once `after` is done. If `after` throws, does not write the file, and get() throws the
// same.
std::shared_future<void> save_checkpoint_later(const std::string& path, const CheckpointHeader& header,
                                               const Model& model, const Buffer* state,
                                               const std::shared_future<void>& after = {});

// Reads the header. Throws std::runtime_error if the file is not a checkpoint, has another version, or is truncated or
// corrupted. The header's fields agree with each other and with the file's size. verify_checkpoint() also reads the
// weights and compares the checksum.
CheckpointHeader read_checkpoint_header(const std::string& path);
CheckpointHeader verify_checkpoint(const std::string& path);

// Returns a note for the user if a model came with a chat template that is none of ours; otherwise "".
std::string note_on_chat(const CheckpointHeader& header);

// A trained model, with weights but without gradients.
struct TrainedModel {
  std::string path;
  CheckpointHeader header;
  Model model;
};

// Its matrices consist of such numbers, or, if `matrices` is open, of those that the file has. Throws
// std::invalid_argument if they must be floats.
TrainedModel load_trained_model(const std::string& path, std::optional<NumberType> matrices = NumberType::fp32);

// Loads adapters of peft on a base: both are folders.
TrainedModel load_adapted_model(const std::string& adapters, const std::string& base);

// The weights of a checkpoint, or of a model of another program.
class StoredWeights {
 public:
  explicit StoredWeights(const std::string& path);  // reads the header; throws like read_checkpoint_header()
  const Config& config() const;
  const std::vector<TensorSpec>& table() const { return table_; }
  // Reads all tensors of the table, each to its place. Throws std::runtime_error if a number is not finite.
  void read(const TensorPlaces& to) const;

 private:
  std::string path_;
  std::unique_ptr<ForeignModel> foreign_;  // null for a checkpoint
  CheckpointFile own_;
  std::vector<TensorSpec> table_;
};

// Reads the weights, and the optimizer's state if `state` is given, into a model with tensors of the same names,
// shapes and optimizers. Otherwise throws std::runtime_error that names the first tensor that differs.
void load_checkpoint(const std::string& path, Model& model, Buffer* state);
