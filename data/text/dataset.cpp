#include "dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "data/files/mapped_file.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"

namespace {

size_t sum_of_lengths(const std::vector<TokenWindow>& windows) {
  size_t n = 0;
  for (const TokenWindow& window : windows) n += window.length;
  return n;
}

// The i-th window of a run that takes each window once per epoch, in a new order every epoch.
const TokenWindow& shuffled_window(const Dataset& data, uint64_t seed, uint64_t i) {
  const uint64_t n = data.windows.size();
  return data.windows[permuted(i % n, n, rng::key({seed, rng::word("epoch"), i / n}))];
}

// Returns the token. Throws if it is beyond the vocabulary, which is possible in a mapped file.
uint32_t known(const Dataset& data, uint32_t token) {
  if (static_cast<int64_t>(token) < data.tokenizer.vocabulary()) return token;
  throw std::runtime_error(data.name + " holds token " + std::to_string(token) + ", and the tokenizer has " +
                           std::to_string(data.tokenizer.vocabulary()) + ": name the right one with --tokenizer");
}

// Statistics of mapped files read every n-th piece, about a million tokens. Returns n.
size_t sampling_step(const Dataset& data, size_t tokens) { return data.tokens.memory() > 0 ? 1 : 1 + (tokens >> 20); }

// Counts each token in stretches [0, n); stretch(i) is tokens [first, second). The counts are integers, so the order of
// adding does not matter.
template <class Stretch>
std::vector<size_t> count_tokens(const Dataset& data, size_t n, const Stretch& stretch) {
  constexpr size_t kFewTokens = 256;  // in a stretch
  const auto V = static_cast<size_t>(data.tokenizer.vocabulary());
  std::vector<size_t> count(V + 1);  // the last one counts tokens beyond the vocabulary
  parallel_for(static_cast<int>(n), 1, kFewTokens, [&](int begin, int end) {
    std::vector<size_t> own(V + 1);
    for (int i = begin; i < end; ++i) {
      const auto [first, last] = stretch(static_cast<size_t>(i));
      data.tokens.for_each(first, last, [&](size_t token) { ++own[std::min(token, V)]; });
    }
#pragma omp critical
    for (size_t token = 0; token <= V; ++token) count[token] += own[token];
  });
  for (size_t i = 0; count[V] > 0 && i < n; ++i)
    data.tokens.for_each(stretch(i).first, stretch(i).second, [&](uint32_t token) { known(data, token); });
  count.pop_back();
  return count;
}

std::vector<bool> special_tokens(const Tokenizer& tokenizer) {
  std::vector<bool> special;
  for (int token = 0; token < tokenizer.vocabulary(); ++token)
    special.push_back(!tokenizer.name_of_special(token).empty());
  return special;
}

// Returns the bytes of text that the validation targets stand for. A special token between documents stands for none,
// and neither does the space that SentencePiece puts before a document.
double bytes_of_targets(const Dataset& data, const std::vector<size_t>& targets) {
  const std::vector<bool> special = special_tokens(data.tokenizer);
  size_t bytes = 0;
  for (size_t token = 0; token < targets.size(); ++token)
    if (targets[token] > 0 && !special[token])
      bytes += targets[token] * data.tokenizer.decode(static_cast<int>(token)).size();
  const Pieces* pieces = data.tokenizer.pieces();
  if (!pieces || !pieces->tables().dummy_prefix) return static_cast<double>(bytes);
  const size_t step = sampling_step(data, data.val_targets());
  for (size_t i = 0; i < data.val.size(); i += step) {
    bool begins = false;  // true if the next token begins a document
    const TokenWindow& window = data.val[i];
    data.tokens.for_each(window.start, window.start + window.length + 1, [&](uint32_t token) {
      bytes -= begins && pieces->bytes_of(token).starts_with(' ');
      begins = special[token];
    });
  }
  return static_cast<double>(bytes);
}

// Counts how often each token is a validation target. In mapped files, samples the targets.
std::vector<size_t> count_targets(const Dataset& data) {
  const size_t step = sampling_step(data, data.val_targets());
  return count_tokens(data, (data.val.size() + step - 1) / step, [&](size_t i) {
    const TokenWindow& window = data.val[i * step];
    return std::pair(window.start + 1, window.start + 1 + window.length);
  });
}

}  // namespace

size_t Dataset::val_targets() const { return sum_of_lengths(val); }

double Dataset::uniform_nats() const { return std::log(static_cast<double>(tokenizer.vocabulary())); }

void measure_validation(Dataset& data) {
  constexpr size_t kStretch = 1 << 12;
  const size_t between = kStretch * sampling_step(data, data.train);
  const std::vector<size_t> targets = count_targets(data);
  const std::vector<size_t> trained = count_tokens(data, (data.train + between - 1) / between, [&](size_t i) {
    return std::pair(i * between, std::min(i * between + kStretch, data.train));
  });
  // Count each token once more, so that no probability is 0.
  const auto total = static_cast<double>(std::accumulate(trained.begin(), trained.end(), trained.size()));
  double nats = 0, counted = 0;
  for (size_t token = 0; token < targets.size(); ++token) {
    const auto times = static_cast<double>(targets[token]);
    if (times == 0) continue;
    nats -= times * std::log(static_cast<double>(trained[token] + 1) / total);
    counted += times;
  }
  data.val_bytes = bytes_of_targets(data, targets) * (static_cast<double>(data.val_targets()) / counted);
  data.unigram_nats = nats / counted;
}

double Dataset::bits_per_byte(double nats_per_token) const {
  return nats_per_token * static_cast<double>(val_targets()) / val_bytes / std::log(2.0);
}

uint64_t permuted(uint64_t i, uint64_t n, uint64_t key) {
  int half = 1;
  while (half < 31 && uint64_t{1} << 2 * half < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (rng::key({key, round, right}) & mask);
      left = right;
      right = mixed;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

TokenWindow draw_window(const Dataset& data, int T, const StepRows& step, uint64_t row) {
  if (!data.windows.empty()) {
    const TokenWindow& window = shuffled_window(data, step.seed, step.step * step.rows + row);
    return {window.start, std::min(window.length, T)};
  }
  const uint64_t start = rng::below(data.train - T, rng::key({step.seed, rng::word("batch"), step.step, row}), 0);
  return {static_cast<size_t>(start), T};
}

void draw_batch(int* tokens, int* targets, const Dataset& data, int B, int T, const StepRows& step, uint64_t first) {
  std::vector<TokenWindow> windows;
  for (int b = 0; b < B; ++b) windows.push_back(draw_window(data, T, step, first + b));
  fill_windows(tokens, targets, data, windows, 0, B, T);
}

int64_t targets_in(const Dataset& data, int T, const StepRows& step) {
  if (data.windows.empty()) return static_cast<int64_t>(step.rows) * T;
  int64_t n = 0;
  for (uint64_t row = 0; row < step.rows; ++row) n += draw_window(data, T, step, row).length;
  return n;
}

int64_t targets_before(const Dataset& data, int T, const StepRows& step) {
  const uint64_t rows = step.step * step.rows, in_epoch = data.windows.size();
  if (in_epoch == 0) return static_cast<int64_t>(rows) * T;
  int64_t n = static_cast<int64_t>(sum_of_lengths(data.windows) * (rows / in_epoch));
  for (uint64_t i = rows - rows % in_epoch; i < rows; ++i) n += shuffled_window(data, step.seed, i).length;
  return n;
}

double Dataset::rows_per_epoch(int T) const {
  return windows.empty() ? static_cast<double>(train - 1) / T : static_cast<double>(windows.size());
}

int64_t steps_of_epochs(const Dataset& data, int T, uint64_t rows, double epochs) {
  return std::max<int64_t>(1, std::llround(std::ceil(epochs * data.rows_per_epoch(T) / static_cast<double>(rows))));
}

// A shorter window is repeated to fill its row. The loss ignores the repetition, but BatchNorm and diagnostics see
// text.
void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<TokenWindow>& windows, size_t first,
                  int B, int T) {
  std::vector<int> from;
  for (int b = 0; b < B; ++b, tokens += T, targets += T) {
    const bool any = first + b < windows.size();
    const TokenWindow window = any ? windows[first + b] : TokenWindow{0, 0};
    from.clear();
    if (any)
      data.tokens.for_each(window.start, window.start + window.length + 1,
                           [&](uint32_t token) { from.push_back(static_cast<int>(known(data, token))); });
    for (int t = 0; t < T; ++t) {
      tokens[t] = any ? from[t % window.length] : 0;
      targets[t] = t < window.length ? from[t + 1] : kIgnore;
    }
  }
  require_mapped_files();
}
