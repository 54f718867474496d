#include "unused_options.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "data/options/command_settings.hpp"
#include "layers/model/presets.hpp"
#include "step_inputs.hpp"

namespace {

// None if the options do not fit each other. Other checks say so.
std::optional<std::vector<TensorSpec>> tensors_of(TrainOptions o) {
  try {
    o.config = resolved(with_vocabulary(o).config);
    return table_of_run(o);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string value_of(const std::string& option, const TrainOptions& o) {
  std::string value = find_setting(train_settings(), option)->value(o);
  std::erase(value, '"');
  return value;
}

// "with {placement=}" as "with --placement pre", and "without {window}" as "without --window".
std::string reason_of(const std::string& otherwise, const TrainOptions& o) {
  const size_t begin = otherwise.find('{'), end = otherwise.find("=}");
  if (end == otherwise.npos) return spelled(otherwise, "--");
  const std::string option = otherwise.substr(begin + 1, end - begin - 1);
  return otherwise.substr(0, begin) + "--" + option + " " + value_of(option, o);
}

// The options to which a run gives another value than its preset, each with why the run does not read it, or "".
std::map<std::string, std::string> options_set(const TrainOptions& o) {
  TrainOptions plain;
  plain.preset = o.preset;
  plain.size = o.size;
  plain.config = preset_config(o.preset, o.size);
  std::optional<std::vector<TensorSpec>> tensors;
  bool fit = true;  // the options, so that there is a table of tensors
  const auto met = [&](const Condition<TrainOptions>& need) {
    if (need.met && need.met(o)) return true;
    if (!need.acts_on) return false;
    if (!tensors && fit) {
      tensors = tensors_of(o);
      fit = tensors.has_value();
    }
    return !fit || std::any_of(tensors->begin(), tensors->end(), need.acts_on);
  };
  std::map<std::string, std::string> reasons;
  for (const TrainSetting& s : train_settings()) {
    if (s.needs.empty() || s.value(o) == s.value(plain)) continue;
    std::string& reason = reasons[s.name];
    for (const auto& need : s.needs)
      if (reason.empty() && !need.of_words && !met(need)) reason = reason_of(need.otherwise, o);
  }
  return reasons;
}

}  // namespace

std::vector<std::string> unused_options(const std::vector<TrainOptions>& runs) {
  std::map<std::string, std::vector<std::string>> reasons;  // for each option that a run sets; "" if a run reads it
  for (const TrainOptions& o : runs)
    for (const auto& [option, reason] : options_set(o)) {
      std::vector<std::string>& known = reasons[option];
      if (std::find(known.begin(), known.end(), reason) == known.end()) known.push_back(reason);
    }
  std::vector<std::string> lines;
  for (const auto& [option, why] : reasons) {
    if (std::find(why.begin(), why.end(), "") != why.end()) continue;
    std::string line = "--" + option + " has no effect " + why[0];
    for (size_t i = 1; i < why.size(); ++i) line += " or " + why[i];
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> unused_option_names(const TrainOptions& run) {
  std::vector<std::string> names;
  for (const auto& [option, reason] : options_set(run))
    if (!reason.empty()) names.push_back(option);
  return names;
}
