#pragma once
// Hashes of what a comparison's runs read, so that no run reads anything else.

#include <stdexcept>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/text/dataset.hpp"

// Values of --input-hashes: "HASH text", "HASH tokenizer", "HASH file of --eval-pairs", and "HASH /PATH" for each path
// of --init-from.
using InputHashes = std::vector<std::string>;

InputHashes hash_text(const TrainOptions& o, const Dataset& data);  // and its tokenizer, and the files of --eval-pairs
// Hashes the files of a checkpoint. `init_from` is as on the command line.
std::string hash_weights(const std::string& init_from);

// Returns the first input whose hash differs, "text", "tokenizer" or "checkpoint /PATH", or "". Ignores inputs that
// only one of the two lists has.
std::string changed_input(const InputHashes& then, const InputHashes& now);

// The exit code of a run whose inputs differ from --input-hashes.
inline constexpr int kExitOtherInputs = 4;
struct OtherInputs : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Throw OtherInputs if --input-hashes is given and differs. Call them after reading.
void require_same_text(const TrainOptions& o, const Dataset& data);
void require_same_weights(const TrainOptions& o);

// Returns what a run has read; empty without --input-hashes. Hashes token files again, because the run reads them until
// its end.
InputHashes inputs_read(const TrainOptions& o, const Dataset& data);
