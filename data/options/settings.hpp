#pragma once
// The table of options. It describes each option once, with its name, variable, range and help. Command lines, config
// files, --help, config.toml and checkpoints all use this table.

#include <functional>
#include <string>
#include <vector>

#include "options.hpp"
#include "toml.hpp"

struct Setting {
  std::string name, group, help;
  std::string takes;                            // the placeholder of the value in the help: "N"; "[N]": it may be
                                                // missing, and then is "true"; "": a flag
  std::string shown;                            // the default in the help, or ""
  bool list = false;                            // takes one or more values
  bool positional = false;                      // can be written without its name
  bool required = false;
  std::vector<std::string> choices, synonyms;   // the names that it accepts, if it accepts names
  bool files = false;                           // also accepts words that contain one of ./:
  std::function<void(const std::string&)> set;  // throws std::invalid_argument "--lr x is not a number: ..."
  std::function<std::string()> value;           // as TOML; "" if open, so that other settings decide it

  bool flag() const { return takes.empty(); }
  bool stands_alone() const { return flag() || takes[0] == '['; }  // --NAME works alone; --no-NAME is --NAME=false
  bool open() const { return value().empty(); }
  bool negatable() const { return flag() && (shown == "on" || open()); }  // --no-NAME differs from the default
};

// Returns the options of the command `c.kind`, in the order of --help-all. `c` must outlive them.
std::vector<Setting> settings_of(Command& c);

// Returns the options of `train` that config.toml holds, because they decide what is trained; without `training`, only
// the model's.
std::vector<Setting> settings_of(TrainOptions& options, bool training = true);

// Returns the setting with this name, or null.
const Setting* find_setting(const std::vector<Setting>& settings, const std::string& name);
std::vector<std::string> names_of(const std::vector<Setting>& settings);

bool parse_bool(const std::string& name, const std::string& text);
