#include "dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "bpe_training.hpp"
#include "corpus.hpp"
#include "data/host/format.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/random.hpp"
#include "stored_tokenizer.hpp"

namespace {

// A text, and -log P of each of its stories if it is a generated corpus.
struct Source {
  Text text;
  std::vector<double> nats;
};

Source read_source(const std::vector<std::string>& paths, const TextFiles& filter) {
  Source source{read_text(paths, filter), {}};
  const std::string& bytes = source.text.bytes;
  if (source.text.parts.size() == 1)
    source.nats = read_nats(source.text.name, bytes.size(), std::count(bytes.begin(), bytes.end(), '\n'));
  return source;
}

// ---- tokens ----------------------------------------------------------------------------------------------

size_t newlines(const Dataset& data, size_t begin, size_t end) {
  size_t n = 0;
  data.tokens.for_each(begin, end, [&, newline = data.tokenizer.newline()](uint32_t t) { n += int(t) == newline; });
  return n;
}

// The advice depends on whether the tokenizer is new or a checkpoint's.
[[noreturn]] void fail_token(const Text& text, const NoToken& error, bool new_tokenizer) {
  const char* advice = error.is_utf8   ? "--unknown skip or --unknown replace goes on without it"
                       : new_tokenizer ? "convert the file, leave it out, or use --tokenizer byte, which reads anything"
                                       : "convert the file or leave it out";
  throw std::runtime_error(text.place(error.at) + ": " + error.what() + "; " + advice);
}

Tokenizer alphabet_of(const Text& text, const Text& validation) {
  std::set<uint32_t> known;
  for (const Text* part : {&text, &validation}) {
    try {
      const std::vector<uint32_t> found = Tokenizer::characters(part->bytes).alphabet();
      known.insert(found.begin(), found.end());
    } catch (const NoToken& error) {
      fail_token(*part, error, true);
    }
  }
  return Tokenizer::characters(std::vector<uint32_t>(known.begin(), known.end()));
}

// A byte-pair encoding is trained on the whole text, but not on validation files.
Tokenizer new_tokenizer(const std::string& name, const Text& text, const Text& validation) {
  if (name == "byte") return Tokenizer::bytes();
  if (name == "char") return alphabet_of(text, validation);
  if (const int vocabulary = vocabulary_of_bpe(name)) return Tokenizer::bpe(train_bpe_shown(text.bytes, vocabulary));
  return read_tokenizer(name);
}

// Encodes a text piece by piece, so that memory holds its tokens once. T is uint16_t or uint32_t.
template <class T>
std::vector<T> encoded(const Tokenizer& tokenizer, std::string_view text, Unknown unknown, size_t& count) {
  constexpr size_t kPiece = 1 << 24;
  std::vector<T> tokens;
  if (tokenizer.kind() != Tokenizer::Kind::bpe) tokens.reserve(text.size());
  for (const std::string_view piece : tokenizer.cut(text, kPiece)) {
    try {
      const std::vector<uint32_t> part = tokenizer.encode(piece, unknown, &count);
      tokens.insert(tokens.end(), part.begin(), part.end());
    } catch (const NoToken& error) {
      throw NoToken(static_cast<size_t>(piece.data() - text.data()) + error.at, error.is_utf8, error.what());
    }
  }
  return tokens;
}

// Appends the tokens of a text.
void append(Dataset& data, Source& source, const TextFiles& filter) {
  const Text& text = source.text;
  const size_t before = data.tokens.size();
  size_t unknown = 0;
  try {
    if (data.tokenizer.vocabulary() <= 1 << 16)
      data.tokens.append(encoded<uint16_t>(data.tokenizer, text.bytes, filter.unknown, unknown));
    else
      data.tokens.append(encoded<uint32_t>(data.tokenizer, text.bytes, filter.unknown, unknown));
  } catch (const NoToken& error) {
    fail_token(text, error, false);
  }
  data.bytes += text.bytes.size();
  data.notes.insert(data.notes.end(), text.notes.begin(), text.notes.end());
  if (unknown > 0) {
    data.notes.push_back(counted(static_cast<double>(unknown), "character") + " of " + text.name +
                         " not in the model's vocabulary: " +
                         (filter.unknown == Unknown::skip ? "skipped" : "replaced"));
    source.nats.clear();  // these are no longer the stories whose entropy is known
  }
  if (!source.nats.empty() && newlines(data, before, data.tokens.size()) != source.nats.size()) {
    data.notes.push_back("the floor is not known: the tokenizer joins the ends of stories with other text");
    source.nats.clear();
  }
}

// ---- windows ---------------------------------------------------------------------------------------------

// Adds windows side by side over tokens [first, end).
void add_windows(std::vector<TokenWindow>& windows, size_t first, size_t end, int T) {
  for (size_t start = first; start + 1 < end; start += T)
    windows.push_back({start, static_cast<int>(std::min<size_t>(T, end - 1 - start))});
}

size_t sum_of_lengths(const std::vector<TokenWindow>& windows) {
  size_t n = 0;
  for (const TokenWindow& window : windows) n += window.length;
  return n;
}

// One window for each story in [first, end) that follows a '\n', starting at that '\n'. Returns no windows if a story
// is longer than T.
std::vector<TokenWindow> windows_by_story(const Dataset& data, size_t first, size_t end, int T) {
  const auto newline = static_cast<uint32_t>(data.tokenizer.newline());
  std::vector<TokenWindow> windows;
  for (size_t start = first; start < end;) {
    const size_t next = data.tokens.find(start, end, newline) + 1;
    if (next - start > static_cast<size_t>(T) || next > end) return {};
    if (start > 0 && data.tokens[start - 1] == newline)
      windows.push_back({start - 1, static_cast<int>(next - start)});
    start = next;
  }
  return windows;
}

// The i-th window of a run that takes each once per epoch, in an order of its own for every epoch.
const TokenWindow& shuffled_window(const Dataset& data, uint64_t seed, uint64_t i) {
  const uint64_t n = data.windows.size();
  return data.windows[permuted(i % n, n, rng::key({seed, rng::word("epoch"), i / n}))];
}

// ---- the split -------------------------------------------------------------------------------------------

// Tokens [begin, end).
struct Stretch {
  size_t begin, end;
};

// The start of the line that `at` is in, or `at` if the line starts before `lowest`.
size_t line_start(const Dataset& data, size_t lowest, size_t at) {
  for (size_t i = at; i > lowest; --i)
    if (int(data.tokens[i - 1]) == data.tokenizer.newline()) return i;
  return at;
}

// The ends of up to 100 equal stretches, so few that each part has four contexts.
std::vector<Stretch> spread_parts(const Dataset& data, double fraction, int context) {
  const size_t n = data.tokens.size(), wanted = static_cast<size_t>(static_cast<double>(n) * fraction);
  const size_t count = std::clamp<size_t>(wanted / (4 * context), 1, 100);
  std::vector<Stretch> parts;
  size_t last = 0;
  for (size_t i = 1; i <= count; ++i) {
    const Stretch anywhere{n * i / count - wanted / count, n * i / count};
    const Stretch lines{line_start(data, last, anywhere.begin), i == count ? n : line_start(data, last, anywhere.end)};
    parts.push_back(lines.begin < lines.end ? lines : anywhere);
    last = parts.back().end;
  }
  return parts;
}

// Tokens, and -log P of their stories if it is known.
struct Stories {
  Tokens tokens;
  std::vector<double> nats;

  void append(const Stories& from, size_t begin, size_t end, size_t& story, const Dataset& data) {
    tokens.append(from.tokens, begin, end);
    if (from.nats.empty()) return;
    const size_t count = newlines(data, begin, end);
    nats.insert(nats.end(), from.nats.begin() + story, from.nats.begin() + story + count);
    story += count;
  }
};

// Moves these parts of the tokens, and -log P of their stories, behind the others. `parts` becomes where they are then.
void move_behind(Dataset& data, std::vector<double>& nats, std::vector<Stretch>& parts) {
  const Stories all{data.tokens, nats};
  Stories rest, moved;
  size_t at = 0, story = 0;
  for (const Stretch& part : parts) {
    rest.append(all, at, part.begin, story, data);
    moved.append(all, part.begin, part.end, story, data);
    at = part.end;
  }
  rest.append(all, at, all.tokens.size(), story, data);
  size_t end = data.train = rest.tokens.size();
  for (Stretch& p : parts) p = {end, end + p.end - p.begin}, end = p.end;
  rest.tokens.append(moved.tokens, 0, moved.tokens.size());
  data.tokens = std::move(rest.tokens), nats = std::move(rest.nats);
  nats.insert(nats.end(), moved.nats.begin(), moved.nats.end());
}

// A hash of the tokens, as 16-bit numbers if each of them is one.
uint64_t fingerprint(const Dataset& data) {
  const bool wide = data.tokenizer.vocabulary() > 1 << 16;
  uint64_t hash = rng::word("");
  data.tokens.for_each(0, data.tokens.size(), [&](uint32_t token) {
    for (int shift = 0; shift < (wide ? 32 : 16); shift += 8) hash = rng::word_byte(hash, token >> shift & 0xff);
  });
  return hash;
}

// Sets data.train and returns the stretches after it, which are for validation.
std::vector<Stretch> split(Dataset& data, std::vector<double>& nats, const TextOptions& options, int context) {
  if (options.val_split == ValSplit::spread && options.val_fraction > 0) {
    std::vector<Stretch> parts = spread_parts(data, options.val_fraction, context);
    move_behind(data, nats, parts);
    return parts;
  }
  data.train = static_cast<size_t>(static_cast<double>(data.tokens.size()) * (1 - options.val_fraction));
  if (!nats.empty()) data.train = line_start(data, 0, data.train);
  return {{data.train, data.tokens.size()}};
}

// `nats` ends with the -log P of the validation's stories, or is empty.
void set_validation(Dataset& data, const std::vector<double>& nats, const std::vector<Stretch>& parts, int context) {
  if (!nats.empty()) data.val = windows_by_story(data, data.train, data.tokens.size(), context);
  if (!data.val.empty()) {
    const double sum = std::accumulate(nats.end() - static_cast<int64_t>(data.val.size()), nats.end(), 0.0);
    data.floor = sum / static_cast<double>(data.val_targets());
  } else {
    if (!nats.empty() && data.train < data.tokens.size())
      data.notes.push_back("the floor is not known: a story is longer than the context of " + std::to_string(context));
    for (const Stretch& part : parts) add_windows(data.val, part.begin, part.end, context);
  }
  size_t bytes = 0;
  for (const TokenWindow& window : data.val)
    data.tokens.for_each(window.start + 1, window.start + 1 + window.length,
                         [&](uint32_t token) { bytes += data.tokenizer.decode(static_cast<int>(token)).size(); });
  data.val_bytes = static_cast<double>(bytes);
}

void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name, const char* advice) {
  if (have >= need) return;
  throw std::runtime_error("too little text in " + name + ": " + what + " needs at least " + std::to_string(need) +
                           " tokens and has " + std::to_string(have) + "; " + advice);
}

}  // namespace

Dataset load_dataset(const TextOptions& options, const Tokenizer* tokenizer, int context) {
  const bool separate = !options.val_data.empty();
  Source text = read_source(options.data, options), validation;
  if (separate) validation = read_source(options.val_data, options);
  Dataset data;
  data.name = text.text.name;
  data.tokenizer = tokenizer ? *tokenizer : new_tokenizer(options.tokenizer, text.text, validation.text);
  append(data, text, options);
  std::vector<Stretch> parts;
  if (separate) {
    data.train = data.tokens.size();
    append(data, validation, options);
    parts = {{data.train, data.tokens.size()}};
  } else {
    parts = split(data, text.nats, options, context);
  }
  data.fingerprint = fingerprint(data);
  if (separate) data.fingerprint = rng::key({data.fingerprint, data.train});
  require_tokens(data.train, context + 1, "training with a context of " + std::to_string(context), data.name,
                 "give more text, or lower --context or --val-fraction");
  if (separate || options.val_fraction > 0) {
    require_tokens(data.tokens.size() - data.train, 2, "validation", separate ? validation.text.name : data.name,
                   "give more text or raise --val-fraction");
    set_validation(data, separate ? validation.nats : text.nats, parts, context);
  }
  if (options.sampling == Draws::shuffle) {
    if (!text.nats.empty()) data.windows = windows_by_story(data, 0, data.train, context);
    if (data.windows.empty()) add_windows(data.windows, 0, data.train, context);
  }
  return data;
}

Dataset load_for_evaluation(const TextFiles& files, const Tokenizer& tokenizer, int context) {
  Source source = read_source(files.data, files);
  Dataset data;
  data.name = source.text.name;
  data.tokenizer = tokenizer;
  append(data, source, files);
  require_tokens(data.tokens.size(), 2, "evaluation", data.name, "give more text");
  set_validation(data, source.nats, {{0, data.tokens.size()}}, context);
  return data;
}

size_t Dataset::val_targets() const { return sum_of_lengths(val); }

double Dataset::uniform_nats() const { return std::log(static_cast<double>(tokenizer.vocabulary())); }

double Dataset::unigram_nats() const {
  const int V = tokenizer.vocabulary();
  std::vector<double> count(V, 1.0);  // one of each, so that nothing has probability 0
  tokens.for_each(0, train, [&](uint32_t token) { ++count[token]; });
  const double total = static_cast<double>(train) + V;
  double nats = 0;
  for (const TokenWindow& window : val)
    tokens.for_each(window.start + 1, window.start + 1 + window.length,
                    [&](uint32_t token) { nats -= std::log(count[token] / total); });
  return nats / static_cast<double>(val_targets());
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
      left = right, right = mixed;
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
  return {rng::below(data.train - T, rng::key({step.seed, rng::word("batch"), step.step, row}), 0), T};
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

// The tokens after a shorter window are ignored, but look like text to BatchNorm and diagnostics.
void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<TokenWindow>& windows, size_t first,
                  int B, int T) {
  std::vector<int> from;
  for (int b = 0; b < B; ++b, tokens += T, targets += T) {
    const bool any = first + b < windows.size();
    const TokenWindow window = any ? windows[first + b] : TokenWindow{0, 0};
    from.clear();
    if (any)
      data.tokens.for_each(window.start, window.start + window.length + 1,
                           [&](uint32_t token) { from.push_back(static_cast<int>(token)); });
    for (int t = 0; t < T; ++t) {
      tokens[t] = any ? from[t % window.length] : 0;
      targets[t] = t < window.length ? from[t + 1] : kIgnore;
    }
  }
}
