#pragma once
// Fine-tuning: takes the weights of a model whose norms may differ, and chooses what the user leaves open.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "layers/model/model.hpp"

// How the tensors of a model fit stored ones of the same names.
struct Match {
  std::vector<TensorSpec> equal;    // have the shape of the stored one
  std::vector<TensorSpec> cut;      // learned positions: the first rows of the stored ones
  std::vector<TensorSpec> lacking;  // are not stored: norms and adapters
  std::string note;                 // a line about norms; "" if they are the same
};

// Matches the tables of a model and of a file. The tensors of norms may differ, and the model may have adapters more.
// Throws std::runtime_error that names `path` if another tensor differs.
Match match_tensors(const std::vector<TensorSpec>& model, const std::vector<TensorSpec>& stored,
                    const std::string& path);

// Fills the weights of a model from a checkpoint or a model of another program, by match_tensors(). Draws what the file
// lacks from the seed, as initialize() does. Merges adapters that the model does not have. Returns the note.
std::string start_from(Model& model, const std::string& checkpoint, uint64_t seed);

// Returns the peak learning rate for fine-tuning a model of this width, or its adapters if it has any. README.md has
// the measurements behind it.
double fine_tuning_rate(const Config& config);

// Returns the longest context with which a run's steps take at most half of this memory: the model's, or a half, a
// quarter, ... of it; 0 stands for an unknown amount. The run's Config is resolved.
int fitting_context(const TrainOptions& options, size_t memory);
