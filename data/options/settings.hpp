#pragma once
// A row of the table of options. It describes an option once, with its name, variable, range and help. Command lines,
// config files, --help, config.toml and checkpoints all use these rows.

#include <functional>
#include <string>
#include <vector>

#include "layers/config/fields.hpp"
#include "options.hpp"
#include "toml.hpp"

// How an option is treated.
struct Traits {
  bool common = false;      // --help shows it
  bool required = false;
  bool positional = false;  // is written without a name
  bool files = false;       // takes other words than its choices if they have one of ./: in them
  bool free = false;        // takes other words than its choices if they have more than letters
  bool model = false;       // is part of the model
  bool dimension = false;   // says how deep or wide the model is
  bool at_start = false;    // changes what happens before the first step, as the model's do
  bool machine = false;     // changes no result
  bool text = false;        // decides which text is read, or its tokens
  bool input = false;       // names files to read
  bool call = false;        // is of one call of the program: a comparison does not store it
  bool measures = false;    // what a run measures and writes, and when: the same in all runs of a comparison
  bool untuned = false;     // has no best value: chance decides, or more is better
  bool may_change = false;  // when a run is resumed
  bool length = false;      // says how long to train: the command line's overrides all of a config file's
  bool schedule = false;    // begins a new schedule when a run is resumed
  std::string follows = {};  // the option that sets the default of this one
  std::string earlier = {};  // its name in earlier versions, which stays accepted
};

struct Setting : Traits {
  std::string name, group, help;
  std::string takes;                           // the placeholder of the value in the help: "N"; "[N]": it may be
                                               // missing, and then is "true"; "": a flag
  std::string shown;                           // the default in the help; "": none
  bool list = false;                           // takes one value or more
  bool open_by_default = false;                // the other settings decide it
  std::vector<std::string> choices, synonyms;  // the names that it takes, if it takes names

  bool flag() const { return takes.empty(); }
  bool stands_alone() const { return flag() || takes[0] == '['; }  // --NAME; --no-NAME is --NAME=false
  bool negatable() const { return flag() && (shown == "on" || open_by_default); }  // --no-NAME differs from the default
};

// A condition for an option to have an effect: Need, of options of any kind. It is met if `met` is true of the options,
// or if `acts_on` is true of a tensor.
template <class Options>
struct Condition {
  std::function<bool(const Options&)> met;
  std::function<bool(const TensorSpec&)> acts_on;
  std::string otherwise;
  bool of_words = false;  // the user is told when the words are read, whatever the value is
};

// An option, and its variable as a member of Options.
template <class Options>
struct SettingOf : Setting {
  std::function<void(Options&, const std::string&)> set;  // throws std::invalid_argument "--lr x is not a number: ..."
  std::function<std::string(const Options&)> value;       // as TOML; "": open, so that the other settings decide it
  std::vector<Condition<Options>> needs;
};
using CommandSetting = SettingOf<Command>;
using TrainSetting = SettingOf<TrainOptions>;

// The setting with this name, or null.
template <class Settings>
auto find_setting(const Settings& settings, const std::string& name) -> decltype(settings.data()) {
  for (const auto& s : settings)
    if (s.name == name || (!name.empty() && s.earlier == name)) return &s;
  return nullptr;
}
