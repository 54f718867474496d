#include "word_piece.hpp"

#include <algorithm>
#include <string_view>

WordPiece::WordPiece(const std::vector<std::string>& words, std::vector<bool> special, const Options& options)
    : special_(std::move(special)), most_characters_(options.most_characters) {
  std::vector<PrefixTree::Entry> first, later;
  for (uint32_t token = 0; token < words.size(); ++token) {
    const std::string_view word = words[token];
    first.emplace_back(word, token);
    if (word.starts_with(options.prefix)) later.emplace_back(word.substr(options.prefix.size()), token);
  }
  first_ = PrefixTree(std::move(first));
  later_ = PrefixTree(std::move(later));
}

std::vector<WordPart> WordPiece::split(std::string_view word, bool special) const {
  const std::vector<WordPart> none = {{0, word.size(), kAbsent}};
  const auto starts_character = [](char c) { return (c & 0xc0) != 0x80; };
  if (static_cast<size_t>(std::ranges::count_if(word, starts_character)) > most_characters_) return none;
  std::vector<WordPart> parts;
  for (size_t at = 0; at < word.size(); at = parts.back().end) {
    WordPart longest{at, at, kAbsent};
    (at == 0 ? first_ : later_).for_each_prefix(word.substr(at), [&](size_t length, uint32_t token) {
      if (special || !special_[token]) longest = {at, at + length, token};
    });
    if (longest.token == kAbsent) return none;
    parts.push_back(longest);
  }
  return parts;
}
