#include "directory.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checkpoint_file.hpp"
#include "data/formats/formats.hpp"
#include "data/files/foreign_files.hpp"
#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "history.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char *kSamples = "samples.txt", *kOutcome = "outcome.json", *kLog = "log.txt";

// The files that `train` writes.
constexpr const char* kFiles[] = {kLastCheckpoint, kBestCheckpoint, kMetrics, kDiagnostics, kRunConfig,
                                  kSamples,        kOutcome,        kHistory};

// Returns the existing files of a run.
std::vector<std::string> files_of_run(const std::string& directory) {
  std::vector<std::string> files;
  for (const char* name : kFiles)
    if (std::string file = directory + "/" + name; is_there(file)) files.push_back(std::move(file));
  return files;
}

// Returns the checkpoint with the best weights in a directory, else the newest, else "".
std::string checkpoint_in(const std::string& directory) {
  for (const char* name : {kBestCheckpoint, kLastCheckpoint})
    if (const fs::path file = fs::path(directory) / name; fs::exists(file)) return file.string();
  return "";
}

// The time at which a run was last saved. Its best weights may be much older than its state.
fs::file_time_type saved_at(const std::string& checkpoint) {
  const fs::path last = fs::path(checkpoint).parent_path() / kLastCheckpoint;
  return fs::last_write_time(fs::exists(last) ? last : fs::path(checkpoint));
}

}  // namespace

std::string last_checkpoint(const std::string& directory) { return directory + "/" + kLastCheckpoint; }

bool has_checkpoint(const std::string& directory) { return !checkpoint_in(directory).empty(); }

namespace {

// Folders with a larger number, such as a date, do not count: 20241231-notes.
constexpr uint64_t kMostRuns = 1000000;

// 2 for "0002-pre-layernorm", 0 for a name without a number.
uint64_t number_of(const std::string& name) {
  uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);  // leaves 0 if it does not fit
  return number;
}

}  // namespace

std::string next_run_directory(const std::string& name) {
  uint64_t highest = 0;
  for (const std::string& run : names_in("runs"))
    if (const uint64_t number = number_of(run); number < kMostRuns) highest = std::max(highest, number);
  char number[24];
  std::snprintf(number, sizeof number, "%04llu", static_cast<unsigned long long>(highest + 1));
  return std::string("runs/") + number + "-" + name;
}

DirectoryLock claim_directory(std::string& directory, const std::string& name, DirectoryLock::Kind kind) {
  if (!directory.empty()) {
    make_folder(directory);
    return DirectoryLock(directory, kind);
  }
  make_folder("runs");
  const DirectoryLock while_choosing("runs");
  directory = next_run_directory(name);
  make_folder(directory);
  return DirectoryLock(directory);
}

namespace {

void refuse_foreign(const std::string& file) {
  const std::string foreign = foreign_model(start_of_file(file));
  if (!foreign.empty()) throw std::runtime_error(file + " " + foreign);
}

}  // namespace

void refuse_foreign_model(const std::string& path) {
  if (!fs::is_directory(path)) return refuse_foreign(path);
  for (const char* ours : {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"})
    if (fs::exists(fs::path(path) / ours)) return;
  for (const char* ours : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fs::exists(fs::path(path) / ours) && format_of(path)) return;
  for (const std::string& name : names_in(path))
    for (const char* ending : {".bin", ".pt", ".pth", ".gguf", ".h5"})
      if (name.ends_with(ending)) refuse_foreign((fs::path(path) / name).string());
}

std::string newest_checkpoint() {
  std::string newest;
  fs::file_time_type newest_time;
  for (const std::string& run : names_in("runs")) {
    const std::string path = "runs/" + run, found = kind_of_path(path) == PathKind::folder ? checkpoint_in(path) : "";
    if (found.empty() || (!newest.empty() && saved_at(found) <= newest_time)) continue;
    newest = found;
    newest_time = saved_at(found);
  }
  return newest;
}

std::string find_checkpoint(const std::string& file_or_run) {
  if (!file_or_run.empty()) {
    if (!fs::exists(file_or_run))
      throw std::runtime_error("there is no checkpoint or run " + file_or_run + hub_advice(file_or_run));
    if (!fs::is_directory(file_or_run)) {
      refuse_foreign_model(file_or_run);
      return file_or_run;
    }
    const std::string found = checkpoint_in(file_or_run);
    if (!found.empty()) return found;
    refuse_foreign_model(file_or_run);
    if (format_of(file_or_run)) return file_or_run;
    for (const std::string& name : names_in(file_or_run))
      if (name.ends_with(".gguf"))
        throw std::runtime_error(file_or_run + " holds no checkpoint: name its GGUF file, " + file_or_run + "/" + name);
    throw std::runtime_error(file_or_run + " holds no checkpoint");
  }
  const std::string newest = newest_checkpoint();
  if (newest.empty())
    throw std::runtime_error("there is no run in runs/ yet: train one first, or name a checkpoint");
  return newest;
}

std::string name_of_checkpoint(const std::string& asked, const std::string& path) {
  if (!asked.empty()) return one_line(path);
  const std::string directory = fs::path(path).parent_path();
  std::string state;
  if (is_locked(directory)) state = ", still training";
  else if (!fs::exists(directory + "/" + kOutcome)) state = ", not finished";
  return one_line(path) + " (the newest run" + state + ")";
}

std::vector<std::string> replaced_run(const std::string& directory, bool replace, bool resumed) {
  const std::vector<std::string> files = files_of_run(directory);
  if (!files.empty() && !replace)
    throw std::runtime_error(directory + " already holds a run: --resume continues it, --force replaces it");
  if (files.empty() && format_of(directory))
    throw std::runtime_error(directory + " has the config.json or the weights of another program's model, which a "
                                         "run would hide: choose another --out");
  if (files.empty() && !replace) check_new_folder(directory);
  for (const std::string& file : files) resumed ? check_own_output(file) : check_replaced(file);
  return files;
}

void prepare_run_directory(const std::string& directory, bool replace, bool resumed) {
  for (const std::string& file : replaced_run(directory, replace, resumed)) remove_output(file);
}

void check_run_directory(const std::string& directory) {
  for (const std::string& file : files_of_run(directory)) check_own_output(file);
}

void remove_run(const std::string& directory) {
  {
    const DirectoryLock lock(directory);
    for (const std::string& file : files_of_run(directory)) remove_output(file);
    remove_output(directory + "/" + kLog);
  }
  if (fs::is_empty(directory)) fs::remove(directory);
}

void keep_sample(const std::string& directory, int64_t step, const std::string& text) {
  std::FILE* file = nullptr;
  try {
    file = ::fdopen(open_to_append(directory + "/" + kSamples), "a");
  } catch (const std::runtime_error&) {  // a run continues without its samples
  }
  if (!file) return;
  std::fprintf(file, "==== step %lld ====\n", static_cast<long long>(step));
  std::fwrite(text.data(), 1, text.size(), file);
  std::fputs("\n", file);
  std::fclose(file);
}

// ---- outcome.json ----------------------------------------------------------------------------------------

namespace {

constexpr const char *kFinished = "finished", *kEarly = "stopped early", *kDiverged = "diverged";

uint64_t fingerprint_of(const std::string& digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) throw std::runtime_error("data is no fingerprint");
  return value;
}

}  // namespace

void write_outcome(const std::string& directory, const RunOutcome& o) {
  const char* end = o.early ? kEarly : kFinished;
  nlohmann::ordered_json json = {
      {"state", o.finished ? end : kDiverged}, {"step", o.step},
      {"what", o.what}, {"tensor", o.tensor}, {"parameters", o.parameters}, {"unigram", o.unigram},
      {"floor", o.floor > 0 ? nlohmann::ordered_json(o.floor) : nullptr},
      {"data", std::to_string(o.data_fingerprint)},
      {"val_loss_full", std::isfinite(o.val_loss_full) ? nlohmann::ordered_json(o.val_loss_full) : nullptr},
      {"measured", o.measured}};
  if (std::isfinite(o.pairs)) json["pairs"] = o.pairs;
  if (std::isfinite(o.flops)) json["flops"] = o.flops;
  if (!o.inputs.empty()) json["inputs"] = o.inputs;
  if (has_json_lines()) {
    nlohmann::ordered_json event = {{"event", "end"}, {"run", directory}};
    event.update(json);
    json_line(to_ascii(event));
  }
  write_file(directory + "/" + kOutcome, to_text(json, 2) + "\n");
}

std::optional<RunOutcome> read_outcome(const std::string& directory) {
  const std::string path = directory + "/" + kOutcome;
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  try {
    const auto json = parse_json(text);
    constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
    const auto step = static_cast<int64_t>(whole_number(json, "step", kAny / 2));
    const std::string state = json.at("state");
    const auto shown = [&](const char* key) { return one_line(json.at(key).get<std::string>()); };
    const auto number_or = [](const nlohmann::json& number, double other) {
      return number.is_null() ? other : number.get<double>();
    };
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    RunOutcome o{state != kDiverged, state == kEarly, step, shown("what"), shown("tensor"),
                 whole_number(json, "parameters", kAny), number_or(json.at("unigram"), kUnknown),
                 number_or(json.at("floor"), 0), fingerprint_of(json.at("data"))};
    if (state != kDiverged && state != kEarly && state != kFinished) throw std::runtime_error("unknown state");
    if (json.contains("val_loss_full")) o.val_loss_full = number_or(json["val_loss_full"], kUnknown);
    o.measured = json.value("measured", true);
    o.pairs = json.value("pairs", o.pairs);
    o.flops = json.value("flops", o.flops);
    o.inputs = json.value("inputs", o.inputs);
    return o;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    throw std::runtime_error(path + " is not an outcome: remove the run's directory and train it again");
  }
}

void remove_outcome(const std::string& directory) {
  remove_file(directory + "/" + kOutcome);
}
