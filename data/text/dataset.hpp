#pragma once
// A text as tokens, split into a training and a validation part, and the batches drawn from it.
//
// A text is one long stream of tokens, or a sequence of documents. A row of T tokens is a window of the stream, or it
// holds whole documents, one or several side by side.

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/chat_template.hpp"
#include "masking.hpp"
#include "rows.hpp"
#include "spans.hpp"
#include "tokens.hpp"

struct Batch;  // layers/model/model.hpp

// What fills a row of T tokens: a window of the stream, several documents that do not see each other, or one document.
enum class Packing { stream, documents, padded };

// What the tokenizer encoded: how many bytes in how many parts, and where their tokens begin. 0 bytes: token files.
struct Encoding {
  size_t bytes = 0, parts = 0, begin = 0;
};

// A text as tokens. Statistics of mapped files come from samples of about a million tokens.
struct Dataset {
  Tokenizer tokenizer;
  Tokens tokens;
  size_t bytes = 0;                  // size of the whole text, or of its token files
  Encoding encoding;                 // of the last source, which is the one for validation if there are two
  size_t words = 0;                  // of the text for training, split at white space; 0: token files, or --data-limit
  size_t train = 0;                  // tokens for training, the first ones in a stream; the rest is for validation
  size_t left_out = 0;               // tokens between these parts, which --data-limit leaves out
  double val_bytes = 0;              // bytes of text that the validation targets stand for; a separator counts as none;
                                     // 0 if unknown, or if the tokenizer changes the text
  double unigram_nats = NAN;         // cross-entropy of the training part's token frequencies on the validation part
  Rows rows;                         // for training, each once per epoch; empty: windows anywhere in the stream
  Rows val;                          // for validation
  Packing packing = Packing::stream;
  Tokens counted;                    // 1 for each token that counts as a target, else 0; empty: all count
  Masking masking;                   // off: the targets are the next tokens
  bool has_sources = false;          // an encoder reads one for each window
  Spans spans;                       // on: sources and targets are made of windows of text
  double floor = 0;                  // nats per validation token that no model can beat; 0 if unknown
  std::string name;                  // shown to the user
  DocumentTokens around;             // each document
  std::string documents;             // where documents end: --documents, resolved
  const ChatTemplate* chat = nullptr;  // of the conversations; null if there are none
  std::vector<std::string> notes;    // shown to the user, one line each: what was skipped or changed
  uint64_t fingerprint = 0;          // hash of the tokens and of the stories' -log P; for token files, of samples
  std::vector<std::function<uint64_t()>> token_files;  // each hashes all bytes of one mapped file

  bool hides() const { return masking.on() || spans.on(); }  // a model reads most of the text, and predicts the rest
  int window_length(int T) const { return spans.on() ? spans.longest(T) : T; }  // of text, for a row of T tokens
  size_t val_targets() const { return val.targets(); }
  size_t val_tokens() const { return tokens.size() - train - left_out; }  // of a stream
  size_t targets_among(size_t begin, size_t end) const;  // how many tokens [begin, end) count as targets, or are masked
  double uniform_nats() const;  // log of the number of tokens that can occur
  double bits_per_byte(double nats_per_token) const;  // NAN if val_bytes is 0
  std::string in_units(double nats_per_token) const;  // "2.3026 nats/token, 3.3219 bits/byte", or without the latter
  double rows_per_epoch(int T) const;  // rows of T tokens that cover the training part once
};

// Sets `val_bytes` and `unigram_nats`. Adds a note if bits per byte cannot be known.
void measure_validation(Dataset& data);

// Returns the image of i under a random permutation of 0 ... n - 1: a Feistel network over the next power of four (Luby
// & Rackoff 1988), repeated until the result is below n.
uint64_t permuted(uint64_t i, uint64_t n, uint64_t key);

// The rows of one training step, over all its micro-batches.
struct StepRows {
  uint64_t seed, step;  // steps count from 0
  uint64_t rows;        // in each step
};

// Returns the windows of a row. They depend only on the arguments, so a resumed run draws the same ones.
std::vector<TokenWindow> draw_row(const Dataset& data, int T, const StepRows& step, uint64_t row);

// The sources of a batch's rows (EncoderInput in layers/model/model.hpp).
struct EncoderRows {
  int T = 0;
  std::vector<int> tokens, begins;  // (B,T)
  std::vector<int> from, to;        // for each token of the batch
};

// B rows of T tokens and targets. `begins` says where in its row each token's example begins; empty: at 0.
struct RowBatch {
  int B = 0, T = 0;
  std::vector<int> tokens = {}, targets = {}, begins = {};
  EncoderRows encoder = {};

  Batch batch() const;  // points to these numbers
};

// Draws B rows of T, from row `first` on.
RowBatch draw_batch(const Dataset& data, int B, int T, const StepRows& step, uint64_t first);

// The tokens that a run counts, in a step with this many targets and in all steps before it. These are the targets. If
// the data hides tokens, few tokens are targets, and all tokens of the rows count.
int64_t tokens_of_step(const Dataset& data, int T, const StepRows& step, int64_t targets);
int64_t tokens_before(const Dataset& data, int T, const StepRows& step);

// The number of steps that cover the training part `epochs` times.
int64_t steps_of_epochs(const Dataset& data, int T, uint64_t rows, double epochs);

// The number of tokens that a run counts in a row of T, on average over an epoch.
double tokens_per_row(const Dataset& data, int T);

// Returns rows [first, first + B) of T tokens. Where windows do not fill a row, the last is repeated, with kIgnore as
// targets, and so are sources. Such targets see the last source. Rows after the last are all kIgnore. Throws
// std::runtime_error if a token file can no longer be read.
RowBatch fill_rows(const Dataset& data, const Rows& rows, size_t first, int B, int T);
