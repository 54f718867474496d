#include "settings_json.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/host/utf8.hpp"
#include "layers/model/presets.hpp"
#include "settings.hpp"

using nlohmann::json;

namespace {

json json_of(const std::string& text) {
  for (size_t i = 0; i < text.size();)
    if (!next_code_point(text, i)) return std::vector<unsigned char>(text.begin(), text.end());
  return text;
}

json json_of(const Setting& s) {
  const std::vector<std::string> values = read_toml("value = " + s.value()).at(0).values;
  if (s.flag() || s.numeric()) return json::parse(values.at(0));
  if (!s.list) return json_of(values.at(0));
  json list = json::array();
  for (const std::string& value : values) list.push_back(json_of(value));
  return list;
}

std::string text_of(const json& value) {
  if (value.is_string()) return value;
  if (!value.is_array()) return value.dump();
  std::string bytes;
  for (const json& byte : value) {
    if (!byte.is_number_unsigned() || byte > 255) throw std::invalid_argument("a text has a byte that is none");
    bytes += static_cast<char>(byte.get<unsigned>());
  }
  return bytes;
}

}  // namespace

json to_json(const TrainOptions& in_force) {
  TrainOptions options = closed(in_force);
  json settings = json::object();
  for (const Setting& s : settings_of(options))
    if (const std::string value = s.value(); value != "\"\"" && value != "[]") settings[s.name] = json_of(s);
  return settings;
}

TrainOptions train_options_of(const json& given) {
  TrainOptions o;
  o.config = preset_config(text_of(given.at("preset")), text_of(given.at("size")));
  const std::vector<Setting> settings = settings_of(o);
  for (const auto& [name, value] : given.items()) {
    const auto s = std::find_if(settings.begin(), settings.end(), [&](const Setting& one) { return one.name == name; });
    if (s == settings.end()) throw std::invalid_argument("there is no setting '" + name + "'");
    if (s->list && !value.is_array()) throw std::invalid_argument("the setting '" + name + "' is a list");
    if (!s->list) s->set(text_of(value));
    else for (const json& item : value) s->set(text_of(item));
  }
  complete(o);
  return o;
}
