#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "../dataset.hpp"
#include "../files.hpp"
#include "../machine.hpp"
#include "../run.hpp"
#include "pool.hpp"
#include "tables.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptions = "compare.toml";

struct Study {
  Command command;
  std::string out, binary;
  std::vector<std::string> words;   // of `train`, common to all runs
  std::vector<std::string> seeds;
  Tuning tuning;                    // no values where nothing is tuned
  Comparison comparison;
  std::vector<PlannedRun> planned;  // so far, in the order of the tables

  const CompareOptions& options() const { return command.compare; }
  const std::string& cell_name(size_t cell) const { return comparison.grid.cells[cell].name; }
};

// ---- options ---------------------------------------------------------------------------------------------

// With a vocabulary in the place of the text's, which only the runs look at.
TrainOptions with_vocabulary(TrainOptions o) {
  if (o.config.vocab_size == 0) o.config.vocab_size = 256;
  return o;
}

// The seeds stay open where nobody named them: they come from the grid, or from --tune.
std::string stored_options(const Command& command) {
  std::string options = "# Every option of this comparison; train_gpt compare --out THIS --resume reads them back.\n" +
                        to_toml(with_vocabulary(command.train), command.train) + to_toml(command.compare);
  for (const std::string seed : {"seed", "data-seed"})
    if (!command.said("--" + seed)) options.insert(options.find("\n" + seed + " = ") + 1, "# ");
  return options;
}

// With --resume, what the command line leaves out is as it was. The grid may have grown; a run may not have changed.
Command on_top_of_stored(const Command& command) {
  const TrainOptions& o = command.train;
  if (!o.resume) return command;
  if (o.out.empty()) throw std::invalid_argument("--resume needs --out: which comparison is to go on?");
  const std::string path = o.out + "/" + kOptions;
  if (!fs::exists(path)) throw std::runtime_error(o.out + " holds no comparison: there is no " + path);
  const std::string stored = read_file(path);
  Command merged = parse_on_top(command, stored);
  Command before = command;
  before.words = {"compare"};
  const auto changed = differences(with_vocabulary(parse_on_top(before, stored).train), with_vocabulary(merged.train),
                                   {"threads", "data"});
  if (!changed.empty())
    throw std::invalid_argument("cannot go on with " + o.out + ": " + changed[0] + "; leave the option out, or start anew");
  return merged;
}

std::vector<std::string> seeds_of(const Grid& grid, const Command& command) {
  if (!grid.seeds.empty()) return grid.seeds;
  if (!command.compare.tune.empty() && !command.said("--seed")) return {"1", "2", "3"};
  return {std::to_string(command.train.seed)};
}

size_t baseline_of(const Grid& grid, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> known;
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    if (grid.cells[i].name == name) return i;
    known.push_back(grid.cells[i].name);
  }
  throw std::invalid_argument("--baseline: " + unknown_name("cell", name, known));
}

// What would be wrong with the last cell in an hour is said now.
void check_cells(const Study& s) {
  for (const GridCell& cell : s.comparison.grid.cells) {
    try {
      resolve(with_vocabulary(train_options(s.words, cell.keys)).config);
    } catch (const std::exception& error) {
      throw std::invalid_argument("cell " + cell.name + ": " + error.what());
    }
  }
}

Study prepare(const Command& given) {
  Study s;
  s.command = on_top_of_stored(given);
  const CompareOptions& c = s.options();
  const TrainOptions& o = s.command.train;
  if (c.grid.empty() && c.tune.empty())
    throw std::invalid_argument("--grid is missing: say what to compare, e.g. --grid placement=post,pre seed=1,2");
  if (o.data.empty()) throw std::invalid_argument("--data is missing: name the text to train on");
  if (std::find(o.data.begin(), o.data.end(), "-") != o.data.end())
    throw std::invalid_argument("compare reads its text once for each run: --data - cannot do that");
  if (!o.time_limit.empty()) throw std::invalid_argument("compare gives every run the same steps: say --steps, not --for");
  s.comparison.grid = parse_grid(c.grid);
  s.seeds = seeds_of(s.comparison.grid, s.command);
  if (!c.tune.empty()) {
    s.tuning = parse_tuning(c.tune);
    s.comparison.tuned_key = s.tuning.key, s.comparison.tuning_grid = s.tuning.values;
    for (const std::string& key : s.comparison.grid.keys)
      if (key == s.tuning.key) throw std::invalid_argument("--tune and --grid both name " + key + ": which is it to be?");
    if (std::find(s.seeds.begin(), s.seeds.end(), std::to_string(c.tune_seed)) != s.seeds.end())
      throw std::invalid_argument("--tune-seed " + std::to_string(c.tune_seed) +
                                  " is one of the seeds: a rate that was chosen on it would flatter it");
  }
  s.comparison.baseline = baseline_of(s.comparison.grid, c.baseline);
  s.comparison.timed = c.jobs == 1;
  s.comparison.cells.resize(s.comparison.grid.cells.size());
  s.words = words_for_train(s.command);
  s.binary = own_binary(s.command.program);
  check_cells(s);
  load_dataset(o.data, nullptr, o.tokenizer == TextUnit::character, o.val_fraction, o.config.context);  // or throws
  s.out = o.out.empty() ? next_run_directory("compare") : o.out;
  return s;
}

void prepare_directory(const Study& s) {
  const TrainOptions& o = s.command.train;
  if (fs::exists(s.out + "/" + kOptions) && !o.resume) {
    if (!o.force)
      throw std::runtime_error(s.out + " already holds a comparison: --resume goes on with it, --force replaces it");
    std::error_code error;
    fs::remove_all(s.out, error);
    if (error) fail_file("remove", s.out, error.value());
  }
  std::error_code error;
  fs::create_directories(s.out, error);
  if (error) fail_file("make the directory", s.out, error.value());
  WholeFile file(s.out + "/" + kOptions);
  file.write(stored_options(s.command));
  file.finish();
  file.publish();
}

// ---- runs ------------------------------------------------------------------------------------------------

PlannedRun plan_run(const Study& s, Stage stage, size_t cell, const std::string& seed, std::optional<double> tuned) {
  const GridCell& c = s.comparison.grid.cells[cell];
  PlannedRun run{stage, cell, seed, tuned, {}, s.words, {}, s.command.train.steps};
  const std::string value = tuned ? s.tuning.key + "=" + option_text(*tuned) : "";
  const auto say = [&](const std::string& key, const std::string& text) { run.words.push_back("--" + key + "=" + text); };
  for (const auto& [key, text] : c.keys) say(key, text);
  if (tuned) say(s.tuning.key, option_text(*tuned));
  say("seed", seed);
  // Other seeds see other batches, unless someone fixed them.
  if (!s.command.said("--data-seed") && c.value("data-seed").empty()) say("data-seed", seed);
  run.words.push_back("--quiet");
  const std::string name = stage == Stage::tune ? "tune," + value : "seed=" + seed;
  run.directory = c.name + "/" + name;
  run.label = c.name + "  " + name + (stage == Stage::final && tuned ? "  " + value : "");
  if (const std::string steps = c.value("steps"); !steps.empty()) run.steps = std::atoll(steps.c_str());
  return run;
}

// The command line for a shell, as the words that make the run.
std::string shell_command(const Study& s, const PlannedRun& run) {
  std::string line = s.command.program;
  for (const std::string& word : run.words) {
    const bool plain = word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!{}") == word.npos;
    line += " " + (plain ? word : "'" + word + "'");
  }
  return line + " --out " + s.out + "/" + run.directory;
}

Job job_of(const Study& s, const PlannedRun& run) {
  const std::string directory = s.out + "/" + run.directory;
  Job job{run.words, directory, run.label, run.steps};
  job.words.insert(job.words.end(), {"--out", directory});
  job.words.push_back(fs::exists(directory + "/" + kLastCheckpoint) ? "--resume" : "--force");
  if (s.options().jobs > 1) {
    const int all = s.command.train.threads > 0 ? s.command.train.threads : look_at_machine().processors;
    job.words.push_back("--threads=" + std::to_string(std::max(1, all / s.options().jobs)));
  }
  return job;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last.starts_with("train_gpt: ") ? last.substr(11) : last;
}

std::string told(const RunResult& r) {
  std::string text = name_of(r.state);
  if (r.state != State::failed && !std::isnan(r.final_loss)) text += format(", %.4f", r.final_loss);
  if (r.state == State::diverged) text += " (step " + std::to_string(r.stopped_at) + (r.first_tensor.empty() ? "" : ", " + r.first_tensor) + ")";
  if (!std::isnan(r.seconds)) text += "  " + format("%.1f s", r.seconds);
  return text;
}

// Makes the runs that are not over yet, and adds all to the comparison. `later`: steps that other stages will take.
void make_runs(Study& s, const std::vector<PlannedRun>& runs, int64_t later) {
  s.planned.insert(s.planned.end(), runs.begin(), runs.end());
  std::vector<Job> jobs;
  int64_t before = 0;
  for (const PlannedRun& run : s.planned) {
    const bool is_new = &run >= &s.planned[s.planned.size() - runs.size()];
    if (is_new && !read_outcome(s.out + "/" + run.directory)) jobs.push_back(job_of(s, run));
    else before += run.steps;
  }
  const bool first_of_all = before == 0;
  const auto ended = [&](size_t job, Progress& progress) {
    const RunResult result = read_result(jobs[job].directory, s.comparison.timed);
    progress.line(jobs[job].label + ": " + told(result));
    if (result.state != State::failed) return;
    const std::string reason = last_line(jobs[job].directory + "/log.txt");
    if (first_of_all && job == 0) throw std::runtime_error("the first run failed: " + reason);
    progress.line("  " + reason);
  };
  if (!run_jobs(s.binary, jobs, s.options().jobs, before, later, ended))
    throw std::runtime_error("stopped; nothing is lost. To go on:\n  " + s.command.program + " compare --out " + s.out + " --resume");
  for (const PlannedRun& run : runs)
    s.comparison.runs.push_back({run, read_result(s.out + "/" + run.directory, s.comparison.timed), shell_command(s, run)});
}

// ---- tuning ----------------------------------------------------------------------------------------------

// The values tried so far with a cell, in rising order, and where the best of them is.
struct Tried {
  std::vector<double> values;
  size_t best = 0;

  bool at_low_edge() const { return best == 0; }
  bool at_high_edge() const { return best + 1 == values.size(); }
};

Tried tried_with(const Comparison& c, size_t cell) {
  std::vector<std::pair<double, const RunResult*>> runs;
  for (const FinishedRun& run : c.runs)
    if (run.plan.cell == cell && run.plan.stage == Stage::tune) runs.emplace_back(*run.plan.tuned, &run.result);
  std::sort(runs.begin(), runs.end());
  // A run that got stuck is worth less than any that learns, and more than one that diverged.
  const auto worth = [](const RunResult& r) {
    const int rank = r.state == State::finished ? 0 : r.state == State::stuck ? 1 : 2;
    return std::pair(rank, rank < 2 ? r.final_loss : 0);
  };
  Tried t;
  for (size_t i = 0; i < runs.size(); ++i) {
    t.values.push_back(runs[i].first);
    if (worth(*runs[i].second) < worth(*runs[t.best].second)) t.best = i;
  }
  return t;
}

// The next value beyond the edge at which the best lies, by the ratio of the two before it; none where it is inside.
std::optional<double> beyond_edge(const Tried& t) {
  const size_t n = t.values.size();
  double next = 0;
  if (t.at_low_edge()) next = t.values[0] * t.values[0] / t.values[1];
  else if (t.at_high_edge()) next = t.values[n - 1] * t.values[n - 1] / t.values[n - 2];
  else return std::nullopt;
  return std::strtod(format("%.1e", next).c_str(), nullptr);  // two digits: 1e-2 · (1e-2 / 3e-3) is 3.3e-2
}

void tune(Study& s) {
  const size_t cells = s.comparison.grid.cells.size();
  const std::string seed = std::to_string(s.options().tune_seed);
  const int64_t later = static_cast<int64_t>(cells * s.seeds.size()) * s.command.train.steps;
  std::vector<PlannedRun> runs;
  for (size_t cell = 0; cell < cells; ++cell)
    for (const double value : s.tuning.values) runs.push_back(plan_run(s, Stage::tune, cell, seed, value));
  for (int extension = 0; !runs.empty(); ++extension) {
    make_runs(s, runs, later);
    runs.clear();
    for (size_t cell = 0; cell < cells && extension < s.options().extend; ++cell)
      if (const auto value = beyond_edge(tried_with(s.comparison, cell)))
        runs.push_back(plan_run(s, Stage::tune, cell, seed, *value));
  }
  for (size_t cell = 0; cell < cells; ++cell) {
    const Tried t = tried_with(s.comparison, cell);
    s.comparison.cells[cell].tuned = t.values[t.best];
    s.comparison.cells[cell].at_edge = t.at_low_edge() || t.at_high_edge();
  }
}

void final_runs(Study& s) {
  std::vector<PlannedRun> runs;
  for (const std::string& seed : s.seeds)  // seed by seed: what is there early compares all cells
    for (size_t cell = 0; cell < s.comparison.grid.cells.size(); ++cell) {
      const double tuned = s.comparison.cells[cell].tuned;
      runs.push_back(plan_run(s, Stage::final, cell, seed, std::isnan(tuned) ? std::nullopt : std::optional(tuned)));
    }
  make_runs(s, runs, 0);
}

void print_plan(const Study& s) {
  const Grid& grid = s.comparison.grid;
  const size_t finals = grid.cells.size() * s.seeds.size(), tunes = grid.cells.size() * s.tuning.values.size();
  std::printf("%zu cells", grid.cells.size());
  if (tunes > 0) std::printf(", %zu values of %s each on seed %s", s.tuning.values.size(), s.tuning.key.c_str(),
                             std::to_string(s.options().tune_seed).c_str());
  std::printf(", %zu seed%s: %zu runs of %lld steps into %s\n", s.seeds.size(), s.seeds.size() == 1 ? "" : "s", finals + tunes,
              static_cast<long long>(s.command.train.steps), s.out.c_str());
  for (const GridCell& cell : grid.cells) std::printf("  %s\n", cell.name.c_str());
}

}  // namespace

void run_compare(const Command& command) {
  Study s = prepare(command);
  print_plan(s);
  if (s.command.train.dry_run) return;
  prepare_directory(s);
  if (!s.tuning.values.empty()) tune(s);
  final_runs(s);
  summarise(s.comparison, s.options().target);
  write_tables(s.comparison, s.out);
  print_table(s.comparison);
  std::printf("\ntables  %s/{summary,runs,curves}.csv\nreport  make report RUN=%s\n", s.out.c_str(), s.out.c_str());
}
