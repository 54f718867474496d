#pragma once
// What the runs of a comparison read, as hashes, so that none of them reads anything else.

#include <stdexcept>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "data/text/dataset.hpp"

// The values of --input-hashes: "HASH text", "HASH tokenizer", and "HASH /PATH" for each path of --init-from.
using InputHashes = std::vector<std::string>;

InputHashes hash_text(const Dataset& data);  // and its tokenizer
// The files of a checkpoint. `init_from` is as on the command line.
std::string hash_weights(const std::string& init_from);

// The first input with another hash: "text", "tokenizer" or "checkpoint /PATH"; "" if there is none. What only one of
// the two lists is not compared.
std::string changed_input(const InputHashes& then, const InputHashes& now);

// The exit code of a run that would read something else than --input-hashes says.
inline constexpr int kExitOtherInputs = 4;
struct OtherInputs : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Throw OtherInputs if --input-hashes is given and says something else. Call them after the reading.
void require_same_text(const TrainOptions& o, const Dataset& data);
void require_same_weights(const TrainOptions& o);

// What a run has read. Its token files are hashed again, because it reads them until its end. Empty without
// --input-hashes.
InputHashes inputs_read(const TrainOptions& o, const Dataset& data);
