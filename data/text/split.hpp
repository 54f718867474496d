#pragma once
// Splits a dataset into training and validation, and into windows.

#include <string>
#include <vector>

#include "dataset.hpp"

// How training steps choose windows: anywhere in the text, with replacement, or each window once per epoch.
enum class Draws { random, shuffle };

// Which part of the text is for validation: its end, or the ends of up to 100 equal stretches.
enum class ValSplit { tail, spread };

struct SplitOptions {
  double val_fraction = 0.1;
  ValSplit val_split = ValSplit::tail;
  Draws sampling = Draws::random;
};

// Tokens [begin, end).
struct Stretch {
  size_t begin, end;
};

size_t newlines(const Dataset& data, size_t begin, size_t end);

// Sets data.train and returns the validation stretches, which come after it. `nats` has -log P of each story, or is
// empty. "spread" moves the validation tokens to the end, and `nats` with them.
std::vector<Stretch> split(Dataset& data, std::vector<double>& nats, const SplitOptions& options, int context);

// Sets the validation windows and their floor. `nats` ends with the -log P of the validation stories, or is empty. If
// `own_text`, the validation is a separate text, so the line end before it does not belong to it.
void set_validation(Dataset& data, const std::vector<double>& nats, const std::vector<Stretch>& parts, int context,
                    bool own_text = false);

// Sets data.windows for Draws::shuffle.
void set_windows(Dataset& data, bool by_story, int context);

// Throws std::runtime_error if there are fewer tokens than `what` needs.
void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice);
