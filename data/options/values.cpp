#include "values.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "data/strings/utf8.hpp"
#include "toml.hpp"

namespace {

// "1e6" and "1e-6", not "1e+06" and "1e-06".
std::string limit(double x) {
  std::string s = toml(x);
  std::erase(s, '+');
  const size_t exponent = s.find('e');
  if (exponent == s.npos) return s;
  const size_t first = exponent + 1 + (s[exponent + 1] == '-');
  return s[first] == '0' ? s.erase(first, 1) : s;
}

// "10k" as "10e3" and "10%" as "10e-2", if the option counts something or is a fraction.
std::string without_suffix(std::string digits, double high, bool whole) {
  const auto replace_last = [&](const char* exponent) { digits.replace(digits.size() - 1, 1, exponent); };
  const bool number = digits.size() > 1 && std::isdigit(static_cast<unsigned char>(digits[digits.size() - 2]));
  const char last = number && digits.find_first_of("eE") == digits.npos ? digits.back() : '\0';
  if (whole && (last == 'k' || last == 'K')) replace_last("e3");
  if (whole && last == 'M') replace_last("e6");
  if (!whole && last == '%' && high <= 1) replace_last("e-2");
  return digits;
}

}  // namespace

double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole,
                    const std::string& unit) {
  std::string digits = text;
  std::erase(digits, '_');
  digits = without_suffix(digits, high, whole);
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  const bool decimal = digits.find_first_of("xX \t\n") == digits.npos;  // strtod also reads hexadecimal
  const std::string range = limit(low) + unit + " to " + limit(high) + unit;
  const std::string given = "--" + name + " " + one_line(text) + unit + " is ";
  if (digits.empty() || *end || !decimal) throw std::invalid_argument(given + "not a number: choose " + range);
  if (!(x >= low && x <= high)) throw std::invalid_argument(given + "outside the range: choose " + range);
  if (whole && x != std::floor(x)) throw std::invalid_argument(given + "not a whole number: choose one in " + range);
  return x;
}

std::optional<bool> truth_of(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return {};
}

bool parse_bool(const std::string& name, const std::string& text) {
  if (const auto truth = truth_of(text)) return *truth;
  throw std::invalid_argument("--" + name + " " + one_line(text) + " is not true or false: write --" + name +
                              " or --no-" + name);
}
