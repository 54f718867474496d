#pragma once
// Converts our tensors to the tensors of another program's model class and back, by its row in the table of
// architectures.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/formats/huggingface/architectures.hpp"
#include "data/formats/tensor_places.hpp"
#include "layers/model/model.hpp"

// One of their tensors. It is made of several of ours, stacked, or of one of ours with its rows or its columns in
// another order.
struct ForeignTensor {
  struct Source {
    TensorSpec spec;  // ours
    ForeignRow foreign_row, foreign_column = nullptr;
    size_t first = 0;  // its first row in theirs
  };
  std::vector<Source> sources;
  size_t rows = 0, columns = 1;
  bool transposed = false, vector = false, one_row = false;
  size_t experts = 0;  // the number of those that it joins, each with a matrix or a vector; 0: it is of one module

  size_t height() const { return experts > 0 ? rows / experts : rows; }  // rows of one
  std::vector<uint64_t> shape() const {
    std::vector<uint64_t> dimensions = {height()};
    if (one_row) dimensions.insert(dimensions.begin(), 1);
    if (!vector) dimensions.insert(transposed ? dimensions.begin() : dimensions.end(), columns);
    if (experts > 0) dimensions.insert(dimensions.begin(), experts);
    return dimensions;
  }

  // Calls f(index of theirs, index of ours) for each element.
  template <class F>
  void for_each(const Source& source, const Config& config, F f) const {
    const size_t count = source.spec.shape[0];
    for (size_t r = 0; r < count; ++r) {
      const size_t row = source.first + (source.foreign_row ? source.foreign_row(r, config) : r);
      const size_t of_others = row / height() * height() * columns;  // the elements of the experts before it
      for (size_t c = 0; c < columns; ++c) {
        const size_t column = source.foreign_column ? source.foreign_column(c, config) : c;
        f(transposed ? of_others + column * height() + row % height() : row * columns + column, r * columns + c);
      }
    }
  }
};

// All of their tensors by name.
using ForeignTensors = std::map<std::string, ForeignTensor>;
ForeignTensors foreign_tensors(const Architecture& architecture, const Config& config);

// Returns the numbers of one tensor, row-major. Biases that our model lacks are zero.
std::vector<float> values_of(const ForeignTensor& tensor, const Config& config, const Model& model);

// A tensor that a file holds.
struct HeldTensor {
  std::string file;
  std::vector<uint64_t> shape;
  std::function<void(float* to)> read;  // converts all numbers to floats
  std::string dtype = {};               // as in --dtype; "" if it has none of these types
  std::function<void(float* to, uint64_t first, uint64_t n)> read_part = {};  // empty: only the whole can be read

  uint64_t size() const;  // in elements
};
using HeldTensors = std::map<std::string, HeldTensor>;  // by name

// Throws std::runtime_error unless `path` holds exactly these tensors. `header` is what describes the model there:
// "config.json".
void require_tensors(const std::string& path, const std::string& header, const HeldTensors& held,
                     const ForeignTensors& wanted);

// Reads all tensors of a model with this Config, each to its place. Throws std::runtime_error if a number is not
// finite.
void load_tensors(const TensorPlaces& to, const std::string& path, const HeldTensors& held,
                  const ForeignTensors& wanted, const Config& config);
