#pragma once
// A text as tokens, split into a training and a validation part, and the batches drawn from it.

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.hpp"
#include "tokens.hpp"

// The model reads tokens [start, start + length). The target of each is the token after it.
struct TokenWindow {
  size_t start;
  int length;
};

// A text as tokens. Statistics of mapped files come from samples of about a million tokens.
struct Dataset {
  Tokenizer tokenizer;
  Tokens tokens;
  size_t bytes = 0;                  // size of the whole text, or of its token files
  size_t train = 0;                  // tokens [0, train) are for training, the rest for validation
  double val_bytes = 0;              // bytes of text that the validation targets stand for; a separator counts as none
  double unigram_nats = NAN;         // cross-entropy of the training part's token frequencies on the validation part
  std::vector<TokenWindow> windows;  // the training windows for Draws::shuffle: one per story, or back to back
  bool by_line = false;              // each of `windows` is a story (a line)
  std::vector<TokenWindow> val;      // validation windows; together they predict every token but the first
  double floor = 0;                  // nats per validation token that no model can beat; 0 if unknown
  std::string name;                  // shown to the user
  int separator = -1;                // the token between documents, or -1
  std::vector<std::string> notes;    // shown to the user, one line each: what was skipped or changed
  uint64_t fingerprint = 0;          // hash of the tokens and of the stories' -log P; for token files, of samples
  std::vector<std::function<uint64_t()>> token_files;  // each hashes all bytes of one mapped file

  size_t val_targets() const;
  double uniform_nats() const;  // log of the number of tokens that can occur
  double bits_per_byte(double nats_per_token) const;
  double rows_per_epoch(int T) const;  // rows of T tokens that cover the training part once
};

// Sets `val_bytes` and `unigram_nats`.
void measure_validation(Dataset& data);

// Returns the image of i under a random permutation of 0 ... n - 1: a Feistel network over the next power of four (Luby
// & Rackoff 1988), repeated until the result is below n.
uint64_t permuted(uint64_t i, uint64_t n, uint64_t key);

// The rows of one training step, over all its micro-batches.
struct StepRows {
  uint64_t seed, step;  // steps count from 0
  uint64_t rows;        // in each step
};

// Returns the window of a row, at most T tokens. It depends only on the arguments, so a resumed run draws the same
// windows.
TokenWindow draw_window(const Dataset& data, int T, const StepRows& step, uint64_t row);

// Draws B rows of T, from row `first` on.
void draw_batch(int* tokens, int* targets, const Dataset& data, int B, int T, const StepRows& step, uint64_t first);

// The number of targets that count (are not kIgnore): in this step, and in all steps before it.
int64_t targets_in(const Dataset& data, int T, const StepRows& step);
int64_t targets_before(const Dataset& data, int T, const StepRows& step);

// The number of steps that cover the training part `epochs` times.
int64_t steps_of_epochs(const Dataset& data, int T, uint64_t rows, double epochs);

// Fills rows of T with windows [first, first + B). A window shorter than T repeats itself, with kIgnore as targets.
// Rows after the last window are all kIgnore. Throws std::runtime_error if a token file can no longer be read.
void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<TokenWindow>& windows, size_t first,
                  int B, int T);
