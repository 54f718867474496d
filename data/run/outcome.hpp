#pragma once
// How a training run ended.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

inline constexpr const char* kOutcome = "outcome.json";  // in a run's directory

// How a training process says that its numbers stopped being finite.
inline constexpr int kExitDiverged = 3;

// How a run ended. outcome.json is there once it did, and not while it can go on.
struct RunOutcome {
  bool finished = false;  // else its numbers stopped being finite
  int64_t step = 0;       // steps done, or the one that failed
  std::string what;       // what was not finite: "loss", "gradient"
  std::string tensor;     // the first tensor with a NaN or an infinity, where there is one
  size_t parameters = 0;
  double unigram = 0, floor = 0;  // nats a token, of the text; floor 0: not known
  uint64_t data_fingerprint = 0;  // of its tokens
  double val_loss_full = std::numeric_limits<double>::quiet_NaN();  // on the whole validation split, if measured
  bool measured = true;           // false if the measurement at the end was stopped; --resume repeats it
};
void write_outcome(const std::string& directory, const RunOutcome& outcome);
std::optional<RunOutcome> read_outcome(const std::string& directory);  // none where the run is not over
void remove_outcome(const std::string& directory);
