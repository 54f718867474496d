#include "runs.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/options/command_line.hpp"
#include "data/run/resume.hpp"
#include "data/run/directory.hpp"
#include "data/run/outcome.hpp"
#include "pool.hpp"

namespace fs = std::filesystem;

PlannedRun plan_run(const Study& s, Stage stage, size_t cell, const std::string& seed, std::optional<double> tuned) {
  const GridCell& c = s.comparison.grid.cells[cell];
  PlannedRun run{stage, cell, seed, tuned, {}, s.words, {}, s.command.train.steps};
  const auto say = [&](const std::string& key, const std::string& text) { run.words.push_back("--" + key + "=" + text); };
  for (const auto& [key, text] : c.keys) say(key, text);
  if (tuned) say(s.tuning.key, option_text(*tuned));
  say("seed", seed);
  // Other seeds see other batches, unless someone fixed them.
  if (!s.command.said("--data-seed") && c.value("data-seed").empty()) say("data-seed", seed);
  const std::string value = tuned ? "," + s.tuning.key + "=" + option_text(*tuned) : "";
  const std::string name = (stage == Stage::tune ? "tune," : "") + ("seed=" + seed) + value;
  run.directory = directory_name(c.name) + "/" + name;
  run.label = c.name + "  " + name;
  run.steps = train_options(run.words, {}).steps;
  return run;
}

std::string directory_name(const std::string& cell) {
  std::string name;
  for (const char c : cell) name += c == '/' ? "%2F" : c == '%' ? "%25" : std::string(1, c);
  return name;
}

namespace {

std::string path_of(const Study& s, const PlannedRun& run) { return s.out + "/" + run.directory; }

std::string command_of(const Study& s, const PlannedRun& run) {
  std::vector<std::string> words = run.words;
  words.insert(words.begin(), s.command.program);
  return shell_words(words);
}

Job job_of(const Study& s, const PlannedRun& run) {
  const std::string directory = path_of(s, run);
  Job job{run.words, directory, run.label, run.steps};
  job.words.insert(job.words.end(), {"--quiet", "--out", directory});
  job.words.push_back(fs::exists(directory + "/" + kLastCheckpoint) ? "--resume" : "--force");
  if (s.options().jobs > 1 && s.comparison.grid.cells[run.cell].value("threads").empty()) {
    const int all = s.command.train.threads > 0 ? s.command.train.threads : detect_machine().processors;
    job.words.push_back("--threads=" + std::to_string(std::max(1, all / s.options().jobs)));
  }
  return job;
}

// A directory of this name may hold a run of other options, or of a text that has changed since.
void require_same_run(const Study& s, const PlannedRun& run) {
  const std::string directory = path_of(s, run), config = directory + "/config.toml";
  if (!fs::exists(config)) return;
  CheckpointHeader from;
  TrainOptions there = with_vocabulary(from_toml(read_file(config), config));
  TrainOptions here = with_vocabulary(options_on_checkpoint(run.words, {}, from));
  make_paths_absolute(there), make_paths_absolute(here);
  const auto changed = differences(there, here, {"threads", "final-batches"});
  const auto outcome = read_outcome(directory);
  std::string what;
  if (!changed.empty()) what = changed[0];
  else if (outcome && outcome->data_fingerprint != s.data_fingerprint) what = "it was trained on another text";
  if (!what.empty())
    throw std::runtime_error(directory + " holds another run: " + what + "; remove it, or choose another --out");
}

// Why a run failed: its error message from log.txt, or its exit code or signal.
std::string complaint_of(const std::string& directory, int status) {
  std::ifstream log(directory + "/log.txt");
  const std::string mark = "train_gpt: ";
  std::string line, complaint;
  while (std::getline(log, line))
    if (line.starts_with(mark)) complaint = line.substr(mark.size());
  if (status > 128) return "killed by signal " + std::to_string(status - 128);
  return complaint.empty() ? "exit status " + std::to_string(status) + ", see " + directory + "/log.txt" : complaint;
}

std::string told(const RunResult& r) {
  std::string text = name_of(r.state);
  if (!std::isnan(r.final_loss)) text += format(", %.4f", r.final_loss);
  if (r.state == RunState::diverged)
    text += " (step " + std::to_string(r.stopped_at) + (r.first_tensor.empty() ? "" : ", " + r.first_tensor) + ")";
  if (!std::isnan(r.seconds)) text += "  " + format("%.1f s", r.seconds);
  return text;
}

}  // namespace

void make_runs(Study& s, const std::vector<PlannedRun>& runs, int64_t later) {
  std::vector<Job> jobs;
  for (const PlannedRun& run : runs) {
    require_same_run(s, run);
    const auto outcome = read_outcome(path_of(s, run));
    if (outcome && outcome->measured) s.steps_taken += run.steps;
    else jobs.push_back(job_of(s, run));
  }
  const bool first_of_all = s.steps_taken == 0;
  const auto ended = [&](size_t job, int status, Progress& progress) {
    const RunResult result = read_result(jobs[job].directory, s.comparison.timed);
    progress.line(jobs[job].label + ": " + told(result));
    if (result.state != RunState::failed) return;
    const std::string complaint = complaint_of(jobs[job].directory, status);
    if (first_of_all && job == 0) throw std::runtime_error("the first run failed: " + complaint);
    progress.line("  " + complaint);
  };
  if (!run_jobs(s.binary, jobs, s.options().jobs, s.steps_taken, later, ended))
    throw std::runtime_error("stopped; nothing is lost. To go on:\n  " +
                             shell_words({s.command.program, "compare", "--out", s.out, "--resume"}));
  for (const Job& job : jobs) s.steps_taken += job.steps;
  for (const PlannedRun& run : runs)
    s.comparison.runs.push_back({run, read_result(path_of(s, run), s.comparison.timed), command_of(s, run)});
}
