#pragma once
// The split of a dataset into training and validation, and its windows.

#include <string>
#include <vector>

#include "dataset.hpp"

// How training steps choose windows: anywhere in the text, with replacement, or each window once per epoch.
enum class Draws { random, shuffle };

// Which part of the text is for validation: its end, or the ends of up to 100 equal stretches of it.
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

// Sets data.train and returns the stretches after it, which are for validation. `nats` has -log P of each story, or is
// empty. "spread" moves the tokens of the validation behind the others, and `nats` with them.
std::vector<Stretch> split(Dataset& data, std::vector<double>& nats, const SplitOptions& options, int context);

// Sets the windows of the validation and what is known about it. `nats` ends with the -log P of its stories, or is
// empty. `own_text`: the validation is a text of its own, so that the line end before it is not part of it.
void set_validation(Dataset& data, const std::vector<double>& nats, const std::vector<Stretch>& parts, int context,
                    bool own_text = false);

// Sets data.windows, for Draws::shuffle.
void set_windows(Dataset& data, bool by_story, int context);

// Throws std::runtime_error if there are fewer tokens than `what` needs.
void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice);
