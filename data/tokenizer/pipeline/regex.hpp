#pragma once
// Regular expressions of PCRE2 over UTF-8, and the translation of those in a tokenizer.json, which are Oniguruma's.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

class Regex {
 public:
  struct Match {
    size_t begin, end;
  };

  // `options` are added to PCRE2_UTF. Throws UnsupportedPart if PCRE2 does not compile the pattern.
  explicit Regex(const std::string& pattern, uint32_t options = 0);

  // Returns the first match that begins at `at` or later. `text` must be UTF-8, and `at` the start of a character.
  // Throws std::runtime_error if PCRE2 gives up, as it does when a pattern needs too many steps.
  std::optional<Match> find(std::string_view text, size_t at) const;

  // Calls with_match(match) for all matches from left to right. An empty match does not follow another one directly.
  void for_each(std::string_view text, const std::function<void(Match)>& with_match) const;

 private:
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// Characters as classes without brackets, for every version of PCRE2. \s of PCRE2 also has U+180E, which is not one of
// Unicode's White_Space, and \w has only letters, numbers and the underscore.
#define WHITE_SPACE R"(\p{Z}\t-\r\x{85})"
#define WORD_CHARACTER R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})"

// Compiles a pattern of Oniguruma's Ruby syntax. Throws UnsupportedPart for what PCRE2 reads differently and this
// does not translate.
Regex from_oniguruma(const std::string& pattern);

// Compiles the pattern of this text.
Regex from_text(const std::string& text);
