#include "unigram.hpp"

#include <algorithm>

#include "data/strings/utf8.hpp"

namespace {

PrefixTree tree_of(const std::vector<UnigramPiece>& pieces) {
  std::vector<PrefixTree::Entry> entries;
  for (uint32_t i = 0; i < pieces.size(); ++i) entries.emplace_back(pieces[i].text, i);
  return PrefixTree(std::move(entries));
}

// The best segmentation of the beginning of a word.
struct Best {
  static constexpr size_t kNone = ~size_t{0};
  double sum = 0;
  size_t last = kNone;  // where its last part begins
  uint32_t token = kAbsent;
};

std::vector<WordPart> parts_on_best_path(const std::vector<Best>& best) {
  std::vector<WordPart> parts;
  for (size_t end = best.size() - 1; end > 0; end = best[end].last) {
    const auto [sum, begin, token] = best[end];
    if (token == kAbsent && !parts.empty() && parts.back().token == kAbsent) parts.back().begin = begin;
    else parts.push_back({begin, end, token});
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Unigram::Unigram(const std::vector<UnigramPiece>& pieces, double lowest_score, Sums sums)
    : tree_(tree_of(pieces)), sums_(sums) {
  for (const UnigramPiece& piece : pieces) scores_.push_back({piece.score, piece.token, piece.special});
  unknown_score_ = rounded(lowest_score - kUnknownPenalty);
}

std::vector<WordPart> Unigram::split(std::string_view word, bool special) const {
  std::vector<Best> best(word.size() + 1);
  const auto reach = [&](size_t begin, size_t end, double sum, uint32_t token) {
    if (best[end].last != Best::kNone && !(sum > best[end].sum)) return;
    best[end] = {sum, begin, token};
  };
  for (size_t at = 0, next; at < word.size(); at = next) {
    next = at;
    if (!next_code_point(word, next)) ++next;
    bool is_piece = false;  // the character at `at` alone
    tree_.for_each_prefix(word.substr(at), [&](size_t length, uint32_t i) {
      const Score& piece = scores_[i];
      if (piece.special && !special) return;
      is_piece = is_piece || at + length == next;
      reach(at, at + length, rounded(best[at].sum + piece.score), piece.token);
    });
    if (!is_piece) reach(at, next, rounded(best[at].sum + unknown_score_), kAbsent);
  }
  return parts_on_best_path(best);
}
