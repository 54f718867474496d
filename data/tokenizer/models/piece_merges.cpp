#include "piece_merges.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "data/strings/utf8.hpp"

namespace {

// Rank 0 is the highest score. Equal scores have the same rank.
std::vector<uint32_t> ranks_of(const std::vector<Piece>& pieces) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const Piece& piece : pieces)
    ranks.push_back(std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin());
  return ranks;
}

bool merges(PieceType type) { return type == PieceType::normal || type == PieceType::unused; }

}  // namespace

PieceMerges::PieceMerges(const PieceTables& tables, const std::vector<std::string>& texts) {
  const std::vector<uint32_t> ranks = ranks_of(tables.pieces);
  std::vector<PrefixTree::Entry> user_defined;
  for (uint32_t token = 0; token < texts.size(); ++token) {
    const PieceType type = tables.pieces[token].type;
    symbols_.push_back({texts[token].size(), type != PieceType::unused, ranks[token]});
    if (type == PieceType::user_defined) user_defined.emplace_back(texts[token], token);
  }
  user_defined_ = PrefixTree(std::move(user_defined));
  add_characters(tables, texts);
  add_merges(tables, texts);
}

// Makes every character in a piece a symbol, so that merges can start from it.
void PieceMerges::add_characters(const PieceTables& tables, const std::vector<std::string>& texts) {
  for (uint32_t token = 0; token < texts.size(); ++token) {
    if (!merges(tables.pieces[token].type)) continue;
    for (size_t at = 0; at < texts[token].size();) {
      const size_t start = at;
      const uint32_t point = *next_code_point(texts[token], at);
      const bool whole = start == 0 && at == texts[token].size();
      uint32_t& symbol = symbol_of_.try_emplace(point, kAbsent).first->second;
      if (whole) symbol = token;
    }
  }
  for (auto& [point, symbol] : symbol_of_)
    if (symbol == kAbsent) {
      symbol = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({utf8(point).size(), false, kAbsent});
    }
}

// Adds a merge for every pair of symbols that together make a piece.
void PieceMerges::add_merges(const PieceTables& tables, const std::vector<std::string>& texts) {
  std::unordered_map<std::string_view, uint32_t> symbols;
  for (uint32_t token = 0; token < texts.size(); ++token)
    if (merges(tables.pieces[token].type)) symbols.emplace(texts[token], token);
  const auto symbol_named = [&](std::string_view text) {
    if (const auto found = symbols.find(text); found != symbols.end()) return found->second;
    size_t end = 0;
    const std::optional<uint32_t> point = next_code_point(text, end);
    return point && end == text.size() ? symbol_of_.at(*point) : kAbsent;
  };
  std::vector<std::array<uint32_t, 3>> found;
  for (uint32_t token = 0; token < texts.size(); ++token) {
    if (!merges(tables.pieces[token].type)) continue;
    const std::string_view text = texts[token];
    for (size_t at = 0; next_code_point(text, at) && at < text.size();) {
      const uint32_t left = symbol_named(text.substr(0, at)), right = symbol_named(text.substr(at));
      if (left != kAbsent && right != kAbsent) found.push_back({left, right, token});
    }
  }
  merged_ = PairTable(found.size());
  for (const auto& [left, right, token] : found) merged_.set(left, right, token);
}

std::vector<uint32_t> PieceMerges::symbols_of(std::string_view word) const {
  std::vector<uint32_t> symbols;
  for (size_t at = 0; at < word.size();) {
    const size_t start = at;
    uint32_t symbol = kAbsent;
    user_defined_.for_each_prefix(word.substr(start), [&](size_t length, uint32_t token) {
      symbol = token;
      at = start + length;
    });
    if (symbol == kAbsent) {
      const std::optional<uint32_t> point = next_code_point(word, at);
      if (!point) ++at;
      const auto found = point ? symbol_of_.find(*point) : symbol_of_.end();
      symbol = found != symbol_of_.end() ? found->second : static_cast<uint32_t>(symbols_.size() + at - start);
    }
    symbols.push_back(symbol);
  }
  return symbols;
}

void PieceMerges::append(uint32_t symbol, const MadeOf& made_of, std::vector<WordPart>& parts) const {
  if (const auto pair = made_of.find(symbol); pair != made_of.end()) {
    append(pair->second.first, made_of, parts);
    append(pair->second.second, made_of, parts);
    return;
  }
  const bool is_known = symbol < symbols_.size();
  const size_t size = is_known ? symbols_[symbol].size : symbol - symbols_.size();
  const size_t begin = parts.empty() ? 0 : parts.back().end;
  parts.push_back({begin, begin + size, is_known && symbols_[symbol].is_token ? symbol : kAbsent});
}

std::vector<WordPart> PieceMerges::split(std::string_view word, bool) const {
  std::vector<uint32_t> symbols = symbols_of(word);
  MadeOf made_of;  // unused pieces; as in SentencePiece, the last pair that could make one is what it falls apart into
  const auto merge_of = [this](uint32_t left, uint32_t right) {
    const uint32_t symbol = merged_(left, right);
    return symbol == kAbsent ? PairMerge() : PairMerge{symbols_[symbol].rank, symbol};
  };
  merge_pairs(symbols, merge_of, [&](uint32_t left, uint32_t right, PairMerge merge) {
    if (!symbols_[merge.token].is_token) made_of[merge.token] = {left, right};
  });
  std::vector<WordPart> parts;
  parts.reserve(symbols.size());
  for (const uint32_t symbol : symbols) append(symbol, made_of, parts);
  return parts;
}
