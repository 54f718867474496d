#pragma once
// Where the numbers of tensors go that are read from a file.

#include <map>
#include <string>
#include <vector>

#include "layers/config/tensors.hpp"

// A tensor of ours in a buffer: FloatsToWrite(buffer, spec) takes its numbers.
struct TensorPlace {
  TensorSpec spec;
  float* buffer;
};
using TensorPlaces = std::map<std::string, TensorPlace>;  // by name

// Returns the places of all tensors of a table in its buffer.
TensorPlaces places_in(const std::vector<TensorSpec>& table, float* buffer);

// Returns the first tensor that contains a NaN or an infinity, or null.
const TensorSpec* first_non_finite(const TensorPlaces& places);
