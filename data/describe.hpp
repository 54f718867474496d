#pragma once
// How an option is described once (name, variable, help) and from that parsed, printed as help and written as TOML.
// Only what reads command lines and writes config.toml includes this: CLI11 takes long to compile.

#include <charconv>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#if __has_include(<CLI/CLI.hpp>)
#include <CLI/CLI.hpp>
#else
#include <CLI11.hpp>
#endif

#include "options.hpp"

// ---- values as TOML --------------------------------------------------------------------------------------

inline std::string toml(bool b) { return b ? "true" : "false"; }

// The shortest digits that read back as the same number.
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
std::string toml(T x) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

inline std::string toml(const std::string& s) {
  if (s.find('"') != s.npos && s.find('\'') != s.npos)
    throw std::invalid_argument(s + ": a value with both kinds of quotes cannot be written down; rename it");
  const bool literal = s.find_first_of("\"\\") != std::string::npos;
  return literal ? "'" + s + "'" : '"' + s + '"';
}

inline std::string toml(const std::vector<std::string>& list) {
  std::string s = "[";
  for (const auto& item : list) s += (s.size() > 1 ? ", " : "") + toml(item);
  return s + "]";
}

inline std::string unquoted(const std::string& s) {
  return s.size() >= 2 && (s[0] == '"' || s[0] == '\'') ? s.substr(1, s.size() - 2) : s;
}

// The largest whole number that options take: up to 2^53, some 9e15, all of them are exact in double.
inline constexpr double kLargest = 1e15;

// ---- describing ------------------------------------------------------------------------------------------

struct Setting {
  std::string name;
  std::function<std::string()> value;  // "" where there is none
  std::function<bool()> open;          // left to the placement, the preset or the other sizes
};

// Adds options to a CLI11 application and remembers how to print their values.
class Describe {
 public:
  explicit Describe(CLI::App& app) : app_(app) {}

  std::vector<Setting> settings;

  void group(const std::string& name) { group_ = name; }

  template <class T>
  CLI::Option* value(const std::string& name, T& variable, const std::string& help) {
    CLI::Option* option = app_.add_option("--" + name, variable, help);
    remember(name, [&variable] { return toml(variable); }, [] { return false; });
    return finish(option, unquoted(toml(variable)));
  }

  // A number within limits; NaN is outside all of them.
  template <class T>
  CLI::Option* number(const std::string& name, T& variable, double low, double high, const std::string& help) {
    return value(name, variable, help)->check([=](const std::string& text) -> std::string {
      double x = 0;
      if (!CLI::detail::lexical_cast(text, x)) return "'" + text + "' is not a number";
      if (x >= low && x <= high) return {};
      return text + " is outside " + toml(low) + " to " + toml(high);
    });
  }

  // A size that is worked out from the others where it is 0.
  CLI::Option* derived(const std::string& name, int& variable, double high, const std::string& help) {
    CLI::Option* option = number(name, variable, 0, high, help);
    settings.back().open = [&variable] { return variable == 0; };
    return variable == 0 ? option->default_str("") : option;
  }

  template <class E, size_t N>
  CLI::Option* choice(const std::string& name, const Named<E> (&names)[N], E& variable, const std::string& help) {
    std::string list;
    for (const auto& entry : names) list += (list.empty() ? "" : "|") + std::string(entry.name);
    CLI::Option* option = app_.add_option_function<std::string>(
        "--" + name, [&variable, &names, name](const std::string& s) { variable = value_of(names, name, s); },
        help + ": " + list);
    remember(name, [&variable, &names] { return toml(std::string(name_of(names, variable))); }, [] { return false; });
    return finish(option, name_of(names, variable));
  }

  CLI::Option* flag(const std::string& name, bool& variable, const std::string& help) {
    CLI::Option* option = app_.add_flag("--" + name + ",!--no-" + name, variable,
                                        help + (variable ? " (default: on)" : " (default: off)"));
    remember(name, [&variable] { return toml(variable); }, [] { return false; });
    option->group(group_);
    return option;
  }

  CLI::Option* open_flag(const std::string& name, std::optional<bool>& variable, const std::string& help) {
    CLI::Option* option = app_.add_flag_function(
        "--" + name + ",!--no-" + name, [&variable](int64_t given) { variable = given > 0; }, help);
    remember(name, [&variable] { return variable ? toml(*variable) : ""; }, [&variable] { return !variable; });
    option->group(group_);
    return option;
  }

  CLI::Option* open_number(const std::string& name, std::optional<double>& variable, double low, double high,
                           const std::string& help) {
    CLI::Option* option = app_.add_option_function<double>(
        "--" + name,
        [=, &variable](const double& x) {
          if (!(x >= low && x <= high))
            throw CLI::ValidationError("--" + name, toml(x) + " is outside " + toml(low) + " to " + toml(high));
          variable = x;
        },
        help);
    remember(name, [&variable] { return variable ? toml(*variable) : ""; }, [&variable] { return !variable; });
    option->group(group_);
    return option;
  }

 private:
  void remember(const std::string& name, std::function<std::string()> value, std::function<bool()> open) {
    settings.push_back({name, std::move(value), std::move(open)});
  }
  CLI::Option* finish(CLI::Option* option, const std::string& shown) {
    option->group(group_);
    if (!shown.empty() && shown != "[]") option->default_str(shown);
    return option->multi_option_policy(option->get_items_expected_max() > 1 ? CLI::MultiOptionPolicy::TakeAll
                                                                           : CLI::MultiOptionPolicy::TakeLast);
  }

  CLI::App& app_;
  std::string group_ = "Options";
};

// ---- the options -----------------------------------------------------------------------------------------

void describe_model(Describe& d, TrainOptions& o);
void describe_training(Describe& d, TrainOptions& o);
// What concerns this call of `train` or `compare` only and is not written to config.toml.
void describe_call(CLI::App& app, TrainOptions& o, std::string& config_file, Command::Kind kind);
void describe_sample(CLI::App& app, SampleOptions& o);
void describe_eval(CLI::App& app, EvalOptions& o);
void describe_corpus(CLI::App& app, CorpusOptions& o);
void describe_compare(Describe& d, CompareOptions& o);
void describe_init_report(CLI::App& app, TrainOptions& o, InitReportOptions& report);

// All that `train` has, of the model alone where not `training`.
std::vector<Setting> settings_of(TrainOptions& options, CLI::App& app, bool training = true);
