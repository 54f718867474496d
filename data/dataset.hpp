#pragma once
// A text as tokens, split into a training and a validation part, and the batches drawn from it.

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer.hpp"

// A stretch of the tokens that is fed to the model: tokens [start, start + length) predict those one further on.
struct Window {
  size_t start;
  int length;
};

struct Dataset {
  Tokenizer tokenizer;
  std::vector<uint16_t> tokens;
  size_t bytes = 0;          // of the whole text
  size_t train = 0;          // tokens [0, train) are for training, the rest for validation
  double val_bytes = 0;      // bytes that the validation targets stand for
  std::vector<Window> val;   // together they predict every validation token but the first
  double floor = 0;          // nats per validation token that no model can beat; 0: not known
  std::string name;          // for people
  uint64_t fingerprint = 0;  // of the tokens

  size_t val_targets() const;
  double uniform_nats() const;                  // log of the number of tokens that can occur
  double unigram_nats() const;                  // cross-entropy of the training frequencies on the validation part
  double bits_per_byte(double nats_per_token) const;
};

// Reads files, folders and "-" for standard input. The split falls at val_fraction, or where the text is a
// generated corpus with its floor beside it, at the story boundary before it; its validation windows are then
// the stories. Its tokens are those of `tokenizer`, a checkpoint's; where that is null, of a new one of this kind.
// Throws std::runtime_error for missing, empty and too short data, saying how many tokens are needed.
Dataset load_dataset(const std::vector<std::string>& paths, const Tokenizer* tokenizer, Tokenizer::Kind kind,
                     double val_fraction, int context);

// The whole of a text as validation, for `eval`.
Dataset load_for_evaluation(const std::vector<std::string>& paths, const Tokenizer& tokenizer, int context);

// Row `row` of the effective batch of step `step`: a random window of T tokens and their successors, drawn with
// replacement; a pure function of its arguments.
void draw_row(int* tokens, int* targets, const Dataset& data, int T, uint64_t seed, uint64_t step, uint64_t row);

// B such rows, from row `first` on.
void draw_batch(int* tokens, int* targets, const Dataset& data, int B, int T, uint64_t seed, uint64_t step, uint64_t first);

// Rows of T for windows [first, first + B): shorter ones, and rows past the last, are filled with kIgnore.
void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<Window>& windows, size_t first,
                  int B, int T);
