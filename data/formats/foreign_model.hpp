#pragma once
// Models in other programs' formats: what a reader returns and what a writer receives.

#include <map>
#include <string>

#include "data/tokenizer/tokenizer.hpp"
#include "layers/model/model.hpp"
#include "tensor_places.hpp"

// Files that came with a model and that its own program reads: names and contents. train_gpt hands them on.
using CompanionFiles = std::map<std::string, std::string>;

// A model in another program's file or folder. Opening it checks its header and the shape of every tensor before it
// allocates anything. Throws std::runtime_error in one line that names the file.
class ForeignModel {
 public:
  virtual ~ForeignModel() = default;

  virtual const Config& config() const = 0;  // resolved
  virtual const char* preset() const = 0;    // our preset with the same wiring
  virtual Tokenizer tokenizer() const = 0;   // of the kind `unread` if there is none, or none that we read
  virtual CompanionFiles companions() const { return {}; }
  virtual std::string chat_template() const { return ""; }  // in Jinja; "" if there is none
  virtual std::string dtype() const { return ""; }  // of the weights, as in --dtype; "" if export need not know
  virtual NumberType numbers() const { return NumberType::fp32; }  // of all tensors of the model, or of its base
  virtual int decoder_start() const { return -1; }  // the token with which a decoder begins; -1: none, or not known
  virtual std::string base() const { return ""; }  // the folder of the model that adapters belong to; "" without any
  // Reads all tensors of this Config, each to its place. Throws std::runtime_error if a number is not finite.
  virtual void load(const TensorPlaces& to) const = 0;
  void load(Model& model) const { load(places_in(model.table, model.weights.get())); }
};

// What to export.
struct ExportedModel {
  const Model& model;
  const Tokenizer& tokenizer;  // has a begin() if the model expects that token before a text
  std::string name;   // the run's name, for formats that store it
  std::string dtype;  // one of Format::dtypes
  int end = -1;                    // the token that ends a text or an answer; -1: as the tokenizer says
  int decoder_start = -1;          // the token with which a decoder begins, if the model has an encoder
  std::string chat_template = {};  // in Jinja, for a model that has learned conversations
  std::string base = {};  // the folder of the model that its adapters were trained on; "" if unknown
  // If the model came from another program:
  CompanionFiles companions = {};
  std::string came_dtype = {};
};
