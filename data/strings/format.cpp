#include "format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

std::string format(const char* printf_format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, printf_format, value);
  return text;
}

size_t columns_of(const std::string& utf8) {
  size_t columns = 0;
  for (const char c : utf8) columns += (c & 0xc0) != 0x80;  // bytes that begin a character
  return columns;
}

std::string padded(const std::string& utf8, size_t columns) {
  const size_t width = columns_of(utf8);
  return utf8 + std::string(columns > width ? columns - width : 0, ' ');
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], columns_of(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (width[i] == 0) continue;
      const std::string space(width[i] - columns_of(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i < left ? row[i] + space : space + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!{}") == word.npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += (line.empty() ? "" : " ") + (plain ? word : quoted + "'");
  }
  return line;
}

std::string format_short(double n) {
  const char* units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (n >= 999.5 && unit < 4) {
    n /= 1000;
    ++unit;
  }
  const char* decimals = n < 10 ? "%.2f" : "%.1f";
  return format(unit == 0 || n >= 100 ? "%.0f" : decimals, n) + units[unit];
}

std::string format_bytes(size_t bytes) {
  std::string text = format_short(static_cast<double>(bytes));
  const size_t space = text.find(' ');
  return space == std::string::npos ? text + " bytes" : text + "B";
}

std::string format_count(double n) {
  std::string digits = format("%.0f", n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string format_hash(uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string counted(double n, const std::string& noun) {
  const std::string plural = noun.ends_with("y") ? noun.substr(0, noun.size() - 1) + "ies" : noun + "s";
  return format_count(n) + " " + (n == 1 ? noun : plural);
}

std::string format_seconds(double seconds) {
  const int64_t s = std::llround(seconds);
  const auto two = [](int64_t large, const char* unit, int64_t small, const char* part) {
    return std::to_string(large) + unit + (small ? " " + std::to_string(small) + part : "");
  };
  if (s < 60) return std::to_string(s) + " s";
  return s < 3600 ? two(s / 60, " min", s % 60, " s") : two(s / 3600, " h", s / 60 % 60, " min");
}
