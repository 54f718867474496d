#include "setting.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "data/host/utf8.hpp"

namespace {

// "1e6" and "1e-6", not "1e+06" and "1e-06".
std::string limit(double x) {
  std::string s = toml(x);
  std::erase(s, '+');
  const size_t zero = s.find("e0") != s.npos ? s.find("e0") + 1 : s.find("e-0") != s.npos ? s.find("e-0") + 2 : s.npos;
  return zero == s.npos ? s : s.erase(zero, 1);
}

}  // namespace

double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole) {
  std::string digits = text;
  std::erase(digits, '_');
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  const bool decimal = digits.find_first_of("xX \t\n") == digits.npos;  // strtod also reads hexadecimal
  const std::string range = limit(low) + " to " + limit(high), given = "--" + name + " " + for_terminal(text) + " is ";
  if (digits.empty() || *end || !decimal) throw std::invalid_argument(given + "not a number: choose " + range);
  if (!(x >= low && x <= high)) throw std::invalid_argument(given + "outside the range: choose " + range);
  if (whole && x != std::floor(x)) throw std::invalid_argument(given + "not a whole number: choose one in " + range);
  return x;
}

bool parse_bool(const std::string& name, const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") return true;
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  throw std::invalid_argument("--" + name + " " + for_terminal(text) + " is not true or false: write --" + name +
                              " or --no-" + name);
}

Setting& Describe::add(const std::string& name, const std::string& takes, const std::string& help) {
  Setting& s = settings.emplace_back();
  s.name = name, s.takes = takes, s.help = help, s.group = group_;
  s.open = [] { return false; };
  return s;
}

Setting& Describe::value(const std::string& name, std::string& variable, const std::string& help) {
  Setting& s = add(name, "TEXT", help);
  s.shown = variable;
  s.set = [&variable](const std::string& text) { variable = text; };
  s.value = [&variable] { return toml(variable); };
  return s;
}

Setting& Describe::value(const std::string& name, std::vector<std::string>& variable, const std::string& help) {
  Setting& s = add(name, "TEXT...", help);
  s.list = true;
  s.set = [&variable](const std::string& text) { variable.push_back(text); };
  s.value = [&variable] { return toml(variable); };
  return s;
}

Setting& Describe::positional(const std::string& name, std::string& variable, const std::string& help) {
  Setting& s = value(name, variable, help);
  s.positional = true;
  return s;
}

Setting& Describe::flag(const std::string& name, bool& variable, const std::string& help) {
  Setting& s = add(name, "", help);
  s.shown = variable ? "on" : "";
  s.set = [&variable, name](const std::string& text) { variable = parse_bool(name, text); };
  s.value = [&variable] { return toml(variable); };
  return s;
}

Setting& Describe::open_flag(const std::string& name, std::optional<bool>& variable, const std::string& help) {
  Setting& s = add(name, "", help);
  s.set = [&variable, name](const std::string& text) { variable = parse_bool(name, text); };
  s.value = [&variable] { return variable ? toml(*variable) : ""; };
  s.open = [&variable] { return !variable; };
  return s;
}

Setting& Describe::open_number(const std::string& name, std::optional<double>& variable, double low, double high,
                               const std::string& help) {
  Setting& s = add(name, "X", help);
  s.set = [=, &variable](const std::string& text) { variable = parse_number(name, text, low, high, false); };
  s.value = [&variable] { return variable ? toml(*variable) : ""; };
  s.open = [&variable] { return !variable; };
  return s;
}

Setting& Describe::number(const std::string& name, Config& config, const std::string& help) {
  const auto& rows = config_numbers();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const ConfigNumber& n) { return n.name == name; });
  const auto of_member = [&](auto member) -> Setting& {
    auto& variable = config.*member;
    if constexpr (std::is_same_v<decltype(variable), std::optional<double>&>) {
      return open_number(name, variable, row->low, row->high, help);
    } else {
      Setting& s = number(name, variable, row->low, row->high, help);
      if (row->derived_if_0) s.open = [&variable] { return variable == 0; };
      if (row->derived_if_0 && variable == 0) s.shown = "";
      return s;
    }
  };
  return std::visit(of_member, row->member);
}
