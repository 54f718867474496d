#pragma once
// Short training runs for tests, and helpers to read what they write.

#include <algorithm>
#include <string>
#include <vector>

#include "data/run/checkpoint.hpp"
#include "data/text/corpus.hpp"
#include "program.hpp"

inline const std::string kSmall =
    " --layers 2 --heads 2 --channels 32 --context 32 --batch 4 --eval-every 5 --eval-batches 2 --quiet ";

// A folder with a short corpus in it.
struct Corpus : Folder {
  Corpus() { write_corpus(path("stories.txt"), 60000, 1); }
};

inline std::vector<float> weights_in(const std::string& path) {
  const CheckpointHeader header = read_checkpoint_header(path);
  Model model(header.options.config);
  load_checkpoint(path, model, nullptr);
  return {model.weights.get(), model.weights.get() + model.floats};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline size_t count_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }
