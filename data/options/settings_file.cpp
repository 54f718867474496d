#include "settings_file.hpp"

#include <stdexcept>

#include "command_settings.hpp"
#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "layers/model/presets.hpp"

using nlohmann::json;

namespace {

bool is_empty(const std::string& toml) { return toml.empty() || toml == "\"\"" || toml == "[]"; }

std::string lines_of(const TrainOptions& in_force, const TrainOptions& given, bool training) {
  std::string text;
  for (const TrainSetting& s : train_settings())
    if (const std::string value = s.value(in_force); (training || s.model) && !is_empty(value))
      text += (s.value(given).empty() ? "# " : "") + s.name + " = " + value + "\n";
  return text;
}

// A value of the setting.
json json_of(const Setting& s, const std::string& value) {
  if (!s.list && !value.starts_with('"')) return parse_json(value);  // a number, true or false
  const std::vector<std::string> values = read_toml("value = " + value).at(0).values;
  if (!s.list) return text_to_json(values.at(0));
  json list = json::array();
  for (const std::string& value : values) list.push_back(text_to_json(value));
  return list;
}

}  // namespace

std::string to_toml(const TrainOptions& in_force, const TrainOptions& given) {
  return lines_of(in_full(in_force), given, true);
}

std::string to_toml(const TrainOptions& in_force) { return lines_of(closed(in_force), closed(in_force), true); }

std::string model_to_toml(const TrainOptions& in_force) { return lines_of(closed(in_force), closed(in_force), false); }

json to_json(const TrainOptions& in_force) {
  const TrainOptions options = closed(in_force);
  json settings = json::object();
  for (const TrainSetting& s : train_settings())
    if (const std::string value = s.value(options); !is_empty(value)) settings[s.name] = json_of(s, value);
  return settings;
}

TrainOptions train_options_of(const json& given) {
  TrainOptions o;
  o.config = preset_config(text_from_json(given.at("preset")), text_from_json(given.at("size")));
  for (const auto& [name, value] : given.items()) {
    const TrainSetting* s = find_setting(train_settings(), name);
    if (!s) throw std::invalid_argument("there is no setting '" + name + "'");
    if (s->list && !value.is_array()) throw std::invalid_argument("the setting '" + name + "' is a list");
    if (!s->list) s->set(o, text_from_json(value));
    else for (const json& item : value) s->set(o, text_from_json(item));
  }
  complete(o);
  return o;
}

namespace {

const char* said(const std::string& value) { return value.empty() ? "not set" : value.c_str(); }

}  // namespace

std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::function<bool(const Setting&)>& ignored) {
  const TrainOptions a = closed(there), b = closed(here);
  std::vector<std::string> list;
  for (const TrainSetting& s : train_settings()) {
    const std::string x = s.value(a), y = s.value(b);
    const bool open = s.text && (x.empty() || y.empty());  // follows from the text, which is compared elsewhere
    const bool derived = s.group.empty();                  // nobody sets it: options of the model decide it
    if (x != y && !open && !derived && !(ignored && ignored(s)))
      list.push_back("--" + s.name + " is " + said(x) + " there and " + said(y) + " here");
  }
  return list;
}
