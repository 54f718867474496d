#include "bert.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "data/strings/utf8.hpp"
#include "normalize.hpp"

namespace {

struct Range {
  uint32_t first, last;
};

template <size_t n>
bool is_in(const Range (&ranges)[n], uint32_t point) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [=](const Range& range) { return range.first <= point && point <= range.last; });
}

constexpr uint32_t kReplacement = 0xfffd;

// The ranges of `tokenizers`, which lack U+2B820 to U+2B91F.
constexpr Range kChinese[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b81f},
                              {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
constexpr Range kNmtRemoved[] = {{0x1, 0x8}, {0xb, 0xb}, {0xe, 0x1f}, {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
constexpr Range kNmtSpaces[] = {{0x9, 0xa},       {0xc, 0xd},       {0x1680, 0x1680}, {0x200b, 0x200f},
                                {0x2028, 0x2029}, {0x2581, 0x2581}, {0xfeff, 0xfeff}, {kReplacement, kReplacement}};

utf8proc_category_t category_of(uint32_t point) { return utf8proc_category(static_cast<utf8proc_int32_t>(point)); }

bool is_control(uint32_t point) {
  if (point == '\t' || point == '\n' || point == '\r') return false;
  const utf8proc_category_t category = category_of(point);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_mark(uint32_t point) {
  const utf8proc_category_t category = category_of(point);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

// Calls append(result, point) for each code point of a text that is UTF-8.
template <class Append>
std::string mapped(std::string_view text, const Append& append) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) append(result, next_code_point(text, at).value());
  return result;
}

std::string cleaned(std::string_view text) {
  return mapped(text, [](std::string& result, uint32_t point) {
    if (point == 0 || point == kReplacement || is_control(point)) return;
    result += is_white_space(point) ? " " : utf8(point);
  });
}

std::string with_cjk_split(std::string_view text) {
  return mapped(text, [](std::string& result, uint32_t point) {
    result += is_in(kChinese, point) ? " " + utf8(point) + " " : utf8(point);
  });
}

std::string without_accents(std::string_view text) {
  return mapped(normal_form(text, NormalForm::d), [](std::string& result, uint32_t point) {
    if (category_of(point) != UTF8PROC_CATEGORY_MN) result += utf8(point);
  });
}

}  // namespace

std::string BertNormalizer::operator()(std::string_view text) const {
  std::string result(text);
  if (cleans) result = cleaned(result);
  if (splits_cjk) result = with_cjk_split(result);
  if (strips_accents) result = without_accents(result);
  if (lowers_case) result = lower_case(result);
  return result;
}

std::string without_marks(std::string_view text) {
  return mapped(text, [](std::string& result, uint32_t point) {
    if (!is_mark(point)) result += utf8(point);
  });
}

std::string nmt_cleaned(std::string_view text) {
  return mapped(text, [](std::string& result, uint32_t point) {
    if (is_in(kNmtRemoved, point)) return;
    result += is_in(kNmtSpaces, point) ? " " : utf8(point);
  });
}
