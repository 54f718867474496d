#pragma once
// The parts of a checkpoint: the fields of the header, slices of numbers, and a checksum.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/files/files.hpp"
#include "data/formats/foreign_model.hpp"
#include "data/options/options.hpp"
#include "data/tokenizer/tokenizer.hpp"
#include "layers/config/tensors.hpp"

// The header of a checkpoint. A Hugging Face folder can be read instead, as a model at step 0.
struct CheckpointHeader {
  TrainOptions options;  // with a resolved Config
  Tokenizer tokenizer;
  int64_t step = 0;    // steps done
  double elapsed = 0;  // seconds of training so far
  double val_loss = std::numeric_limits<double>::quiet_NaN();  // nats per token, at this step
  double best_loss = std::numeric_limits<double>::infinity();  // the lowest so far
  int64_t best_step = 0;
  std::string unwritten_row;  // this step's line of metrics.csv, if it could not be written there
  uint64_t data_fingerprint = 0;
  bool optimizer = false;  // the file has the optimizer's state
  NumberType numbers = NumberType::fp32;  // of a model of another program
  bool converses = false;  // the model has learned conversations, written as options.chat says
  bool answers = false;    // some of the text was not learned: prompts
  // Of the model of another program that training began with:
  CompanionFiles companions;
  std::string came_dtype;

  const ChatTemplate* chat() const { return converses ? options.chat : nullptr; }
};

// A running 64-bit checksum over words of 8 bytes: multiply and rotate.
class Checksum {
 public:
  void add(const void* data, size_t bytes) {
    const char* p = static_cast<const char*>(data);
    if (filled_ == 0) {
      uint64_t state = state_;  // stays in a register
      for (uint64_t word; bytes >= 8; bytes -= 8, p += 8) {
        std::memcpy(&word, p, 8);
        state = with(state, word);
      }
      state_ = state;
    }
    for (size_t n; bytes > 0; bytes -= n, p += n) {
      n = std::min(bytes, 8 - filled_);
      if (n == 8) std::memcpy(&word_, p, 8);
      else std::memcpy(reinterpret_cast<char*>(&word_) + filled_, p, n);
      if ((filled_ += n) == 8) {
        state_ = with(state_, word_);
        word_ = 0;
        filled_ = 0;
      }
    }
  }
  uint64_t value() const {
    const uint64_t state = filled_ > 0 ? with(state_, word_) : state_;  // zeros fill the last word
    return state ^ state >> 32;
  }

 private:
  static uint64_t with(uint64_t state, uint64_t word) {
    return ((state << 29 | state >> 35) ^ word) * 0x9e3779b97f4a7c15ull;
  }

  uint64_t state_ = 0x243f6a8885a308d3ull, word_ = 0;
  size_t filled_ = 0;  // bytes of word_
};

// Computes the checksum of a file of `size` bytes on all threads. Each piece has a Checksum, to which add(sum, begin,
// end) adds the bytes of the file from `begin` to `end`. If there is one piece, its checksum is the file's; otherwise
// the file's is the Checksum of the pieces' checksums.
constexpr uint64_t kChecksumPiece = 1 << 18;  // bytes; small enough to stay in the processor's cache
uint64_t checksum_in_pieces(uint64_t size,
                            const std::function<void(Checksum& sum, uint64_t begin, uint64_t end)>& add);

// Calls f(part, from, to) for the parts of a file that cover the bytes from `begin` to `end`. `parts` have a `begin`
// and an `end`, and no gaps between them.
template <class Range, class F>
void each_within(const std::vector<Range>& parts, uint64_t begin, uint64_t end, const F& f) {
  const auto ends_behind = [](uint64_t at, const Range& p) { return at < p.end; };
  auto part = std::upper_bound(parts.begin(), parts.end(), begin, ends_behind);
  for (; begin < end; begin = std::min(end, part++->end)) f(*part, begin, std::min(end, part->end));
}

// The name of a tensor of state_table() in the file.
inline std::string stored_name(const std::string& state) { return "optimizer." + state; }

// Where a tensor's numbers are in the file.
struct StoredSlice {
  std::string tensor;  // stored_name() of a state, or a weight
  uint64_t begin = 0, bytes = 0;
  NumberType numbers = NumberType::fp32;
};

// A checkpoint whose header has been read and checked.
struct CheckpointFile {
  std::shared_ptr<const InputFile> file;
  CheckpointHeader header;
  std::vector<TensorSpec> table;    // the table of the model that the header describes
  std::vector<StoredSlice> slices;  // in file order, without overlap: all weights, perhaps all state
  std::string start;                // the file's first bytes as the checksum counts them, if it counts them differently
  uint64_t end = 0;                 // the end of the bytes that the checksum covers
  uint64_t sum = 0;                 // the checksum according to the file
};

// Convert a header to JSON and back. header_of() checks every field, alone and against the others; the caller passes
// the options. It throws std::exception, without the file's name.
nlohmann::json to_json(const CheckpointHeader& header);
CheckpointHeader header_of(const nlohmann::json& fields, const TrainOptions& options);

// Returns the model's table; its offsets are the model's, not the file's. Throws std::runtime_error, before it makes
// the table, if the file lists fewer tensors than the model has layers.
std::vector<TensorSpec> table_of(const Config& config, size_t listed);

// Returns a field that is a whole number of at most `most`. Throws std::exception otherwise.
uint64_t whole_number(const nlohmann::json& fields, const char* key, uint64_t most);
