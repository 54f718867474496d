#include "tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace {

// The code point that starts at text[at]; moves `at` behind it. UTF-8 as in RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const uint32_t first = byte(at);
  const int more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
  uint32_t point = more <= 0 ? first : first & (0x3f >> more);
  bool ok = more >= 0;
  for (int i = 1; ok && i <= more; ++i) {
    ok = (byte(at + i) & 0xc0) == 0x80;
    point = point << 6 | (byte(at + i) & 0x3f);
  }
  const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (!ok || point < least[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
    throw std::runtime_error("the text is not UTF-8 (byte " + std::to_string(at) +
                             "): convert it, or use --tokenizer byte, which reads anything");
  at += more + 1;
  return point;
}

std::string utf8(uint32_t point) {
  std::string s;
  const auto put = [&](uint32_t byte) { s += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6), put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12), put(0x80 | (point >> 6 & 0x3f)), put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18), put(0x80 | (point >> 12 & 0x3f)), put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
  return s;
}

}  // namespace

Tokenizer Tokenizer::bytes() { return {}; }

Tokenizer Tokenizer::characters(std::string_view text) {
  std::vector<bool> seen(0x110000);
  for (size_t at = 0; at < text.size();) seen[next_code_point(text, at)] = true;
  std::vector<uint32_t> points;
  for (uint32_t point = 0; point < seen.size(); ++point)
    if (seen[point]) points.push_back(point);
  return characters(std::move(points));
}

Tokenizer Tokenizer::characters(std::vector<uint32_t> code_points) {
  if (code_points.size() > 0xffff)
    throw std::runtime_error("the text has more than 65,535 different characters: use --tokenizer byte");
  Tokenizer tokenizer;
  tokenizer.kind_ = Kind::character;
  tokenizer.alphabet_ = std::move(code_points);
  return tokenizer;
}

int Tokenizer::vocabulary() const { return kind_ == Kind::byte ? 256 : static_cast<int>(alphabet_.size()); }

std::vector<uint16_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint16_t> tokens;
  tokens.reserve(text.size());
  if (kind_ == Kind::byte) {
    for (unsigned char byte : text) tokens.push_back(byte);
    return tokens;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const uint32_t point = next_code_point(text, at);
    const auto found = std::lower_bound(alphabet_.begin(), alphabet_.end(), point);
    if (found == alphabet_.end() || *found != point) {
      char number[16];
      std::snprintf(number, sizeof number, "U+%04X", point);
      throw std::runtime_error("character '" + utf8(point) + "' (" + number + ", byte " + std::to_string(start) +
                               ") is not in the model's vocabulary: it did not occur in the training text");
    }
    tokens.push_back(static_cast<uint16_t>(found - alphabet_.begin()));
  }
  return tokens;
}

std::string Tokenizer::decode(int token) const {
  if (token < 0 || token >= vocabulary()) return "";
  return kind_ == Kind::byte ? std::string(1, static_cast<char>(token)) : utf8(alphabet_[token]);
}
