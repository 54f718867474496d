#include "normalize.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "data/strings/utf8.hpp"

namespace {

using Points = std::vector<utf8proc_int32_t>;

// Characters below this one are already in form C, and do not combine with a character before them.
constexpr uint32_t kFirstMark = 0x300;
// utf8proc 2.8 drops this character after a Hangul syllable. It does not combine with a character before it, either.
constexpr uint32_t kNoHangulEnd = 0x11a7;

int combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

void check(utf8proc_ssize_t result) {
  if (result == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (result < 0) throw std::runtime_error(std::string("cannot normalize the text: ") + utf8proc_errmsg(result));
}

void append_decomposed(Points& decomposed, utf8proc_int32_t point, bool compatible) {
  constexpr int kMost = 32;  // more than any character needs
  utf8proc_int32_t parts[kMost];
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t n = utf8proc_decompose_char(point, parts, kMost, options, &boundary);
  check(n);
  decomposed.insert(decomposed.end(), parts, parts + std::min<utf8proc_ssize_t>(n, kMost));
}

// Sorts the marks of each letter by class. utf8proc's own sort takes quadratic time in the number of marks on a letter.
void sort_marks(Points& points) {
  const auto is_letter = [](utf8proc_int32_t point) { return combining_class(point) == 0; };
  const auto by_class = [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); };
  for (auto at = points.begin(); at != points.end();) {
    const auto first = std::find_if_not(at, points.end(), is_letter);
    at = std::find_if(first, points.end(), is_letter);
    if (!std::is_sorted(first, at, by_class)) std::stable_sort(first, at, by_class);
  }
}

bool composes(NormalForm form) { return form == NormalForm::c || form == NormalForm::kc; }

void append_normal(std::string& result, const Points& points, NormalForm form) {
  Points normal;
  for (const utf8proc_int32_t point : points) append_decomposed(normal, point, form >= NormalForm::kc);
  sort_marks(normal);
  if (!composes(form)) {
    for (const utf8proc_int32_t point : normal) result += utf8(static_cast<uint32_t>(point));
    return;
  }
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t n = utf8proc_normalize_utf32(normal.data(), normal.size(), options);
  check(n);
  for (utf8proc_ssize_t i = 0; i < n; ++i) result += utf8(static_cast<uint32_t>(normal[i]));
}

// Returns the end of the ASCII text from `at` on, less its last character, which marks may follow.
size_t end_of_ascii(std::string_view text, size_t at) {
  while (at + 1 < text.size() && !((text[at] | text[at + 1]) & 0x80)) ++at;
  return at;
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  const auto first_changed = static_cast<int32_t>(form == NormalForm::c ? kFirstMark : 0x80);
  std::string result;
  result.reserve(text.size());
  Points points;  // one character and the characters from kFirstMark on that follow it
  const auto finish = [&] {
    if (points.size() == 1 && points[0] < first_changed) result += utf8(points[0]);
    else if (!points.empty()) append_normal(result, points, form);
    points.clear();
  };
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = end_of_ascii(text, at); end > at) {
      finish();
      result += text.substr(at, end - at);
      at = end;
    }
    const std::optional<uint32_t> point = next_code_point(text, at);
    if (!point || *point < kFirstMark || *point == kNoHangulEnd) finish();
    if (point) points.push_back(static_cast<utf8proc_int32_t>(*point));
    else result += text[at++];
  }
  finish();
  return result;
}

std::string lower_case(std::string_view text) {
  constexpr uint32_t kDottedI = 0x130;  // the only character with two in lower case
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::optional<uint32_t> point = next_code_point(text, at);
    if (!point) result += text[at++];
    else if (*point == kDottedI) result += "i\u0307";
    else result += utf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(*point))));
  }
  return result;
}
