#include "dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>

#include "data/files/mapped_file.hpp"
#include "data/strings/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/model.hpp"

namespace {

int64_t sum_of_targets(std::span<const TokenWindow> row) {
  int64_t n = 0;
  for (const TokenWindow& window : row) n += window.targets;
  return n;
}

// The i-th row of a run that takes each row once per epoch, in a new order every epoch.
std::span<const TokenWindow> shuffled_row(const Dataset& data, uint64_t seed, uint64_t i) {
  const uint64_t n = data.rows.size();
  return data.rows[permuted(i % n, n, rng::key({seed, rng::word("epoch"), i / n}))];
}

// Returns the token. Throws if it is beyond the vocabulary, which is possible in a mapped file.
uint32_t known(const Dataset& data, uint32_t token) {
  if (static_cast<int64_t>(token) < data.tokenizer.vocabulary()) return token;
  throw std::runtime_error("token " + std::to_string(token) + " in " + data.name + ", and the tokenizer has " +
                           std::to_string(data.tokenizer.vocabulary()) + ": name the right one with --tokenizer");
}

std::vector<int> tokens_of(const Dataset& data, size_t begin, size_t end) {
  std::vector<int> tokens;
  data.tokens.for_each(begin, end, [&](uint32_t token) { tokens.push_back(static_cast<int>(known(data, token))); });
  return tokens;
}

// ---- examples --------------------------------------------------------------------------------------------

// What a window puts into a row. The targets are as many as the tokens.
struct Example {
  std::vector<int> tokens, targets, source;
};

Example example_with_masks(const Dataset& data, const TokenWindow& window, uint64_t key) {
  std::vector<int> tokens = tokens_of(data, window.start, window.start + static_cast<size_t>(window.length));
  std::vector<int> targets(tokens.size(), kIgnore);
  mask_tokens(tokens, targets, data.masking, key);
  return {std::move(tokens), std::move(targets), {}};
}

Example example_with_spans(const Dataset& data, const TokenWindow& window, uint64_t key) {
  const auto length = static_cast<size_t>(window.text_length);
  auto [source, target] = hide_spans(tokens_of(data, window.start, window.start + length), data.spans, key);
  std::vector<int> tokens = target;
  tokens.insert(tokens.begin(), data.around.first);
  target.push_back(data.around.last);
  source.push_back(data.around.last);
  return {std::move(tokens), std::move(target), std::move(source)};
}

// `key` decides which tokens are hidden.
Example example_of(const Dataset& data, const TokenWindow& window, uint64_t key) {
  if (data.masking.on()) return example_with_masks(data, window, key);
  if (data.spans.on()) return example_with_spans(data, window, key);
  const auto length = static_cast<size_t>(window.length), source_length = static_cast<size_t>(window.source_length);
  std::vector<int> tokens = tokens_of(data, window.start, window.start + length + 1);
  std::vector<int> targets(tokens.begin() + 1, tokens.end());
  tokens.pop_back();
  for (size_t t = 0; data.counted.size() > 0 && t < length; ++t)
    if (data.counted[window.start + 1 + t] == 0) targets[t] = kIgnore;
  return {std::move(tokens), std::move(targets), tokens_of(data, window.source, window.source + source_length)};
}

// ---- statistics ------------------------------------------------------------------------------------------

// Counts how often each token is a target of windows in which spans are hidden.
std::vector<size_t> count_hidden(const Dataset& data, const std::vector<TokenWindow>& windows, size_t step) {
  std::vector<size_t> count(static_cast<size_t>(data.tokenizer.vocabulary()));
  for (size_t i = 0; i < windows.size(); i += step)
    for (const int target : example_of(data, windows[i], rng::key({rng::word("count"), i})).targets) ++count[target];
  return count;
}

// Statistics of mapped files read every n-th piece, about a million tokens. Returns n.
size_t sampling_step(const Dataset& data, size_t tokens) { return data.tokens.memory() > 0 ? 1 : 1 + (tokens >> 20); }

// Counts each token in stretches [0, n); stretch(i) is tokens [first, second). Unless `all`, counts only those that
// count as targets. The counts are integers, so the order of adding does not matter.
template <class StretchOf>
std::vector<size_t> count_tokens(const Dataset& data, size_t n, bool all, const StretchOf& stretch) {
  constexpr size_t kFewTokens = 256;  // in a stretch
  const auto V = static_cast<size_t>(data.tokenizer.vocabulary());
  const bool masked = !all && data.counted.size() > 0;
  std::vector<size_t> count(V + 1);  // the last one counts tokens beyond the vocabulary
  parallel_for(static_cast<int>(n), 1, kFewTokens, [&](int begin, int end) {
    std::vector<size_t> own(V + 1);
    for (int i = begin; i < end; ++i) {
      const Stretch at = stretch(static_cast<size_t>(i));
      size_t place = at.begin;
      data.tokens.for_each(at.begin, at.end, [&](size_t token) {
        own[std::min(token, V)] += !masked || data.counted[place] != 0;
        ++place;
      });
    }
#pragma omp critical
    for (size_t token = 0; token <= V; ++token) count[token] += own[token];
  });
  for (size_t i = 0; count[V] > 0 && i < n; ++i)
    data.tokens.for_each(stretch(i).begin, stretch(i).end, [&](uint32_t token) { known(data, token); });
  count.pop_back();
  return count;
}

// The bytes of tokens that are not special, by how often each occurs.
size_t bytes_of(const Dataset& data, const std::vector<size_t>& times) {
  const std::vector<bool> special = special_tokens(data.tokenizer);
  size_t bytes = 0;
  for (size_t token = 0; token < times.size(); ++token)
    if (times[token] > 0 && !special[token])
      bytes += times[token] * data.tokenizer.decode(static_cast<int>(token)).size();
  return bytes;
}

// Returns why the tokens do not tell how long the text was, or "". A tokenizer may put a space before each part of the
// text, and find names of special tokens in it.
std::string note_on_changed_text(const Dataset& data) {
  constexpr size_t kStretch = 1 << 16;
  const Encoding& text = data.encoding;
  if (text.bytes == 0 || !data.tokenizer.reads_token_files()) return "";  // bytes and characters stay what they are
  const size_t end = data.tokens.size(), n = (end - text.begin + kStretch - 1) / kStretch;
  const std::vector<size_t> times = count_tokens(data, n, true, [&](size_t i) {
    return Stretch{text.begin + i * kStretch, std::min(end, text.begin + (i + 1) * kStretch)};
  });
  const size_t bytes = bytes_of(data, times);
  size_t names = 0;
  for (int token = 0; token < data.tokenizer.vocabulary(); ++token)
    if (token != data.around.first && token != data.around.last && token != data.around.begin)
      names += times[static_cast<size_t>(token)] * data.tokenizer.name_of_special(token).size();
  if (text.bytes <= bytes + names && bytes <= text.bytes + text.parts) return "";
  return "bits per byte are unknown: the tokenizer changes the text, whose " + std::to_string(text.bytes) +
         " bytes are " + std::to_string(bytes) + " in its tokens";
}

// Returns the bytes of text that the validation targets stand for. A special token between documents stands for none,
// and neither does the space that SentencePiece puts before a document.
double bytes_of_targets(const Dataset& data, const std::vector<size_t>& targets) {
  size_t bytes = bytes_of(data, targets);
  if (!data.tokenizer.prefixes_space()) return static_cast<double>(bytes);
  const std::vector<bool> special = special_tokens(data.tokenizer);
  const size_t step = sampling_step(data, data.val_targets());
  for (size_t i = 0; i < data.val.windows().size(); i += step) {
    bool begins = false;  // true if the next token begins a document
    const TokenWindow& window = data.val.windows()[i];
    data.tokens.for_each(window.start, window.start + window.length + 1, [&](uint32_t token) {
      bytes -= begins && data.tokenizer.decode(static_cast<int>(token)).starts_with(' ');
      begins = special[token];
    });
  }
  return static_cast<double>(bytes);
}

// The tokens that are, or may become, the targets of a window.
Stretch targets_of(const Dataset& data, const TokenWindow& window) {
  const size_t begin = window.start + (data.masking.on() ? 0 : 1);
  return {begin, begin + static_cast<size_t>(window.length)};
}

// Counts how often each token is a validation target. In mapped files, samples the targets.
std::vector<size_t> count_targets(const Dataset& data) {
  const std::vector<TokenWindow>& windows = data.val.windows();
  const size_t step = sampling_step(data, data.val_targets());
  if (data.spans.on()) return count_hidden(data, windows, step);
  return count_tokens(data, (windows.size() + step - 1) / step, false,
                      [&](size_t i) { return targets_of(data, windows[i * step]); });
}

// Windows one after the other that stand for those that a run may draw anywhere, as long as one for validation. In
// mapped files, a sample.
std::vector<TokenWindow> windows_to_draw(const Dataset& data) {
  const int length = data.val.windows().front().text_length;
  std::vector<TokenWindow> windows;
  for (size_t at = 0; at + length <= data.train; at += length * sampling_step(data, data.train))
    windows.push_back(data.spans.window(at, length));
  return windows;
}

// Counts how often each token occurs in the training part: as a target in documents, or anywhere in the stream.
std::vector<size_t> count_trained(const Dataset& data) {
  constexpr size_t kStretch = 1 << 12;
  const std::vector<TokenWindow>& windows = data.rows.windows();
  if (data.spans.on()) return count_hidden(data, windows.empty() ? windows_to_draw(data) : windows, 1);
  if (data.packing != Packing::stream)
    return count_tokens(data, windows.size(), false, [&](size_t i) { return targets_of(data, windows[i]); });
  const size_t between = kStretch * sampling_step(data, data.train);
  return count_tokens(data, (data.train + between - 1) / between, true, [&](size_t i) {
    return Stretch{i * between, std::min(i * between + kStretch, data.train)};
  });
}

}  // namespace

size_t Dataset::targets_among(size_t begin, size_t end) const {
  if (masking.on()) {
    int ordinary = 0;
    tokens.for_each(begin, end, [&](uint32_t token) { ordinary += !masking.special[known(*this, token)]; });
    return static_cast<size_t>(masked_among(ordinary, masking.fraction));
  }
  if (counted.size() == 0) return end - begin;
  size_t n = 0;
  counted.for_each(begin, end, [&](auto counts) { n += counts; });
  return n;
}

std::string Dataset::in_units(double nats_per_token) const {
  const std::string nats = format("%.4f nats/token", nats_per_token);
  return val_bytes == 0 ? nats : nats + format(", %.4f bits/byte", bits_per_byte(nats_per_token));
}

double Dataset::uniform_nats() const { return std::log(static_cast<double>(tokenizer.vocabulary())); }

void measure_validation(Dataset& data) {
  const std::vector<size_t> targets = count_targets(data), trained = count_trained(data);
  // Count each token once more, so that no probability is 0.
  const auto total = static_cast<double>(std::accumulate(trained.begin(), trained.end(), trained.size()));
  double nats = 0, counted = 0;
  for (size_t token = 0; token < targets.size(); ++token) {
    const auto times = static_cast<double>(targets[token]);
    if (times == 0) continue;
    nats -= times * std::log(static_cast<double>(trained[token] + 1) / total);
    counted += times;
  }
  data.unigram_nats = nats / counted;
  if (data.hides()) return;  // most bytes are visible, so bits per byte would mean nothing
  if (const std::string note = note_on_changed_text(data); note.empty())
    data.val_bytes = bytes_of_targets(data, targets) * (static_cast<double>(data.val_targets()) / counted);
  else
    data.notes.push_back(note);
}

double Dataset::bits_per_byte(double nats_per_token) const {
  if (val_bytes == 0) return NAN;
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

std::vector<TokenWindow> draw_row(const Dataset& data, int T, const StepRows& step, uint64_t row) {
  if (!data.rows.empty()) {
    const auto windows = shuffled_row(data, step.seed, step.step * step.rows + row);
    return {windows.begin(), windows.end()};
  }
  const int length = data.window_length(T);
  const uint64_t start = rng::below(data.train - length, rng::key({step.seed, rng::word("batch"), step.step, row}), 0);
  return {data.spans.on() ? data.spans.window(start, length) : TokenWindow{static_cast<size_t>(start), T, T}};
}

int64_t tokens_of_step(const Dataset& data, int T, const StepRows& step, int64_t targets) {
  return data.hides() ? static_cast<int64_t>(step.rows) * T : targets;
}

int64_t tokens_before(const Dataset& data, int T, const StepRows& step) {
  const uint64_t rows = step.step * step.rows, in_epoch = data.rows.size();
  if (in_epoch == 0 || data.hides()) return static_cast<int64_t>(rows) * T;
  int64_t n = static_cast<int64_t>(data.rows.targets() * (rows / in_epoch));
  for (uint64_t i = rows - rows % in_epoch; i < rows; ++i) n += sum_of_targets(shuffled_row(data, step.seed, i));
  return n;
}

double Dataset::rows_per_epoch(int T) const {
  return rows.empty() ? static_cast<double>(train - 1) / window_length(T) : static_cast<double>(rows.size());
}

int64_t steps_of_epochs(const Dataset& data, int T, uint64_t rows, double epochs) {
  return std::max<int64_t>(1, std::llround(std::ceil(epochs * data.rows_per_epoch(T) / static_cast<double>(rows))));
}

double tokens_per_row(const Dataset& data, int T) {
  if (data.rows.empty() || data.hides()) return T;
  return static_cast<double>(data.rows.targets()) / static_cast<double>(data.rows.size());
}

namespace {

std::span<int> row_of(std::vector<int>& numbers, int b, int T) {
  return std::span(numbers).subspan(static_cast<size_t>(b) * T, T);
}

// Begins an example at place `at` of row `b`. It has the rest of the row, until the next one begins.
void begin_example(std::vector<int>& begins, int b, int T, int at) {
  if (!begins.empty()) std::ranges::fill(row_of(begins, b, T).subspan(at), at);
}

// Fills row `b` from place `at` on with repetitions of a window, which are an example of their own. The loss ignores
// them, but BatchNorm and diagnostics see text.
void put_filler(std::vector<int>& tokens, std::vector<int>& begins, int b, int T, int at,
                const std::vector<int>& window) {
  if (at < T) begin_example(begins, b, T, at);
  for (int t = at; t < T; ++t) row_of(tokens, b, T)[t] = window[static_cast<size_t>(t - at) % window.size()];
}

// Writes a source to the encoder's row `b`, from place `at` on. The targets from place `target` on see it, until the
// next source is written.
void put_source(RowBatch& rows, int b, int at, const std::vector<int>& source, int target) {
  EncoderRows& encoder = rows.encoder;
  begin_example(encoder.begins, b, encoder.T, at);
  std::ranges::copy(source, row_of(encoder.tokens, b, encoder.T).begin() + at);
  std::ranges::fill(row_of(encoder.from, b, rows.T).subspan(target), at);
  std::ranges::fill(row_of(encoder.to, b, rows.T).subspan(target), at + static_cast<int>(source.size()));
}

void put_row(RowBatch& rows, int b, const Dataset& data, std::span<const TokenWindow> windows, uint64_t key) {
  int at = 0, source_at = 0;
  Example last;
  for (const TokenWindow& window : windows) {
    begin_example(rows.begins, b, rows.T, at);
    last = example_of(data, window, rng::key({key, uint64_t(at)}));
    std::ranges::copy(last.tokens, row_of(rows.tokens, b, rows.T).begin() + at);
    std::ranges::copy(last.targets, row_of(rows.targets, b, rows.T).begin() + at);
    if (data.has_sources) put_source(rows, b, source_at, last.source, at);
    at += window.length;
    source_at += window.source_length;
  }
  put_filler(rows.tokens, rows.begins, b, rows.T, at, last.tokens);
  if (data.has_sources) put_filler(rows.encoder.tokens, rows.encoder.begins, b, rows.T, source_at, last.source);
}

// What fills up a row is an example of its own, for two reasons: with masking, a query sees what comes after it, and
// the length of a document may decide how RoPE is stretched.
RowBatch empty_rows(const Dataset& data, int B, int T) {
  const size_t n = static_cast<size_t>(B) * T;
  const bool one_example = data.packing == Packing::stream && !data.masking.on();
  RowBatch rows{B, T, std::vector<int>(n), std::vector<int>(n, kIgnore), std::vector<int>(one_example ? 0 : n)};
  if (data.has_sources)
    rows.encoder = {T, std::vector<int>(n), std::vector<int>(n), std::vector<int>(n), std::vector<int>(n, T)};
  return rows;
}

}  // namespace

Batch RowBatch::batch() const {
  const auto or_null = [](const std::vector<int>& numbers) { return numbers.empty() ? nullptr : numbers.data(); };
  return {tokens.data(), targets.data(), B, T, or_null(begins),
          {or_null(encoder.tokens), encoder.T, or_null(encoder.begins), or_null(encoder.from), or_null(encoder.to)}};
}

RowBatch draw_batch(const Dataset& data, int B, int T, const StepRows& step, uint64_t first) {
  RowBatch rows = empty_rows(data, B, T);
  for (int b = 0; b < B; ++b) {
    const uint64_t row = first + static_cast<uint64_t>(b);
    put_row(rows, b, data, draw_row(data, T, step, row), rng::key({step.seed, rng::word("mask"), step.step, row}));
  }
  require_mapped_files();
  return rows;
}

RowBatch fill_rows(const Dataset& data, const Rows& from, size_t first, int B, int T) {
  RowBatch rows = empty_rows(data, B, T);
  for (size_t b = 0; b < static_cast<size_t>(B) && first + b < from.size(); ++b)
    put_row(rows, static_cast<int>(b), data, from[first + b], rng::key({rng::word("mask"), from[first + b][0].start}));
  require_mapped_files();
  return rows;
}
