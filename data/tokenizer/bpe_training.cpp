#include "bpe_training.hpp"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <unordered_map>

#include "data/host/progress.hpp"
#include "data/tokenizer/pipeline/split.hpp"

namespace {

constexpr size_t kCounted = 1 << 20;  // a thread counts the words of this many bytes at a time

// Counts how often each word occurs, in a hash table with open addressing.
class Counts {
 public:
  struct WordCount {
    std::string_view word;
    int64_t count = 0;
  };

  void add(std::string_view word, int64_t count) {
    if (2 * used_ >= entries_.size()) grow();
    WordCount& entry = find(word);
    used_ += entry.count == 0;
    entry = {word, entry.count + count};
  }
  const std::vector<WordCount>& entries() const { return entries_; }

 private:
  WordCount& find(std::string_view word) {
    size_t at = std::hash<std::string_view>()(word) & (entries_.size() - 1);
    while (entries_[at].count > 0 && entries_[at].word != word) at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }
  void grow() {
    std::vector<WordCount> old(2 * entries_.size());
    old.swap(entries_);
    for (const WordCount& entry : old)
      if (entry.count > 0) find(entry.word) = entry;
  }

  std::vector<WordCount> entries_ = std::vector<WordCount>(1 << 10);
  size_t used_ = 0;
};

// Returns the distinct words of a text, sorted.
std::vector<Counts::WordCount> count_words(std::string_view text) {
  const std::vector<std::string_view> pieces = cut_between_words(Split::gpt2, text, kCounted);
  Counts all;
#pragma omp parallel
  {
    Counts own;
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < pieces.size(); ++i)
      split_words(Split::gpt2, pieces[i], [&](std::string_view word) { own.add(word, 1); });
#pragma omp critical
    for (const auto& [word, count] : own.entries())
      if (count > 0) all.add(word, count);
  }
  std::vector<Counts::WordCount> words;
  for (const Counts::WordCount& entry : all.entries())
    if (entry.count > 0) words.push_back(entry);
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.word < b.word; });
  return words;
}

// A pair of tokens, with left in the upper half, so that comparing two pairs compares left first.
using Pair = uint64_t;
Pair pair_of(uint32_t left, uint32_t right) { return Pair{left} << 32 | right; }

struct HashPair {
  size_t operator()(Pair pair) const { return (pair ^ pair >> 29) * 0x9e3779b97f4a7c15ull >> 17; }
};

struct Word {
  std::vector<uint32_t> tokens;
  int64_t count;
};

// A pair, its count when it was queued, and the words that have it.
struct Candidate {
  Pair pair;
  int64_t count;
  std::vector<uint32_t> words;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// The words of a text, each once, with the count of every pair of neighboring tokens.
class Training {
 public:
  explicit Training(std::string_view text) {
    tables_.tokens = byte_tokens();
    for (uint32_t t = 0; t < 256; ++t) known_[tables_.tokens[t]] = t;
    for (const auto& [text, count] : count_words(text)) {
      Word word{{}, count};
      for (const char byte : text) word.tokens.push_back(known_.at({byte}));
      words_.push_back(std::move(word));
    }
    for (uint32_t w = 0; w < words_.size(); ++w)
      for (size_t i = 0; i + 1 < words_[w].tokens.size(); ++i)
        change(pair_of(words_[w].tokens[i], words_[w].tokens[i + 1]), words_[w].count, w);
    queue_changed();
  }

  size_t size() const { return tables_.tokens.size(); }

  // Returns false if no pair is left.
  bool merge_most_frequent() {
    while (!queue_.empty()) {
      Candidate best = std::move(const_cast<Candidate&>(queue_.top()));
      queue_.pop();
      const int64_t count = counts_[best.pair];
      if (count < 1) continue;
      if (best.count == count) {
        merge(best);
        return true;
      }
      best.count = count;  // the count has changed: put it back at its new place
      queue_.push(std::move(best));
    }
    return false;
  }

  // Two pairs can make the same token. A pair that was merged twice gets the rank of its second merge.
  BpeTables finish() {
    std::unordered_map<Pair, size_t, HashPair> last;
    std::vector<Merge> merges;
    for (size_t i = 0; i < merges_.size(); ++i) last[pair_of(merges_[i].left, merges_[i].right)] = i;
    for (size_t i = 0; i < merges_.size(); ++i)
      if (last[pair_of(merges_[i].left, merges_[i].right)] == i) merges.push_back(merges_[i]);
    tables_.merges = std::move(merges);
    return std::move(tables_);
  }

 private:
  void merge(const Candidate& best) {
    const uint32_t left = best.pair >> 32, right = static_cast<uint32_t>(best.pair);
    const std::string bytes = tables_.tokens[left] + tables_.tokens[right];
    const auto [known, fresh] = known_.try_emplace(bytes, static_cast<uint32_t>(size()));
    if (fresh) tables_.tokens.push_back(bytes);
    merges_.push_back({left, right, known->second});
    for (const uint32_t w : best.words) merge_in(w, merges_.back());
    queue_changed();
  }

  void merge_in(uint32_t w, const Merge& merge) {
    std::vector<uint32_t>& tokens = words_[w].tokens;
    const int64_t count = words_[w].count;
    size_t to = 0;
    for (size_t from = 0; from < tokens.size(); ++from, ++to) {
      tokens[to] = tokens[from];
      if (from + 1 >= tokens.size() || tokens[from] != merge.left || tokens[from + 1] != merge.right) continue;
      tokens[to] = merge.token;
      if (to > 0) {
        change(pair_of(tokens[to - 1], merge.left), -count, w);
        change(pair_of(tokens[to - 1], merge.token), count, w);
      }
      if (++from + 1 < tokens.size()) {
        change(pair_of(merge.right, tokens[from + 1]), -count, w);
        change(pair_of(merge.token, tokens[from + 1]), count, w);
      }
    }
    tokens.resize(to);
  }

  void change(Pair pair, int64_t by, uint32_t w) {
    counts_[pair] += by;
    if (by < 0) return;
    std::vector<uint32_t>& words = changed_[pair];
    if (words.empty() || words.back() != w) words.push_back(w);
  }

  // Queues the new pairs.
  void queue_changed() {
    for (auto& [pair, words] : changed_)
      if (const int64_t count = counts_[pair]; count > 0) queue_.push({pair, count, std::move(words)});
    changed_.clear();
  }

  BpeTables tables_;
  std::vector<Merge> merges_;
  std::unordered_map<std::string, uint32_t> known_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t, HashPair> counts_;
  std::unordered_map<Pair, std::vector<uint32_t>, HashPair> changed_;  // new pairs, and the words they are in
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Bpe train_bpe(std::string_view text, int vocabulary, const std::function<void(int, int)>& progress) {
  if (vocabulary < 256) throw std::invalid_argument("a vocabulary of bytes and their merges has at least 256 tokens");
  Training training(text);
  while (training.size() < static_cast<size_t>(vocabulary) && training.merge_most_frequent())
    if (progress) progress(static_cast<int>(training.size()) - 256, vocabulary - 256);
  return Bpe(training.finish());
}

Tokenizer train_tokenizer(std::string_view text, int vocabulary, const std::vector<std::string>& special) {
  const int others = vocabulary - static_cast<int>(special.size());
  if (others < 256)
    throw std::invalid_argument("a vocabulary of " + std::to_string(vocabulary) + " has no room for " + special.back() +
                                " next to the bytes: use " + std::to_string(256 + special.size()));
  Progress progress(0, others - 256, "merge", 10);
  Bpe trained = train_bpe(text, others, [&](int done, int total) {
    if (done < total) progress.update(done, [&] { return std::to_string(256 + done) + " tokens"; });
  });
  return Tokenizer::bpe(std::move(trained)).with_special(special);
}
