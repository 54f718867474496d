#pragma once
// The table of a model's fields. Options, config files, checkpoints, exported configurations and the cases of the tests
// walk it; resolve() checks its ranges.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config.hpp"
#include "tensors.hpp"

// A field that takes one of several names.
struct FieldChoice {
  const char* (*get)(const Config&);
  void (*set)(Config&, std::string_view field, std::string_view name);  // throws std::invalid_argument
  std::vector<std::string> (*names)();
  std::vector<std::string> (*aliases)() = nullptr;
};

using FieldMember =
    std::variant<int Config::*, float Config::*, double Config::*, bool Config::*, std::string Config::*,
                 std::optional<bool> Config::*, std::optional<double> Config::*, FieldChoice>;

// A condition for an option to have an effect: on the options, or on some tensor of the model. `otherwise` completes
// "has no effect"; {X} stands for the option X, and {X=} for the option with its value.
template <class Options>
struct Need {
  bool (*met)(const Options&) = nullptr;
  bool (*acts_on)(const TensorSpec&) = nullptr;
  const char* otherwise = "";
};

struct Field {
  const char *name, *help;
  FieldMember member;
  double low = 0, high = 0;         // the range of a number, limits included
  bool derived_if_0 = false;        // resolve() derives it from the others
  const char* exported = nullptr;   // the key in exported configurations; null: the name; "": none
  std::vector<Need<Config>> needs = {};
  const char* follows = "";         // the field that sets the default of this one
  bool initial = false;             // changes nothing but initial weights
  bool training = false;            // changes nothing but training
  bool dimension = false;           // says how deep or wide the model is
  bool common = false;              // --help shows it
  bool may_change = false;          // when a run is resumed
  const char* alone = "";           // the value of an option without one; "": it needs one
  const char* group = "";           // the heading in --help-all; "": not shown
};

// In the order of --help-all.
const std::vector<Field>& model_fields();

// The fields of one heading that are not part of the model: how a run computes it.
inline constexpr const char* kComputing = "Run";
