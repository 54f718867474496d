#pragma once
// eval --pairs-of: parses the targets that a model writes with the grammar of its corpus.

#include <string>

#include "data/text/dataset.hpp"
#include "layers/model/model.hpp"

// What greedy decoding writes for the sources of the validation split.
struct Translations {
  int64_t all = 0;
  int64_t right = 0;      // translations of their sources
  int64_t sentences = 0;  // of the target language, right or wrong
};

// Counts them. `grammar` is a name of kPairGrammars. Throws std::runtime_error if a source is no sentence of it. Ctrl-C
// stops it; then interrupted() is true.
Translations count_translations(const Model& model, const Dataset& data, const std::string& grammar);
