#include "model_card.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "data/commands/info/model_text.hpp"
#include "data/files/json.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/options/command_line.hpp"
#include "data/options/command_settings.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/history.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "layers/model/size.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kTextToText = "text2text-generation";
constexpr const char* kLastLine =
    "<!-- train_gpt wrote this card and replaces it. Remove this line to keep yours. -->\n";

// "org/name" of models--org--name/snapshots/HASH, a folder in the cache of Hugging Face; "" of any other path.
std::string name_on_hub(const fs::path& path) {
  const fs::path snapshots = path.parent_path();
  const std::string repository = snapshots.parent_path().filename().string(), first = "models--";
  if (snapshots.filename() != "snapshots" || !repository.starts_with(first)) return "";
  std::string name = repository.substr(first.size());
  if (const size_t at = name.find("--"); at != name.npos) name.replace(at, 2, "/");
  return name;
}

// "my.txt" of "texts/my.txt", "more" of "more/".
std::string name_of_path(const std::string& path) {
  if (path == "-") return "standard input";
  const fs::path whole = fs::path(absolute_path(path)).lexically_normal();
  const fs::path last = whole.has_filename() ? whole : whole.parent_path();
  const std::string on_hub = name_on_hub(last);
  return one_line(on_hub.empty() ? last.filename().string() : on_hub);
}

std::string names_of_paths(const std::vector<std::string>& paths) {
  std::string names;
  for (const std::string& path : paths) names += (names.empty() ? "" : ", ") + name_of_path(path);
  return names;
}

// What is known about a model.
struct Record {
  const CheckpointHeader& header;
  std::string name, base, data;  // base: the path of another program's model that this one began as; "" if none
  TrainOptions given;  // as config.toml leaves them open, or else all options in force
  size_t parameters = 0;
  MetricsRow row = {};  // of this step; step 0 if it is not known
  double loss = 0, bits = 0, floor = 0;  // NaN: not measured; floor 0: unknown
  bool adapters = false;  // the model is these alone
  bool whole = false;  // the loss is of the whole validation split, not of some batches
  std::vector<HistoryLine> history = {};  // of the run; none of a bare checkpoint
};

// Returns the path of another program's model that this one is, or began as, perhaps in a run before. "" if there is
// none, or a run between was lost.
std::string base_of(std::string path) try {
  constexpr int kMostRuns = 100;  // runs that were replaced may name each other
  for (int run = 0; run < kMostRuns && fs::exists(path); ++run) {
    if (format_of(path)) return path;
    path = read_checkpoint_header(find_checkpoint(path)).options.init_from;
  }
  return "";
} catch (const std::runtime_error&) {
  return "";
}

// Adds what the files of its run say.
void read_run(Record& r, const std::string& run) {
  const std::string config = run + "/" + kRunConfig;
  if (fs::exists(config)) r.given = from_toml(read_file(config), config);
  r.row = row_of_step(run + "/" + kMetrics, r.header.step);
  r.history = read_history(run);
  const auto outcome = read_outcome(run);
  if (!outcome) return;
  r.floor = outcome->floor;
  r.whole = outcome->step == r.header.step && !std::isnan(outcome->val_loss_full);
  if (r.whole) r.loss = outcome->val_loss_full;
}

Record record_of(const TrainedModel& trained, const std::string& out) {
  const CheckpointHeader& header = trained.header;
  Record r{.header = header, .name = name_of_path(out), .base = base_of(trained.path),
           .data = names_of_paths(header.options.data), .given = header.options,
           .parameters = count_parameters(trained.model.table), .loss = header.val_loss,
           .adapters = trained.model.config.lora_rank > 0};
  const fs::path path = absolute_path(trained.path);
  if (path.filename() == kLastCheckpoint || path.filename() == kBestCheckpoint)
    read_run(r, path.parent_path().string());
  r.bits = r.loss * (r.row.val_bpb / r.row.val_loss);  // the text's tokens per byte do not depend on the loss
  return r;
}

// ---- metadata ------------------------------------------------------------------------------------------------

const char* task_of(const Config& config) {
  if (config.crosses()) return kTextToText;
  return config.attention == Attending::bidirectional ? "fill-mask" : "text-generation";
}

// transformers has no pipeline of this name since version 5, so the card names none.
std::string pipeline(const Config& config) {
  const std::string task = task_of(config);
  return task == kTextToText ? "" : "pipeline_tag: " + task + "\n";
}

// A text as YAML, which takes JSON's strings.
std::string yaml(const std::string& text) { return to_ascii(text); }

std::string results(const Record& r) {
  if (std::isnan(r.loss)) return "";
  std::string text = "model-index:\n- name: " + yaml(r.name) + "\n  results:\n  - task:\n      type: " +
                     task_of(r.header.options.config) + "\n    dataset:\n      name: " + yaml(r.data) +
                     "\n      type: text\n    metrics:\n    - type: loss\n      name: validation loss (nats/token)\n" +
                     "      value: " + format("%.6g", r.loss) + "\n";
  if (!std::isnan(r.bits))
    text += "    - type: bits_per_byte\n      name: validation loss (bits/byte)\n      value: " +
            format("%.6g", r.bits) + "\n";
  return text;
}

// There is no `datasets`: it lists data of a hub, and these are files of a disk.
std::string metadata(const Record& r) {
  const Config& config = r.header.options.config;
  std::string text =
      std::string("---\nlibrary_name: ") + (r.adapters ? "peft" : "transformers") + "\n" + pipeline(config);
  const std::string& base = r.adapters ? r.header.options.init_from : r.base;  // adapters fit no other model
  if (is_huggingface_folder(base)) text += "base_model: " + yaml(name_of_path(base)) + "\n";
  return text + "tags:\n- train_gpt\n- " + config.placement + "\n- " + name_of(kNormKinds, config.norm) + "\n" +
         results(r) + "---\n";
}

// ---- text ----------------------------------------------------------------------------------------------------

// Returns what a command line says in place of this value of an option, or nothing.
std::vector<std::string> said(const TrainSetting& s, const std::string& value, const std::string& by_default) {
  const bool derived = s.group.empty();  // nobody sets it
  if (s.call || s.machine || derived || value.empty() || value == by_default) return {};
  std::vector<std::string> values = read_toml("value = " + value).at(0).values;
  if (s.input)
    for (std::string& path : values) path = name_of_path(path);
  return values;
}

// Returns the command that trains such a model, with the options that differ from the preset's.
std::string training_command(const TrainOptions& given) {
  TrainOptions usual = from_toml("preset = " + toml(given.preset) + "\nsize = " + toml(given.size) + "\n");
  usual.preset = TrainOptions().preset;
  usual.size = TrainOptions().size;
  Command command;
  for (const TrainSetting& s : train_settings())
    if (auto values = said(s, s.value(given), s.value(usual)); !values.empty())
      command.given.push_back({s.name, std::move(values)});
  std::vector<std::string> words = words_of(command);
  words.insert(words.begin(), "train_gpt");
  return shell_words(words);
}

std::string in_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += (c == '|' ? "\\" : "") + std::string(1, c);
  return escaped;
}

std::string trained_for(const Record& r) {
  const std::string steps = counted(static_cast<double>(r.header.step), "step");
  return r.row.tokens > 0 ? steps + ", " + format_count(static_cast<double>(r.row.tokens)) + " tokens" : steps;
}

std::string loss_text(const Record& r) {
  if (std::isnan(r.loss)) return "";
  return format("%.4f nats/token", r.loss) + (std::isnan(r.bits) ? "" : format(", %.4f bits/byte", r.bits)) +
         (r.whole ? ", on the whole validation split" : ", as measured while it trained") +
         (r.floor > 0 ? format(" (the entropy of the text: %.4f nats/token)", r.floor) : "");
}

std::string program_text(const Record& r) {
  if (r.history.empty()) return "";
  const HistoryLine& last = r.history.back();
  return "train_gpt " + last.program.version + ", " + last.date.substr(0, last.date.find('T'));
}

std::string table(const Record& r) {
  const TrainOptions& o = r.header.options;
  const bool is_trained = r.header.step > 0;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"model", describe_briefly(o, r.parameters)},
      {"placement of the norm", o.config.placement},
      {"norm", norm_names_of(o.config)},
      {is_trained ? "began as" : "came as", r.base.empty() ? "" : name_of_path(r.base)},
      {"text", r.data},
      {"trained for", is_trained ? trained_for(r) : ""},
      {"validation loss", loss_text(r)},
      {"program", program_text(r)}};
  std::string text = "| | |\n|---|---|\n";
  for (const auto& [what, value] : rows)
    if (!value.empty()) text += "| " + what + " | " + in_cell(value) + " |\n";
  return text;
}

}  // namespace

std::string model_card(const TrainedModel& trained, const std::string& out) {
  const Record r = record_of(trained, out);
  const bool is_trained = r.header.step > 0;
  const std::string how =
      is_trained ? "\nThe command that trained it:\n\n```\n" + training_command(r.given) + "\n```\n" : "";
  return metadata(r) + "\n# " + r.name + "\n\nA model that train_gpt " +
         (is_trained ? "trained" : "converted without training it") + ".\n\n" + table(r) + how + "\n" + kLastLine;
}

bool has_own_card(const std::string& folder) {
  const std::string path = folder + "/" + kModelCard;
  return fs::is_regular_file(path) && read_file(path).ends_with(kLastLine);
}

bool write_model_card(const std::string& folder, const std::string& card) {
  const std::string path = folder + "/" + kModelCard;
  if (is_there(path) && !has_own_card(folder)) return false;
  write_file(path, card);
  return true;
}
