#pragma once
// Models in the formats of other programs: what a reader returns and a writer gets.

#include <string>

#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/model.hpp"

// A model in a file or folder of another program. Opening it checks its header and the shape of every tensor before
// anything is allocated, and throws std::runtime_error in one line that names the file.
class OtherModel {
 public:
  virtual ~OtherModel() = default;

  virtual const Config& config() const = 0;  // resolved
  virtual const char* preset() const = 0;    // ours, with the same wiring
  virtual Tokenizer tokenizer() const = 0;   // throws std::runtime_error if there is none that can be read
  // Fills the weights of a model with this Config. Throws if a number is not finite.
  virtual void load(Model& model) const = 0;
};

// What to export.
struct ExportedModel {
  const Model& model;
  const Tokenizer& tokenizer;  // with begin() if the model reads this token before a text
  std::string name;   // of the run, for formats that hold one
  std::string dtype;  // one of Format::dtypes
};
