#include "split.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "data/strings/utf8.hpp"
#include "regex.hpp"

namespace {

// Possessive repeats (++) match the same text but save no positions for backtracking.
#define SPACE WHITE_SPACE
#define OTHER "[^" SPACE "\\p{L}\\p{N}]++"
#define ENDING "'(?:[stmd]|re|ve|ll)"
#define SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]++"
#define FROM_LLAMA3(digits) \
  "(?i:" ENDING ")|[^\r\n\\p{L}\\p{N}]?\\p{L}++|" digits "| ?" OTHER "[\r\n]*+|[" SPACE "]*[\r\n]++|" SPACES

struct Pattern {
  Split split;
  const char* regex;   // our pattern, for PCRE2
  const char* theirs;  // the same split as tokenizer.json spells it
};
constexpr Pattern kPatterns[] = {
    {Split::gpt2, ENDING "| ?\\p{L}++| ?\\p{N}++| ?" OTHER "|" SPACES,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {Split::llama3, FROM_LLAMA3("\\p{N}{1,3}+"),
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)"},
    {Split::qwen2, FROM_LLAMA3("\\p{N}"),
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)"}};

const Pattern& pattern_of(Split split) {
  return *std::find_if(std::begin(kPatterns), std::end(kPatterns), [&](const Pattern& p) { return p.split == split; });
}

const Regex& compiled(Split split) {
  static const std::vector<Regex> all = [] {
    std::vector<Regex> regexes;
    for (const Pattern& p : kPatterns) regexes.emplace_back(p.regex);
    return regexes;
  }();
  return all[static_cast<size_t>(split)];
}

// Returns the end of the valid UTF-8 that starts at `at`.
size_t end_of_utf8(std::string_view text, size_t at) {
  constexpr uint64_t kNotAscii = 0x8080808080808080ull;
  for (;;) {
    for (uint64_t word; at + 8 <= text.size(); at += 8) {
      std::memcpy(&word, text.data() + at, 8);
      if (word & kNotAscii) break;
    }
    for (size_t to = std::min(text.size(), at + 8); at < to;)
      if (!next_code_point(text, at)) return at;
    if (at == text.size()) return at;
  }
}

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_ascii_mark(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

std::string regex_of(Split split) { return pattern_of(split).theirs; }

void for_each_run(std::string_view text, const std::function<void(std::string_view)>& with_utf8,
                  const std::function<void(std::string_view)>& with_other) {
  for (size_t at = 0; at < text.size();) {
    const size_t bad = end_of_utf8(text, at);
    if (bad > at) with_utf8(text.substr(at, bad - at));
    at = bad;
    while (at < text.size() && end_of_utf8(text.substr(at, 4), 0) == 0) ++at;
    if (at > bad) with_other(text.substr(bad, at - bad));
  }
}

void split_words(Split split, std::string_view text, const std::function<void(std::string_view)>& with_word) {
  const Regex& regex = compiled(split);
  const auto split_run = [&](std::string_view run) {
    for (size_t i = 0, end; i < run.size(); i = end) {
      end = regex.find(run, i).value().end;  // the patterns match any text
      with_word(run.substr(i, end - i));
    }
  };
  for_each_run(text, split_run, with_word);
}

// White space can only begin a word, so a word starts wherever white space follows a mark. In Llama 3's split, a word
// can also end with line ends, so they do not count.
std::vector<std::string_view> cut_between_words(Split split, std::string_view text, size_t bytes) {
  const auto starts_word = [split](char c) { return split == Split::gpt2 ? is_ascii_space(c) : c == ' ' || c == '\t'; };
  std::vector<std::string_view> pieces;
  while (text.size() > bytes) {
    size_t cut = bytes;
    while (cut < text.size() && !(is_ascii_mark(text[cut - 1]) && starts_word(text[cut]))) ++cut;
    pieces.push_back(text.substr(0, cut));
    text.remove_prefix(cut);
  }
  if (!text.empty()) pieces.push_back(text);
  return pieces;
}
