#include "directory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "outcome.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kSamples = "samples.txt";

}  // namespace

std::string next_run_directory(const std::string& name) {
  int highest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("runs", none))
    highest = std::max(highest, std::atoi(entry.path().filename().c_str()));
  char number[16];
  std::snprintf(number, sizeof number, "%04d", highest + 1);
  return std::string("runs/") + number + "-" + name;
}

DirectoryLock claim_directory(std::string& directory, const std::string& name) {
  const auto make = [](const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail_file("make the directory", path, error.value());
  };
  if (!directory.empty()) {
    make(directory);
    return DirectoryLock(directory);
  }
  make("runs");
  const DirectoryLock while_choosing("runs");
  directory = next_run_directory(name);
  make(directory);
  return DirectoryLock(directory);
}

namespace {

std::string checkpoint_in(const std::string& directory) {
  for (const char* name : {kBestCheckpoint, kLastCheckpoint})
    if (fs::exists(fs::path(directory) / name)) return (fs::path(directory) / name).string();
  return "";
}

// When a run was last saved. Its best weights may be much older than its state.
fs::file_time_type saved_at(const std::string& found) {
  const fs::path last = fs::path(found).parent_path() / kLastCheckpoint;
  return fs::last_write_time(fs::exists(last) ? last : fs::path(found));
}

}  // namespace

std::string find_checkpoint(const std::string& file_or_run) {
  if (!file_or_run.empty()) {
    if (!fs::exists(file_or_run)) throw std::runtime_error("there is no checkpoint or run " + file_or_run);
    if (!fs::is_directory(file_or_run)) return file_or_run;
    const std::string found = checkpoint_in(file_or_run);
    if (found.empty()) throw std::runtime_error(file_or_run + " holds no checkpoint");
    return found;
  }
  std::string newest;
  fs::file_time_type newest_time;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("runs", none)) {
    const std::string found = entry.is_directory() ? checkpoint_in(entry.path().string()) : "";
    if (found.empty() || (!newest.empty() && saved_at(found) <= newest_time)) continue;
    newest = found;
    newest_time = saved_at(found);
  }
  if (newest.empty())
    throw std::runtime_error("there is no run below runs/ yet: train one first, or name a checkpoint");
  return newest;
}

std::string name_of_checkpoint(const std::string& asked, const std::string& path) {
  if (!asked.empty()) return path;
  const std::string directory = fs::path(path).parent_path();
  const bool over = fs::exists(directory + "/" + kOutcome);
  return path + " (the newest run" + (is_locked(directory) ? ", still training)" : over ? ")" : ", not finished)");
}

void prepare_run_directory(const std::string& directory, bool replace) {
  std::error_code error;
  const fs::path path(directory);
  for (const char* name : {kLastCheckpoint, kBestCheckpoint, "metrics.csv", "diagnostics.csv", "config.toml", kSamples, kOutcome}) {
    if (!fs::exists(path / name)) continue;
    if (!replace)
      throw std::runtime_error(directory + " already holds a run: --resume goes on with it, --force replaces it");
    fs::remove(path / name, error);
  }
}

void write_config(const std::string& directory, const TrainOptions& in_force, const TrainOptions& given) {
  WholeFile file(directory + "/config.toml");
  file.write("# Every option in force; train_gpt train --config reads them back. What is behind a # was worked out\n"
             "# from the placement, the preset and the sizes, and will be again.\n" +
             to_toml(in_force, given));
  file.finish();
  file.publish();
}

void keep_sample(const std::string& directory, int64_t step, const std::string& text) {
  std::FILE* file = std::fopen((directory + "/" + kSamples).c_str(), "a");
  if (!file) return;  // a sample is no reason to end a run
  std::fprintf(file, "==== step %lld ====\n", static_cast<long long>(step));
  std::fwrite(text.data(), 1, text.size(), file);
  std::fputs("\n", file);
  std::fclose(file);
}
