#include "byte_alphabet.hpp"

#include <array>
#include <cstdint>
#include <optional>

#include "data/strings/utf8.hpp"

namespace {

constexpr uint32_t kFirstStandIn = 0x100;

const std::array<uint32_t, 256>& characters_of_bytes() {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> points{};
    uint32_t rank = 0, next = kFirstStandIn;
    for (const std::string& token : byte_tokens()) {
      const auto byte = static_cast<unsigned char>(token[0]);
      points[byte] = rank++ < 188 ? byte : next++;
    }
    return points;
  }();
  return table;
}

}  // namespace

std::vector<std::string> byte_tokens() {
  const auto shown = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  std::vector<std::string> tokens;
  for (const bool first : {true, false})
    for (int b = 0; b < 256; ++b)
      if (shown(b) == first) tokens.emplace_back(1, static_cast<char>(b));
  return tokens;
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += utf8(characters_of_bytes()[static_cast<unsigned char>(byte)]);
  return text;
}

std::string from_printable(std::string_view text) {
  static const std::array<int, 0x144> bytes = [] {
    std::array<int, 0x144> table;
    table.fill(-1);
    for (int b = 0; b < 256; ++b) table[characters_of_bytes()[b]] = b;
    return table;
  }();
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const std::optional<uint32_t> point = next_code_point(text, at);
    if (!point || *point >= bytes.size() || bytes[*point] < 0) return std::string(text);
    result += static_cast<char>(bytes[*point]);
  }
  return result;
}
