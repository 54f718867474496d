#include "companions.hpp"

#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "architectures.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/strings/notes.hpp"
#include "modeling.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kConfigFile = "config.json";
constexpr size_t kLargestCompanion = 64 << 20;  // bytes

// config.json as it came; null if there is none.
json came_as(const CompanionFiles& files) {
  const auto config = files.find(kConfigFile);
  return config == files.end() ? json() : parse_json(config->second);
}

// A value of a file; null without the file or the key, or if the file is not JSON, which is noted.
json value_in(const CompanionFiles& files, const char* file, const char* key) {
  const auto found = files.find(file);
  if (found == files.end()) return nullptr;
  try {
    const json parsed = parse_json(found->second);
    return parsed.is_object() ? parsed.value(key, json()) : json();
  } catch (const std::runtime_error& error) {
    print_note_once(file + std::string(" cannot be read, and counts as absent: ") + error.what());
    return nullptr;
  }
}

std::string text_or_none(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

// transformers 5 says dtype, and earlier versions torch_dtype.
const char* dtype_key(const json& file) { return file.contains("dtype") ? "dtype" : "torch_dtype"; }

bool is_token(const std::string& key) { return key.ends_with("_token_id"); }

// `file` with the values of `own` that differ from `before`, what train_gpt would have written at first.
json with_changes(json file, const json& before, const json& own) {
  for (const auto& [key, value] : own.items())
    if (!is_token(key) && (!before.contains(key) || before.at(key) != value)) file[key] = value;
  return file;
}

bool describes(const json& file, const Config& config) {
  const Architecture* row = find_architecture(file);
  try {
    if (!row) return false;
    Config said = config_of(*row, file);
    if (row->weights_tie) said.tied = config.tied;
    return same_model(said, config);
  } catch (const std::exception&) {  // the old values and the new ones contradict each other
    return false;
  }
}

// Returns the token that ends an answer; -1 if the files do not say it. Instruct models name it in
// tokenizer_config.json, as a text or as an object; other files may list several.
int end_in(const CompanionFiles& files, const Tokenizer& tokenizer) {
  json named = value_in(files, "tokenizer_config.json", "eos_token");
  if (named.is_object()) named = named.value("content", json());
  try {
    if (named.is_string()) return tokenizer.special(named.get<std::string>());
  } catch (const std::runtime_error&) {  // it is no special token of the tokenizer that we read
  }
  for (const char* file : {"generation_config.json", kConfigFile}) {
    const json end = value_in(files, file, "eos_token_id");
    const auto token = integer_between(end.is_array() && !end.empty() ? end[0] : end, 0, tokenizer.vocabulary() - 1);
    if (token) return static_cast<int>(*token);
  }
  return -1;
}

CompanionFiles files_in(const std::string& folder, const std::vector<std::string>& names) {
  CompanionFiles files;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (fs::is_regular_file(path)) files[name] = read_file(path, kLargestCompanion);
  }
  return files;
}

}  // namespace

const std::vector<std::string>& companion_names() {
  static const std::vector<std::string> names = {
      kConfigFile,          "generation_config.json", "tokenizer_config.json", "special_tokens_map.json",
      "added_tokens.json",  "vocab.json",             "merges.txt",            "vocab.txt",
      "tokenizer.model",    "spiece.model",           "chat_template.json",    "chat_template.jinja"};
  return names;
}

CompanionFiles read_companions(const std::string& folder) {
  CompanionFiles files = files_in(folder, companion_names());
  const json file = came_as(files);
  if (file.value("model_type", json()) == kModelingType) files.clear();  // its config.json has nothing else
  return files;
}

int end_of_answers(const ExportedModel& exported) {
  if (!exported.chat_template.empty()) return exported.end;
  const int came = end_in(exported.companions, exported.tokenizer);
  return came >= 0 ? came : exported.end;
}

std::string chat_template_in(const std::string& folder) {
  return chat_template_in(files_in(folder, {"chat_template.jinja", "tokenizer_config.json", "chat_template.json"}));
}

std::string chat_template_in(const CompanionFiles& files) {
  if (const auto jinja = files.find("chat_template.jinja"); jinja != files.end()) return jinja->second;
  for (const char* file : {"tokenizer_config.json", "chat_template.json"})
    if (const std::string text = text_or_none(value_in(files, file, "chat_template")); !text.empty()) return text;
  return "";
}

std::string chat_template_of(const ExportedModel& exported) {
  return exported.chat_template.empty() ? chat_template_in(exported.companions) : exported.chat_template;
}

const Architecture* architecture_of(const CompanionFiles& files) {
  const json file = came_as(files);
  return file.is_null() ? nullptr : find_architecture(file);
}

const Architecture& class_of(const Config& config, const CompanionFiles& files) {
  if (const Architecture* came = architecture_of(files)) try {
      expressed(config, {*came});
      return *came;
    } catch (const std::invalid_argument&) {  // the model has changed since
    }
  return expressed(config).architecture;
}

std::string config_text(const CompanionFiles& files, const Architecture& architecture, const Config& config,
                        const json& own, const json& decided, bool changed_dtype) {
  const json came = came_as(files);
  const Architecture* row = came.is_null() ? nullptr : find_architecture(came);
  if (!row || std::string_view(row->model_class) != architecture.model_class) return to_text(own, 2) + "\n";
  json values = decided;
  if (came.contains(dtype_key(came)) || changed_dtype) values[dtype_key(came)] = own.at("torch_dtype");
  if (describes(came, config)) return with_values(files.at(kConfigFile), values);
  json before = config_json(*row, config_of(*row, came));
  before["torch_dtype"] = own.at("torch_dtype");  // is in `values`
  json file = with_changes(came, before, own);
  if (!describes(file, config)) {
    file = own;
    for (const auto& [key, value] : came.items())
      if (is_token(key)) file[key] = value;
  }
  file.update(values);
  return to_text(file, 2) + "\n";
}

std::string with_values(const std::string& text, const json& values) {
  const json before = parse_json(text);
  json file = before;
  file.update(values);
  return file == before ? text : to_text(file, 2) + "\n";
}
