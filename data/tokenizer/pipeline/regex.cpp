#include "regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "unknown.hpp"

namespace {

// The message of an error code of PCRE2.
std::string error_text(int error) {
  if (error == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  unsigned char text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// What one thread needs to match: a place for the result, and a stack for compiled patterns.
class MatchMemory {
 public:
  MatchMemory() {
    if (!data_ || !context_ || !stack_) throw std::bad_alloc();
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }
  pcre2_match_data* data() const { return data_.get(); }
  pcre2_match_context* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };
  static constexpr size_t kFirstStack = 1 << 15, kLargestStack = 1 << 23;  // bytes

  std::unique_ptr<pcre2_match_data, Free> data_{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free> context_{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free> stack_{pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr)};
};

}  // namespace

// If just-in-time compilation is not available, PCRE2 interprets the pattern.
Regex::Regex(const std::string& pattern, uint32_t options) {
  int error;
  PCRE2_SIZE at;
  const auto text = reinterpret_cast<PCRE2_SPTR>(pattern.data());
  pcre2_code* code = pcre2_compile(text, pattern.size(), PCRE2_UTF | options, &error, &at, nullptr);
  if (!code) throw UnsupportedPart("the regular expression " + in_quotes(pattern) + ": " + error_text(error));
  code_.reset(code, [](pcre2_code* p) { pcre2_code_free(p); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t at) const {
  static thread_local const MatchMemory memory;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int n = pcre2_match(code_.get(), bytes, text.size(), at, PCRE2_NO_UTF_CHECK, memory.data(), memory.context());
  if (n == PCRE2_ERROR_NOMATCH) return {};
  if (n < 0) throw std::runtime_error("cannot split the text into words: " + error_text(n));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(memory.data());
  return Match{found[0], found[1]};
}

void Regex::for_each(std::string_view text, const std::function<void(Match)>& with_match) const {
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const std::optional<Match> match = find(text, at);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {
      if (at == text.size()) return;
      next_code_point(text, at);
      continue;
    }
    with_match(*match);
    last_end = at = match->end;
  }
}

// ---- Oniguruma -------------------------------------------------------------------------------------------

namespace {

// How an escape of Oniguruma is written for PCRE2, outside and inside of brackets; null: the same way.
struct Escape {
  char letter;
  const char *outside, *inside;
};
#define NEITHER ""  // stands for what is not translated
constexpr Escape kEscapes[] = {
    {'s', "[" WHITE_SPACE "]", WHITE_SPACE},
    {'S', "[^" WHITE_SPACE "]", R"(\S\x{180e})"},
    {'w', "[" WORD_CHARACTER "]", WORD_CHARACTER},
    {'W', "[^" WORD_CHARACTER "]", NEITHER},
    {'d', R"(\p{Nd})", R"(\p{Nd})"},
    {'D', R"(\P{Nd})", R"(\P{Nd})"},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", NEITHER},
    {'b', "(?:(?<=[" WORD_CHARACTER "])(?![" WORD_CHARACTER "])|(?<![" WORD_CHARACTER "])(?=[" WORD_CHARACTER "]))",
     R"(\x08)"},
    {'B', NEITHER, NEITHER},
    {'K', NEITHER, NEITHER},
    {'G', NEITHER, NEITHER},
    {'g', NEITHER, NEITHER},
    {'k', NEITHER, NEITHER},
    {'O', NEITHER, NEITHER},
    {'N', NEITHER, NEITHER},
    {'y', NEITHER, NEITHER},
    {'Y', NEITHER, NEITHER},
    {'Q', "Q", "Q"},
    {'E', "E", "E"},
};

[[noreturn]] void lack_regex(std::string_view part, const std::string& pattern) {
  throw UnsupportedPart("a regular expression with " + in_quotes(part) + " (" + in_quotes(pattern) +
                           ") is not supported");
}

bool is_hexadecimal(std::string_view text) {
  for (const char c : text)
    if (!std::isxdigit(static_cast<unsigned char>(c))) return false;
  return true;
}

// Translates the escape at pattern[at] and moves `at` past it.
std::string translated_escape(const std::string& pattern, size_t& at, bool in_brackets) {
  if (at + 1 == pattern.size()) lack_regex("\\", pattern);
  const char letter = pattern[at + 1];
  if (letter == 'u' && at + 6 <= pattern.size() && is_hexadecimal(std::string_view(pattern).substr(at + 2, 4))) {
    at += 6;
    return "\\x{" + pattern.substr(at - 4, 4) + "}";
  }
  if (letter == 'u') lack_regex("\\u", pattern);
  at += 2;
  for (const Escape& row : kEscapes) {
    if (row.letter != letter) continue;
    const std::string written = in_brackets ? row.inside : row.outside;
    if (written == NEITHER) lack_regex(std::string("\\") + letter, pattern);
    return written;
  }
  return std::string("\\") + letter;
}

// Groups that mean the same in both. Ruby's (?m) is PCRE2's (?s).
bool is_known_group(std::string_view rest) {
  if (!rest.starts_with("(?")) return !rest.starts_with("(*");
  for (const char* known : {"(?:", "(?i:", "(?i)", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
    if (rest.starts_with(known)) return true;
  return false;
}

// Returns the size of a {2,3} at the beginning of the text, or 0. A '+' after it repeats it in Ruby, and is possessive
// in PCRE2.
size_t size_of_interval(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789,", 1), text.size());
  return text[0] == '{' && end > 1 && end + 1 < text.size() && text[end] == '}' ? end + 1 : 0;
}

}  // namespace

Regex from_oniguruma(const std::string& pattern) {
  std::string translated;
  int depth = 0;  // of brackets; Oniguruma's may stand in others, whose characters they add to
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view rest = std::string_view(pattern).substr(at);
    if (rest[0] == '\\') {
      translated += translated_escape(pattern, at, depth > 0);
      continue;
    }
    if (depth > 0 && rest.starts_with("[:")) {
      const size_t end = pattern.find(":]", at);
      if (end == pattern.npos) lack_regex("[:", pattern);
      translated += pattern.substr(at, end + 2 - at);
      at = end + 2;
      continue;
    }
    if (depth > 0 && (rest.starts_with("[^") || rest.starts_with("&&"))) lack_regex(rest.substr(0, 2), pattern);
    if (depth == 0 && rest[0] == '(' && !is_known_group(rest)) lack_regex(rest.substr(0, 4), pattern);
    if (const size_t interval = depth == 0 ? size_of_interval(rest) : 0; interval > 0 && rest[interval] == '+')
      lack_regex(rest.substr(0, interval + 1), pattern);
    const bool opens = rest[0] == '[', closes = depth > 0 && rest[0] == ']';
    if (opens) ++depth;
    if (!(opens || closes) || depth == 1) translated += rest[0];
    if (closes) --depth;
    ++at;
    if (!opens) continue;
    for (const char first : {'^', ']'})  // a bracket that comes first is a character
      if (at < pattern.size() && pattern[at] == first) {
        translated += first == ']' ? "\\]" : "^";
        ++at;
      }
  }
  return Regex(translated, PCRE2_UCP | PCRE2_MULTILINE);
}

Regex from_text(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c))) pattern += '\\';
    pattern += c;
  }
  return Regex(pattern);
}
