#include "dataset.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "../layers/cross_entropy.hpp"
#include "../layers/random.hpp"
#include "corpus.hpp"
#include "files.hpp"

namespace {

struct Text {
  std::string bytes, name;
  std::vector<double> story_nats;  // where the text is one generated corpus
};

Text read_texts(const std::vector<std::string>& paths) {
  Text text;
  const std::vector<std::string> files = expand_folders(paths);
  for (const std::string& file : files) text.bytes += read_file(file);
  text.name = files.size() == 1 ? (files[0] == "-" ? "standard input" : files[0])
                                : std::to_string(files.size()) + " files";
  if (text.bytes.empty()) throw std::runtime_error("there is no text in " + text.name + ": it is empty");
  if (files.size() == 1 && files[0] != "-") {
    const size_t stories = std::count(text.bytes.begin(), text.bytes.end(), '\n');
    text.story_nats = read_nats(files[0], text.bytes.size(), stories);
  }
  return text;
}

// Windows side by side over tokens [first, end).
std::vector<Window> windows_over(size_t first, size_t end, int T) {
  std::vector<Window> windows;
  for (size_t start = first; start + 1 < end; start += T)
    windows.push_back({start, static_cast<int>(std::min<size_t>(T, end - 1 - start))});
  return windows;
}

// One window for each story that starts at or behind `first`, from the '\n' before it; empty if one is longer
// than the context. A story is ASCII, so its bytes are its tokens.
std::vector<Window> windows_by_story(const std::string& text, size_t first, int T) {
  std::vector<Window> windows;
  for (size_t start = first; start < text.size();) {
    const size_t end = text.find('\n', start) + 1;
    if (end - start > static_cast<size_t>(T)) return {};
    windows.push_back({start - 1, static_cast<int>(end - start)});
    start = end;
  }
  return windows;
}

void require_tokens(size_t have, size_t need, const std::string& what, const std::string& name) {
  if (have >= need) return;
  throw std::runtime_error("too little text in " + name + ": " + what + " needs at least " + std::to_string(need) +
                           " tokens and has " + std::to_string(have) +
                           "; give more text, or lower --context or change --val-fraction");
}

Dataset tokens_of(const Text& text, Tokenizer tokenizer) {
  Dataset data;
  data.tokenizer = std::move(tokenizer);
  data.tokens = data.tokenizer.encode(text.bytes);
  data.bytes = text.bytes.size();
  data.name = text.name;
  data.fingerprint = rng::word({reinterpret_cast<const char*>(data.tokens.data()), data.tokens.size() * 2});
  return data;
}

// Everything after `train` is validation, by stories where that is possible.
void set_validation(Dataset& data, const Text& text, int context) {
  if (!text.story_nats.empty() && data.train > 0) data.val = windows_by_story(text.bytes, data.train, context);
  if (!data.val.empty()) {
    double nats = 0;
    for (size_t i = text.story_nats.size() - data.val.size(); i < text.story_nats.size(); ++i)
      nats += text.story_nats[i];
    data.floor = nats / static_cast<double>(data.val_targets());
  } else {
    data.val = windows_over(data.train, data.tokens.size(), context);
  }
  size_t bytes = 0;
  for (const Window& window : data.val)
    for (int i = 1; i <= window.length; ++i) bytes += data.tokenizer.decode(data.tokens[window.start + i]).size();
  data.val_bytes = static_cast<double>(bytes);
}

}  // namespace

Dataset load_dataset(const std::vector<std::string>& paths, const Tokenizer* tokenizer, Tokenizer::Kind kind,
                     double val_fraction, int context) {
  const Text text = read_texts(paths);
  const bool characters = kind == Tokenizer::Kind::character;
  Dataset data = tokens_of(text, tokenizer    ? *tokenizer
                                 : characters ? Tokenizer::characters(text.bytes)
                                              : Tokenizer::bytes());
  data.train = static_cast<size_t>(static_cast<double>(data.tokens.size()) * (1 - val_fraction));
  if (!text.story_nats.empty() && data.train > 0)
    data.train = text.bytes.rfind('\n', data.train - 1) + 1;  // the last story boundary at or before it
  require_tokens(data.train, context + 1, "training with a context of " + std::to_string(context), data.name);
  if (val_fraction > 0) {
    require_tokens(data.tokens.size() - data.train, 2, "validation", data.name);
    set_validation(data, text, context);
  }
  return data;
}

Dataset load_for_evaluation(const std::vector<std::string>& paths, const Tokenizer& tokenizer, int context) {
  const Text text = read_texts(paths);
  Dataset data = tokens_of(text, tokenizer);
  require_tokens(data.tokens.size(), 2, "evaluation", data.name);
  if (!text.story_nats.empty()) data.train = text.bytes.find('\n') + 1;  // a story is read from the '\n' before it
  set_validation(data, text, context);
  return data;
}

size_t Dataset::val_targets() const {
  size_t n = 0;
  for (const Window& window : val) n += window.length;
  return n;
}

double Dataset::uniform_nats() const { return std::log(static_cast<double>(tokenizer.vocabulary())); }

double Dataset::unigram_nats() const {
  const int V = tokenizer.vocabulary();
  std::vector<double> count(V, 1.0);  // one of each, so that nothing has probability 0
  for (size_t i = 0; i < train; ++i) ++count[tokens[i]];
  const double total = static_cast<double>(train) + V;
  double nats = 0;
  for (const Window& window : val)
    for (int i = 1; i <= window.length; ++i) nats -= std::log(count[tokens[window.start + i]] / total);
  return nats / static_cast<double>(val_targets());
}

double Dataset::bits_per_byte(double nats_per_token) const {
  return nats_per_token * static_cast<double>(val_targets()) / val_bytes / std::log(2.0);
}

void draw_row(int* tokens, int* targets, const Dataset& data, int T, uint64_t seed, uint64_t step, uint64_t row) {
  const uint64_t key = rng::key({seed, rng::word("batch"), step, row});
  const uint16_t* from = data.tokens.data() + rng::below(data.train - T, key, 0);
  for (int t = 0; t < T; ++t) {
    tokens[t] = from[t];
    targets[t] = from[t + 1];
  }
}

void draw_batch(int* tokens, int* targets, const Dataset& data, int B, int T, uint64_t seed, uint64_t step, uint64_t first) {
  for (int b = 0; b < B; ++b)
    draw_row(tokens + static_cast<size_t>(b) * T, targets + static_cast<size_t>(b) * T, data, T, seed, step, first + b);
}

void fill_windows(int* tokens, int* targets, const Dataset& data, const std::vector<Window>& windows, size_t first,
                  int B, int T) {
  std::fill_n(tokens, static_cast<size_t>(B) * T, 0);
  std::fill_n(targets, static_cast<size_t>(B) * T, kIgnore);
  for (int b = 0; b < B && first + b < windows.size(); ++b) {
    const Window& window = windows[first + b];
    for (int t = 0; t < window.length; ++t) {
      tokens[static_cast<size_t>(b) * T + t] = data.tokens[window.start + t];
      targets[static_cast<size_t>(b) * T + t] = data.tokens[window.start + t + 1];
    }
  }
}
