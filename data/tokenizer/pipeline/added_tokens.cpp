#include "added_tokens.hpp"

#include <algorithm>
#include <optional>

#include "data/strings/utf8.hpp"
#include "regex.hpp"

namespace {

bool is_in_word(std::optional<uint32_t> point) {
  // As in Rust's regular expressions, which `tokenizers` uses here, joiners are part of a word.
  static const Regex word("[" WORD_CHARACTER R"(\x{200c}\x{200d}])");
  return point && word.find(utf8(*point), 0);
}

// True if the text around [begin, end) does not continue a word.
bool is_single_word(std::string_view text, size_t begin, size_t end) {
  return !is_in_word(previous_code_point(text, begin)) && !is_in_word(next_code_point(text, end));
}

// Move over the white space before `at`, but not beyond `least`, or after it.
size_t before_spaces(std::string_view text, size_t at, size_t least) {
  for (size_t before = at; before > least; at = before) {
    const std::optional<uint32_t> point = previous_code_point(text, before);
    if (!point || !is_white_space(*point)) break;
  }
  return at;
}
size_t after_spaces(std::string_view text, size_t at) {
  for (size_t after = at; after < text.size(); at = after) {
    const std::optional<uint32_t> point = next_code_point(text, after);
    if (!point || !is_white_space(*point)) break;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.text < b.text; });
  for (const AddedToken& token : tokens_) begins_[static_cast<unsigned char>(token.text[0])] = true;
}

// Narrows the range of tokens that begin as the text does, byte by byte.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (size_t i = 0; i < text.size() && first != last; ++i) {
    const auto byte = [i](const AddedToken& token) { return static_cast<unsigned char>(token.text[i]); };
    const auto wanted = static_cast<unsigned char>(text[i]);
    const auto before = [&](const AddedToken& token) { return token.text.size() <= i || byte(token) < wanted; };
    first = std::partition_point(first, last, before);
    last = std::partition_point(first, last, [&](const AddedToken& token) { return byte(token) == wanted; });
    if (first != last && first->text.size() == i + 1) longest = &*first;
  }
  return longest;
}

void AddedTokens::split(std::string_view text, bool special, const std::function<void(std::string_view)>& with_text,
                        const std::function<void(uint32_t)>& with_token) const {
  size_t start = 0;  // of the text that belongs to no token yet
  for (size_t at = 0; at < text.size();) {
    const AddedToken* found = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
    if (!found) {
      ++at;
      continue;
    }
    size_t begin = at, end = at += found->text.size();
    if (found->special && !special) continue;
    if (found->single_word && !is_single_word(text, begin, end)) continue;
    if (found->left_strips) begin = before_spaces(text, begin, start);
    if (found->right_strips) end = after_spaces(text, end);
    if (start < begin) with_text(text.substr(start, begin - start));
    with_token(found->token);
    start = end;
  }
  if (start < text.size()) with_text(text.substr(start));
}
