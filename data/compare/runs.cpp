#include "runs.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/machine.hpp"
#include "data/host/progress.hpp"
#include "data/options/command_line.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/resume.hpp"
#include "data/run/time_limit.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "data/text/load_dataset.hpp"
#include "scaling.hpp"

namespace fs = std::filesystem;

CellRun plan_run(const Comparison& c, Stage stage, size_t cell, const std::string& seed, const Point& point) {
  const GridCell& options = c.grid.cells[cell];
  const std::vector<GridKey> tuned = c.tuning.keys(point);
  CellRun run;
  run.stage = stage;
  run.cell = cell;
  run.seed = seed;
  run.point = point;
  run.words = c.words;
  const auto say = [&](const std::string& key, const std::string& value) {
    run.words.push_back("--" + key + "=" + value);
  };
  for (const auto& [key, text] : options.keys) say(key, text);
  for (const auto& [key, text] : tuned) say(key, text);
  say("seed", seed);
  // The seed also draws the batches, unless the user has set --data-seed.
  if (!c.command.said("data-seed") && options.value("data-seed").empty()) say("data-seed", seed);
  std::string name = (stage == Stage::tune ? "tune," : "") + ("seed=" + seed);
  for (const auto& [key, text] : tuned) name += "," + key + "=" + text;
  run.directory = directory_name(options.name) + "/" + name;
  run.label = options.name + "  " + name;
  CheckpointHeader from;
  const TrainOptions o = with_length(c, cell, options_on_checkpoint(run.words, {}, from));
  if (!c.tokens.empty()) say("steps", std::to_string(o.steps));
  run.steps = o.steps;
  run.flops = operations_of_run(in_force(o));
  return run;
}

TrainOptions in_force(TrainOptions o) {
  o = with_vocabulary(std::move(o));
  o.config = resolved(o.config);
  return o;
}

int threads_of_run(const Comparison& c) {
  const int all = c.command.train.threads > 0 ? c.command.train.threads : default_threads();
  return std::max(1, all / c.options().jobs);
}

std::string directory_name(const std::string& cell) {
  std::string name;
  for (const char c : cell) {
    if (c == '/') name += "%2F";
    else if (c == '%') name += "%25";
    else name += c;
  }
  return name;
}

namespace {

// Returns the options that a run would store: with the tokenizer that it reads, and with absolute paths.
TrainOptions as_stored(TrainOptions o) {
  o = with_vocabulary(std::move(o));
  if (o.init_from.empty() && !o.data.empty()) o.tokenizer = tokenizer_of(o);
  make_paths_absolute(o);
  return o;
}

}  // namespace

std::string first_difference(const TrainOptions& there, const TrainOptions& here, bool (*ignored)(const Setting&)) {
  const auto found = differences(as_stored(there), as_stored(here), ignored);
  return found.empty() ? "" : found[0];
}

namespace {

std::string path_of(const Comparison& c, const CellRun& run) { return c.out() + "/" + run.directory; }

Job job_of(const Comparison& c, const CellRun& run) {
  Job job = run;
  job.directory = path_of(c, run);
  job.words.insert(job.words.end(), {"--quiet", "--out", job.directory, "--input-hashes"});
  job.words.insert(job.words.end(), c.inputs.begin(), c.inputs.end());
  if (!c.timed() && c.grid.cells[run.cell].value("threads").empty()) {
    job.words.push_back("--threads=" + std::to_string(threads_of_run(c)));
  }
  return job;
}

// Throws if the run's directory holds a run with other options, or on a text that has changed since.
void require_same_run(const Comparison& c, const CellRun& run) {
  const std::string directory = path_of(c, run), config = directory + "/" + kRunConfig;
  if (!fs::exists(config)) return;
  CheckpointHeader from;
  std::string difference =
      first_difference(from_toml(read_file(config), config), options_on_checkpoint(run.words, {}, from),
                       [](const Setting& s) { return s.machine || s.name == "final-batches"; });
  const auto outcome = read_outcome(directory);
  if (difference.empty() && outcome && outcome->inputs.empty()) difference = "it does not say what it was trained with";
  if (difference.empty() && outcome)
    if (const std::string other = changed_input(c.inputs, outcome->inputs); !other.empty())
      difference = "it was trained with another " + other;
  if (!difference.empty())
    throw std::runtime_error(directory + " holds another run: " + difference + "; remove it, or choose another --out");
}

// Returns why a run failed: its error message from log.txt, or its exit code or signal.
std::string reason_of_failure(const std::string& directory, int status) {
  if (status > 128) return "killed by signal " + std::to_string(status - 128);
  std::istringstream log(read_file(directory + "/log.txt"));
  const std::string mark = "train_gpt: ";
  std::string line, message;
  while (std::getline(log, line))
    if (line.starts_with(mark)) message = line.substr(mark.size());
  return message.empty() ? "exit status " + std::to_string(status) + ", see " + directory + "/log.txt" : message;
}

std::string run_json(const Job& job, const RunResult& r) {
  return to_ascii({{"event", "run"}, {"run", job.label}, {"directory", job.directory}, {"state", name_of(r.state)},
                   {"final_val", r.final_loss}, {"best_val", r.best_loss}, {"steps", r.steps},
                   {"seconds", r.seconds}});
}

}  // namespace

void make_runs(Comparison& c, const std::vector<CellRun>& runs, int64_t later) {
  std::vector<Job> jobs;
  for (const CellRun& run : runs) {
    require_same_run(c, run);
    if (is_trained(path_of(c, run))) {
      c.trained.add(run);
      c.cells[run.cell].trained_flops += run.flops;
    } else {
      jobs.push_back(job_of(c, run));
    }
  }
  if (!c.trains && !jobs.empty()) throw RunsLeft{};
  // If a long run began last, the other processes would idle. Runs within a factor of two stay in order.
  if (!c.timed()) std::ranges::stable_sort(jobs, std::greater{}, [](const Job& job) { return std::ilogb(job.flops); });
  const bool first_of_all = c.trained.runs == 0;
  const auto ended = [&](size_t job, int status, Progress& progress) {
    const RunResult result = read_result(jobs[job].directory, c.timed());
    const std::string time = std::isnan(result.seconds) ? "" : format("  %.1f s", result.seconds);
    progress.line(jobs[job].label + ": " + describe(result) + time);
    if (has_json_lines()) json_line(run_json(jobs[job], result));
    if (result.state != RunState::failed) return;
    const std::string reason = reason_of_failure(jobs[job].directory, status);
    if (status == kExitOtherInputs)
      throw std::runtime_error(jobs[job].label + " was not trained: " + reason +
                               " since the comparison began; restore it and --resume, or start anew");
    if (first_of_all && job == 0) throw std::runtime_error("the first run failed: " + reason);
    progress.line("  " + reason);
  };
  if (!run_jobs(c.command.program, jobs, c.options().jobs, c.trained.steps, later, ended))
    throw std::runtime_error("stopped; nothing is lost. To go on:\n  " +
                             shell_words({c.command.program, "compare", "--out", c.out(), "--resume"}));
  for (const Job& job : jobs) c.trained.add(job);
  for (const CellRun& run : runs) {
    require_same_run(c, run);  // another process may have trained it
    c.runs.push_back(run);
    c.runs.back().result = read_result(path_of(c, run), c.timed());
  }
}
