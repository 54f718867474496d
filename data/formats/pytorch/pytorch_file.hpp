#pragma once
// Reads the weights that torch.save() wrote: pytorch_model.bin, or several such files and pytorch_model.bin.index.json,
// which lists them. The file is a zip: NAME/data.pkl describes the tensors, NAME/data/0 and so on hold their numbers.

#include <string>

#include "data/formats/foreign_tensors.hpp"

// True for a folder with such weights.
bool has_pytorch_weights(const std::string& folder);

// Opening checks every tensor against the size of its storage. Throws std::runtime_error in one line that names the
// file.
HeldTensors read_pytorch_file(const std::string& path);
HeldTensors read_pytorch_folder(const std::string& folder);
