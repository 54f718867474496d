#include "base64.hpp"

#include <array>
#include <cstdint>

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The value of each digit of base64; -1 for any other character.
constexpr std::array<int, 256> kNumbers = [] {
  std::array<int, 256> numbers{};
  numbers.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) numbers[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
  return numbers;
}();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const int number = kNumbers[static_cast<unsigned char>(c)];
    if (number < 0) return {};
    group = group << 6 | static_cast<uint32_t>(number);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 255);
  }
  return bytes;
}
