#include "bpe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "normalize.hpp"

namespace {

constexpr size_t kPiece = 1 << 18;  // a thread encodes this many bytes at a time
constexpr size_t kShort = 48;       // up to this many symbols, scanning all pairs is faster than a queue

}  // namespace

std::vector<std::string> byte_tokens() {
  const auto shown = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  std::vector<std::string> tokens;
  for (const bool first : {true, false})
    for (int b = 0; b < 256; ++b)
      if (shown(b) == first) tokens.emplace_back(1, static_cast<char>(b));
  return tokens;
}

Bpe::Bpe(BpeTables tables) : tables_(std::move(tables)) {
  std::fill(std::begin(token_of_byte_), std::end(token_of_byte_), kAbsent);
  for (uint32_t t = tables_.tokens.size(); t-- > 0;)
    if (tables_.tokens[t].size() == 1) token_of_byte_[static_cast<unsigned char>(tables_.tokens[t][0])] = t;
  for (int byte = 0; byte < 256; ++byte)
    if (token_of_byte_[byte] == kAbsent) throw std::runtime_error("it has no token for byte " + std::to_string(byte));
  rank_of_ = PairTable(tables_.merges.size());
  for (uint32_t rank = 0; rank < tables_.merges.size(); ++rank)
    rank_of_.set(tables_.merges[rank].left, tables_.merges[rank].right, rank);
  if (!tables_.words_first) return;
  for (uint32_t t = 0; t < tables_.tokens.size(); ++t) sorted_.emplace_back(tables_.tokens[t], t);
  for (const SpecialToken& special : tables_.special)
    sorted_[special.token].first = "";
  std::sort(sorted_.begin(), sorted_.end());
}

void Bpe::merge_short(std::vector<uint32_t>& word) const {
  std::array<uint32_t, kShort> ranks;
  size_t n = word.size();
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_of_(word[i], word[i + 1]);
  while (n > 1) {
    const size_t best = std::min_element(ranks.begin(), ranks.begin() + n - 1) - ranks.begin();
    if (ranks[best] == kAbsent) break;
    word[best] = tables_.merges[ranks[best]].token;
    std::copy(word.begin() + best + 2, word.begin() + n, word.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + n - 1, ranks.begin() + best);
    --n;
    if (best > 0) ranks[best - 1] = rank_of_(word[best - 1], word[best]);
    if (best + 1 < n) ranks[best] = rank_of_(word[best], word[best + 1]);
  }
  word.resize(n);
}

void Bpe::encode_word(std::string_view word, std::vector<uint32_t>& tokens) const {
  tokens.clear();
  if (tables_.words_first) {
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(word, uint32_t{0}));
    if (found != sorted_.end() && found->first == word) return tokens.push_back(found->second);
  }
  for (const char byte : word) tokens.push_back(token_of_byte_[static_cast<unsigned char>(byte)]);
  if (tokens.size() <= kShort) return merge_short(tokens);
  merge_pairs(tokens, [this](uint32_t left, uint32_t right) {
    const uint32_t rank = rank_of_(left, right);
    return rank == kAbsent ? PairMerge() : PairMerge{rank, tables_.merges[rank].token};
  });
}

// A cache of recent short words and their tokens.
class Bpe::Words {
 public:
  explicit Words(const Bpe& bpe) : bpe_(bpe) {}

  void append(std::string_view word, std::vector<uint32_t>& tokens) {
    if (word.size() > sizeof(Entry::word)) return append_new(word, tokens);
    Entry key{};
    std::memcpy(key.word, word.data(), word.size());
    Entry& entry = entries_[(hash_bits(key.word[0]) ^ hash_bits(key.word[1] + word.size())) & (entries_.size() - 1)];
    if (entry.bytes != word.size() || entry.word[0] != key.word[0] || entry.word[1] != key.word[1]) {
      append_new(word, tokens);
      if (tokens_.size() > kTokens) return;
      key.bytes = static_cast<uint32_t>(word.size());
      key.count = static_cast<uint32_t>(tokens_.size());
      std::copy(tokens_.begin(), tokens_.end(), key.tokens);
      entry = key;
      return;
    }
    tokens.insert(tokens.end(), entry.tokens, entry.tokens + entry.count);
  }

 private:
  static constexpr size_t kTokens = 10;
  struct Entry {
    uint64_t word[2] = {};  // its bytes, padded with zeros
    uint32_t bytes = 0, count = 0;
    uint32_t tokens[kTokens] = {};
  };

  void append_new(std::string_view word, std::vector<uint32_t>& tokens) {
    bpe_.encode_word(word, tokens_);
    tokens.insert(tokens.end(), tokens_.begin(), tokens_.end());
  }

  const Bpe& bpe_;
  std::vector<Entry> entries_ = std::vector<Entry>(1 << 14);
  std::vector<uint32_t> tokens_;
};

// Cuts the text before ASCII characters, so that neither words nor normal forms depend on the previous part.
std::vector<uint32_t> Bpe::encode(std::string_view text) const {
  const std::vector<std::string_view> pieces = cut_between_words(tables_.split, text, kPiece);
  std::vector<std::vector<uint32_t>> parts(pieces.size());
#pragma omp parallel if (pieces.size() > 1)
  {
    Words words(*this);
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < pieces.size(); ++i) {
      parts[i].reserve(pieces[i].size() / 3);
      const std::string normal = tables_.nfc ? nfc(pieces[i]) : "";
      const std::string_view piece = tables_.nfc ? normal : pieces[i];
      split_words(tables_.split, piece, [&](std::string_view word) { words.append(word, parts[i]); });
    }
  }
  if (parts.size() == 1) return std::move(parts[0]);
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  std::vector<uint32_t> tokens;
  tokens.reserve(total);
  for (auto& part : parts) {
    tokens.insert(tokens.end(), part.begin(), part.end());
    part = {};
  }
  return tokens;
}
