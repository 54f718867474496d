#include "peft_model.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/safetensors.hpp"
#include "data/options/options.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/pattern.hpp"
#include "data/strings/utf8.hpp"
#include "peft_modules.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr size_t kLargestAdapterConfig = 1 << 20;  // bytes
constexpr const char* kBase = "base_model_name_or_path";

// Keys that do not change what the adapters compute, or that only repeat what their tensors say.
constexpr const char* kUnread[] = {"auto_mapping", "fan_in_fan_out",    "inference_mode", "megatron_core",
                                   "peft_version", "qalora_group_size", "revision",       "runtime_config", kBase};
constexpr const char *kTargets = "target_modules", *kExcluded = "exclude_modules";  // compared with the tensors

// Values that a key may have. Any other key of adapter_config.json must be absent, null, false or empty.
struct AllowedKey {
  const char* key;
  std::vector<json> values;
};
const AllowedKey kAllowed[] = {{"peft_type", {"LORA"}},
                               {"task_type", {"CAUSAL_LM", nullptr}},
                               {"bias", {"none"}},
                               {"use_rslora", {true, false}},
                               {"init_lora_weights", {true, false, "gaussian"}}};  // others change the base

bool is_off(const json& value) { return value.is_null() || value == false || value.empty(); }

bool is_allowed(const std::string& key, const json& value) {
  for (const char* unread : kUnread)
    if (key == unread) return true;
  if (key == kTargets || key == kExcluded) return true;
  for (const AllowedKey& row : kAllowed)
    if (key == row.key) return std::find(row.values.begin(), row.values.end(), value) != row.values.end();
  return is_off(value);
}

// Sets the rank, the scale and the dropout of adapters.
void read_settings(Config& c, const json& file) {
  constexpr std::string_view kRead[] = {"r", "lora_alpha", "lora_dropout"};
  for (const auto& [key, value] : file.items())
    if (std::find(std::begin(kRead), std::end(kRead), key) == std::end(kRead) && !is_allowed(key, value))
      throw std::runtime_error(key + " is " + one_line(to_text(value)).substr(0, 60) +
                               ", and train_gpt computes plain LoRA only");
  const auto rank = integer_between(file.value("r", json(8)), 1, 4096);
  if (!rank) throw std::runtime_error("r is no whole number from 1 to 4096");
  const auto number = [&](const char* key, double standard) {
    const json value = file.value(key, json(standard));
    if (!value.is_number()) throw std::runtime_error(std::string(key) + " is no number");
    return value.get<double>();
  };
  const double alpha = number("lora_alpha", 8);
  c.lora_rank = static_cast<int>(*rank);
  c.lora_alpha = static_cast<float>(file.value("use_rslora", false) ? alpha * std::sqrt(*rank) : alpha);
  c.lora_dropout = static_cast<float>(number("lora_dropout", 0));
}

// True if a value of target_modules or exclude_modules names a module, as peft decides: a text is a regular expression
// for the whole name, and an element of a list is the name or its end, after a dot.
bool names_module(const char* key, const json& value, const std::string& module) {
  if (value.is_string()) {
    try {
      return Pattern(key, "^(?:" + value.get<std::string>() + ")$").matches(module);
    } catch (const std::invalid_argument&) {
      throw std::runtime_error(key + std::string(" is no regular expression"));
    }
  }
  return std::ranges::any_of(value, [&](const json& name) {
    return name.is_string() && (name == module || module.ends_with("." + name.get<std::string>()));
  });
}

// peft leaves out modules that the settings do not name, whatever the file holds.
void require_named(const json& file, const std::vector<AdapterTensor>& tensors) {
  constexpr std::string_view kBefore = "base_model.model.", kAfter = ".lora_A.weight";
  const json targets = file.value(kTargets, json()), excluded = file.value(kExcluded, json());
  const bool all = targets.is_null() || targets == "all-linear";
  for (const AdapterTensor& t : tensors) {
    if (!t.name.starts_with(kBefore) || !t.name.ends_with(kAfter)) continue;
    const std::string module = t.name.substr(kBefore.size(), t.name.size() - kBefore.size() - kAfter.size());
    const bool out = !is_off(excluded) && names_module(kExcluded, excluded, module);
    if (out || !(all || names_module(kTargets, targets, module)))
      throw std::runtime_error((out ? kExcluded : kTargets) + std::string(" leaves out ") + module +
                               ", whose adapters the file has: peft would not use them");
  }
}

json adapter_config(const std::string& folder) {
  json file = read_json(folder + kAdapterConfig, kLargestAdapterConfig);
  if (!file.is_object()) throw std::runtime_error(folder + kAdapterConfig + " is not a JSON object");
  return file;
}

class AdaptedModel : public ForeignModel {
 public:
  AdaptedModel(const std::string& folder, std::unique_ptr<ForeignModel> base, const std::string& base_folder,
               const Architecture& architecture)
      : base_(std::move(base)), base_folder_(fs::absolute(base_folder).lexically_normal().string()),
        stored_(folder + kAdapterWeights) {
    const json file = adapter_config(folder);
    config_ = base_->config();
    if (config_.crosses())
      throw std::runtime_error(folder + " has adapters of a model with an encoder, which train_gpt does not read: "
                               "merge them in peft first (merge_and_unload)");
    config_.lora_shared = joined_matrices(architecture);
    config_.lora_on = adapted_matrices(architecture, [&](const std::string& name) { return stored_.find(name); });
    config_ = explained(folder + kAdapterConfig + " cannot be used: ", [&] {
      read_settings(config_, file);
      if (config_.lora_on.empty())
        throw std::runtime_error("target_modules has no matrix that --lora-on can name in the first layer");
      return resolved(config_);
    });
    tensors_ = adapter_tensors(architecture, config_);
    explained(folder + kAdapterConfig + " cannot be used: ", [&] { require_named(file, tensors_); });
    require_tensors(folder);
  }

  const Config& config() const override { return config_; }
  const char* preset() const override { return base_->preset(); }
  Tokenizer tokenizer() const override { return base_->tokenizer(); }
  CompanionFiles companions() const override { return base_->companions(); }
  std::string chat_template() const override { return base_->chat_template(); }
  std::string dtype() const override { return base_->dtype(); }
  NumberType numbers() const override { return base_->numbers(); }
  std::string base() const override { return base_folder_; }
  void load(const TensorPlaces& to) const override;

 private:
  void require_tensors(const std::string& folder) const;

  std::unique_ptr<ForeignModel> base_;
  std::string base_folder_;
  StoredTensors stored_;
  Config config_;
  std::vector<AdapterTensor> tensors_;
};

// Requires that the file holds exactly the adapters.
void AdaptedModel::require_tensors(const std::string& folder) const {
  const std::string path = folder + kAdapterWeights;
  std::map<std::string, const AdapterTensor*> wanted;
  for (const AdapterTensor& t : tensors_) wanted[t.name] = &t;
  for (const StoredTensor& t : stored_.all()) {
    const auto found = wanted.find(t.name);
    if (found == wanted.end())
      throw std::runtime_error(path + " holds " + in_quotes(t.name) + ", which --lora-on " + config_.lora_on +
                               " has no adapter for");
    if (!std::ranges::equal(t.shape, found->second->spec.shape, {}, {}, [](int d) { return uint64_t(d); }))
      throw std::runtime_error(path + ": " + in_quotes(t.name) + " does not fit the rank " +
                               std::to_string(config_.lora_rank) + " and the base " + base_folder_);
    wanted.erase(found);
  }
  if (!wanted.empty()) throw std::runtime_error(path + " lacks the tensor '" + wanted.begin()->first + "'");
}

void AdaptedModel::load(const TensorPlaces& to) const {
  base_->load(to);
  for (const AdapterTensor& t : tensors_) {
    std::vector<float> theirs(t.spec.size());
    stored_.read(theirs.data(), *stored_.find(t.name));
    const TensorPlace& place = to.at(t.spec.name);
    float* ours = place.buffer + place.spec.offset;
    const size_t width = t.spec.shape[1];
    for (size_t r = 0; r < t.rows.size(); ++r) std::copy_n(theirs.data() + t.rows[r] * width, width, ours + r * width);
    if (!std::all_of(theirs.begin(), theirs.end(), [](float x) { return std::isfinite(x); }))
      throw std::runtime_error(stored_.path_of(*stored_.find(t.name)) + " cannot be used: " + in_quotes(t.name) +
                               " is not finite");
  }
}

}  // namespace

bool has_adapters(const std::string& folder) { return fs::is_regular_file(folder + kAdapterConfig); }

std::string base_of_adapters(const std::string& folder) {
  const json named = adapter_config(folder).value(kBase, json());
  const std::string name = named.is_string() ? named.get<std::string>() : "";
  for (const std::string& base : {name, folder})
    if (!base.empty() && fs::is_regular_file(base + "/config.json")) return base;
  throw std::runtime_error(folder + " adapts " + (name.empty() ? "a model that it does not name" : in_quotes(name)) +
                           (name.empty() ? "" : ", which is no folder of a model here") +
                           ": train_gpt import " + folder + " --base FOLDER --out RUN puts them together");
}

std::unique_ptr<ForeignModel> open_adapters(const std::string& folder, std::unique_ptr<ForeignModel> base,
                                            const std::string& base_folder, const Architecture& architecture) {
  return std::make_unique<AdaptedModel>(folder, std::move(base), base_folder, architecture);
}
