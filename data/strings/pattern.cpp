#include "pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <stdexcept>

#include "utf8.hpp"

namespace {

// A pattern with three stars takes some 40,000 steps on a name of 60 characters.
constexpr uint32_t kMostSteps = 1000000, kMostDepth = 10000, kMostHeap = 20000;  // the heap in KiB
constexpr size_t kLongest = 10000;                                               // longest pattern in bytes

constexpr uint32_t kAsECMAScript =
    PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF | PCRE2_DOLLAR_ENDONLY;

std::string description_of(int error) {
  unsigned char text[256] = "";
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

Pattern::Pattern(const std::string& option, const std::string& pattern)
    : shown_("--" + option + " " + in_quotes(pattern)) {
  if (pattern.size() > kLongest)
    throw std::invalid_argument(shown_ + " has " + std::to_string(pattern.size()) + " characters: write at most " +
                                std::to_string(kLongest));
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kAsECMAScript, &error,
                                   &at, nullptr);
  if (!code && error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (!code)
    throw std::invalid_argument(shown_ + " is not a regular expression: " + description_of(error) +
                                " after character " + std::to_string(at));
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  if (!limits) throw std::bad_alloc();
  limits_ = std::shared_ptr<const void>(limits, [limits](const void*) { pcre2_match_context_free(limits); });
  pcre2_set_match_limit(limits, kMostSteps);
  pcre2_set_depth_limit(limits, kMostDepth);
  pcre2_set_heap_limit(limits, kMostHeap);
}

bool Pattern::matches(const std::string& text) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  auto* limits = static_cast<pcre2_match_context*>(const_cast<void*>(limits_.get()));
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  if (!match) throw std::bad_alloc();
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match, limits);
  pcre2_match_data_free(match);
  if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (found < 0 && found != PCRE2_ERROR_NOMATCH)
    throw std::invalid_argument(shown_ + " cannot be matched with " + text + ": " + description_of(found) +
                                "; write a simpler pattern");
  return found >= 0;
}
