#pragma once
// The table of options: each is described once (name, variable, range, help). The table parses command lines and
// config files, prints --help and writes config.toml.

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "layers/model/config.hpp"
#include "toml.hpp"

struct Setting {
  std::string name, group, help;
  std::string takes;                            // stands for the value in the help: "N"; "": a flag
  std::string shown;                            // the default in the help; "": none
  bool list = false;                            // takes one value or more
  bool positional = false;                      // has no dashes
  bool required = false;
  std::vector<std::string> choices, synonyms;   // the names that it takes, if it takes names
  std::function<void(const std::string&)> set;  // throws std::invalid_argument "--lr x is not a number: ..."
  std::function<std::string()> value;           // as TOML
  std::function<bool()> open;                   // left to the placement, the preset or the other sizes

  bool flag() const { return takes.empty(); }
  bool numeric() const { return takes == "N" || takes == "X"; }
};

// The largest whole number that options take: up to 2^53, some 9e15, all of them are exact in double.
inline constexpr double kLargest = 1e15;

// A number within limits, which are included; "1e3" and "1_000" are whole numbers. Throws std::invalid_argument.
double parse_number(const std::string& name, const std::string& text, double low, double high, bool whole);
bool parse_bool(const std::string& name, const std::string& text);

// Collects settings.
class Describe {
 public:
  std::vector<Setting> settings;

  void group(const std::string& name) { group_ = name; }

  Setting& value(const std::string& name, std::string& variable, const std::string& help);
  Setting& value(const std::string& name, std::vector<std::string>& variable, const std::string& help);
  Setting& positional(const std::string& name, std::string& variable, const std::string& help);
  Setting& flag(const std::string& name, bool& variable, const std::string& help);
  Setting& open_flag(const std::string& name, std::optional<bool>& variable, const std::string& help);
  Setting& open_number(const std::string& name, std::optional<double>& variable, double low, double high,
                       const std::string& help);
  // A number of a model, with its range in config_numbers().
  Setting& number(const std::string& name, Config& config, const std::string& help);

  // Limits are included; NaN is outside all of them.
  template <class T>
  Setting& number(const std::string& name, T& variable, double low, double high, const std::string& help) {
    constexpr bool whole = std::is_integral_v<T>;
    Setting& s = add(name, whole ? "N" : "X", help);
    s.shown = toml(variable);
    s.set = [=, &variable](const std::string& text) {
      variable = static_cast<T>(parse_number(name, text, low, high, whole));
    };
    s.value = [&variable] { return toml(variable); };
    return s;
  }

  template <class E, size_t N>
  Setting& choice(const std::string& name, const Named<E> (&names)[N], E& variable, const std::string& help) {
    Setting& s = add(name, "NAME", help);
    for (const auto& entry : names) s.choices.emplace_back(entry.name);
    s.shown = name_of(names, variable);
    s.set = [&variable, &names, name](const std::string& text) { variable = value_of(names, name, text); };
    s.value = [&variable, &names] { return toml(std::string(name_of(names, variable))); };
    return s;
  }

 private:
  Setting& add(const std::string& name, const std::string& takes, const std::string& help);

  std::string group_ = "Options";
};
