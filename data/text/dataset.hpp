#pragma once
// A text as tokens, split into a training and a validation part, and the batches drawn from it.

#include <cstdint>
#include <string>
#include <vector>

#include "text_files.hpp"

// A stretch of the tokens that is fed to the model: tokens [start, start + length) predict those one further on.
struct TokenWindow {
  size_t start;
  int length;
};

// How the windows of training steps are chosen: anywhere in the text, with replacement, or each window once an epoch.
enum class Draws { random, shuffle };

// Which part of the text is for validation: its end, or the ends of up to 100 equal stretches of it.
enum class ValSplit { tail, spread };

// Which text to read, and how to split and draw it.
struct TextOptions : TextFiles {
  std::vector<std::string> val_data;  // the validation text; empty: a part of `data`
  Tokenizer::Kind tokenizer = Tokenizer::Kind::byte;
  double val_fraction = 0.1;
  ValSplit val_split = ValSplit::tail;
  Draws sampling = Draws::random;
};

struct Dataset {
  Tokenizer tokenizer;
  std::vector<uint16_t> tokens;
  size_t bytes = 0;          // of the whole text
  size_t train = 0;          // tokens [0, train) are for training, the rest for validation
  double val_bytes = 0;      // bytes that the validation targets stand for
  std::vector<TokenWindow> windows;  // of the training part, for Draws::shuffle: the stories, or side by side; else empty
  std::vector<TokenWindow> val;   // together they predict every validation token but the first
  double floor = 0;          // nats per validation token that no model can beat; 0: not known
  std::string name;          // for people
  std::vector<std::string> notes;  // for people too: what was skipped or changed, a line each
  uint64_t fingerprint = 0;  // of the tokens

  size_t val_targets() const;
  size_t memory() const { return tokens.size() * sizeof tokens[0]; }  // bytes
  double uniform_nats() const;                  // log of the number of tokens that can occur
  double unigram_nats() const;                  // cross-entropy of the training frequencies on the validation part
  double bits_per_byte(double nats_per_token) const;
};

// Reads and splits the text. A split by --val-fraction falls anywhere, but "spread" prefers the starts of lines. In a
// generated corpus with its floor beside it, a split falls at the story boundary before that, and windows are stories.
// The tokens are those of `tokenizer`, a checkpoint's, or of a new one if it is null.
// Throws std::runtime_error for missing, empty and too short data, saying how many tokens are needed.
Dataset load_dataset(const TextOptions& options, const Tokenizer* tokenizer, int context);

// The whole of a text as validation, for `eval`.
Dataset load_for_evaluation(const TextFiles& files, const Tokenizer& tokenizer, int context);

// Where a random permutation of 0 ... n - 1 puts i: a Feistel network over the next power of four (Luby & Rackoff 1988),
// applied again while its result is outside.
uint64_t permuted(uint64_t i, uint64_t n, uint64_t key);

// The rows of one training step: those of all its micro-batches.
struct StepRows {
  uint64_t seed, step;  // steps count from 0
  uint64_t rows;        // in each step
};

// The window of a row: at most T tokens. A pure function of its arguments, so a resumed run draws the same.
TokenWindow draw_window(const Dataset& data, int T, const StepRows& step, uint64_t row);

// B rows of T, from row `first` on.
void draw_batch(int* tokens, int* targets, const Dataset& data, int B, int T, const StepRows& step, uint64_t first);

// Targets that count: in this step, and in all steps before it.
int64_t targets_in(const Dataset& data, int T, const StepRows& step);
int64_t targets_before(const Dataset& data, int T, const StepRows& step);

// Steps that go over the training part `epochs` times.
int64_t steps_of_epochs(const Dataset& data, int T, uint64_t rows, double epochs);

// Rows of T for windows [first, first + B). A window that is shorter repeats itself, with kIgnore as targets, and rows
// past the last are all kIgnore.
void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<TokenWindow>& windows, size_t first,
                  int B, int T);
