#include "split.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "data/strings/utf8.hpp"

namespace {

// White space is Unicode's property White_Space; PCRE2's \s has one more character (U+180E). Possessive repeats (++)
// match the same text but save no positions for backtracking.
#define SPACE R"(\p{Z}\t-\r\x{85})"
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

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
using Code = std::unique_ptr<pcre2_code, Free>;
using Match = std::unique_ptr<pcre2_match_data, Free>;

[[noreturn]] void fail(int error) {
  if (error == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  unsigned char text[256];
  pcre2_get_error_message(error, text, sizeof text);
  throw std::runtime_error(std::string("cannot split the text into words: ") + reinterpret_cast<const char*>(text));
}

// If just-in-time compilation is not available, PCRE2 interprets the pattern.
Code compile(const char* pattern) {
  int error;
  PCRE2_SIZE at;
  const auto text = reinterpret_cast<PCRE2_SPTR>(pattern);
  Code code(pcre2_compile(text, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &at, nullptr));
  if (!code) fail(error);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

const pcre2_code* compiled(Split split) {
  static const std::array<Code, std::size(kPatterns)> codes = [] {
    std::array<Code, std::size(kPatterns)> all;
    for (const Pattern& p : kPatterns) all[static_cast<size_t>(p.split)] = compile(p.regex);
    return all;
  }();
  return codes[static_cast<size_t>(split)].get();
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

void split_words(Split split, std::string_view text, const std::function<void(std::string_view)>& with_word) {
  const pcre2_code* code = compiled(split);
  const Match match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.get());
  for (size_t at = 0; at < text.size();) {
    const std::string_view valid = text.substr(at, end_of_utf8(text, at) - at);
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(valid.data());
    for (size_t i = 0; i < valid.size(); i = found[1]) {
      const int n = pcre2_match(code, bytes, valid.size(), i, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (n < 0) fail(n);
      with_word(valid.substr(i, found[1] - i));
    }
    const size_t bad = at += valid.size();
    while (at < text.size() && end_of_utf8(text.substr(at, 4), 0) == 0) ++at;
    if (at > bad) with_word(text.substr(bad, at - bad));
  }
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
