#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <stdexcept>

#include "data/text/dataset.hpp"
#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/host/interrupt.hpp"
#include "data/options/command_line.hpp"
#include "data/run/resume.hpp"
#include "data/run/directory.hpp"
#include "data/run/warnings.hpp"
#include "pool.hpp"
#include "runs.hpp"
#include "study.hpp"
#include "summary.hpp"
#include "tables.hpp"
#include "tune.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptions = "comparison.toml";

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

// ---- options ---------------------------------------------------------------------------------------------

// With --resume, what the command line leaves out is as it was. The grid may have grown; a run may not have changed,
// and times are no times once runs have been beside one another.
Command on_top_of_stored(const Command& command) {
  const TrainOptions& o = command.train;
  if (!o.resume) return command;
  if (o.out.empty()) refuse("--resume needs --out: which comparison is to go on?");
  const std::string path = o.out + "/" + kOptions;
  if (!fs::exists(path)) throw std::runtime_error(o.out + " holds no comparison: there is no " + path);
  const std::string stored = read_file(path);
  Command before = command;
  before.words = {"compare"};
  before = parse_on_top(before, stored, path);
  Command merged = parse_on_top(command, stored, path);
  TrainOptions there = with_vocabulary(before.train), here = with_vocabulary(merged.train);
  make_paths_absolute(there), make_paths_absolute(here);
  const auto changed = differences(there, here, {"threads"});
  if (!changed.empty())
    refuse("cannot go on with " + o.out + ": " + changed[0] + "; leave the option out, or start anew");
  if (before.compare.jobs > 1 && merged.compare.jobs == 1)
    refuse("cannot go on with " + o.out + " as --jobs 1: some of its runs were made beside one another; leave --jobs out");
  return merged;
}

uint64_t parse_seed(const std::string& text) {
  if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != text.npos)
    refuse("seed '" + text + "' is not a whole number");
  return std::stoull(text);
}

std::vector<std::string> seeds_of(const Grid& grid, const Command& command) {
  std::set<uint64_t> numbers;
  for (const std::string& seed : grid.seeds) numbers.insert(parse_seed(seed));
  if (numbers.empty() && !command.compare.tune.empty() && !command.said("--seed")) numbers = {1, 2, 3};
  if (numbers.empty()) numbers = {command.train.seed};
  std::vector<std::string> seeds;
  for (const uint64_t number : numbers) seeds.push_back(std::to_string(number));
  return seeds;
}

Tuning tuning_of(const Grid& grid, const Command& command, const std::vector<std::string>& seeds) {
  const CompareOptions& c = command.compare;
  if (c.tune.empty()) return {};
  Tuning tuning = parse_tuning(c.tune);
  if (tuning.key == "seed" || tuning.key == "data-seed") refuse("--tune " + tuning.key + ": a seed is not to be chosen by its loss");
  for (const std::string& key : grid.keys)
    if (key == tuning.key) refuse("--tune and --grid both name " + key + ": which is it to be?");
  const std::string seed = std::to_string(c.tune_seed);
  if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end())
    refuse("--tune-seed " + seed + " is one of the seeds: a rate that was chosen on it would flatter it");
  return tuning;
}

size_t baseline_of(const Grid& grid, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> known;
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    if (grid.cells[i].name == name) return i;
    known.push_back(grid.cells[i].name);
  }
  refuse("--baseline: " + unknown_name("cell", name, known));
}

// ---- checks: what would be wrong with the last run in an hour is said now ---------------------------------

void check_options(const CompareOptions& c, const TrainOptions& o) {
  if (c.grid.empty() && c.tune.empty())
    refuse("--grid is missing: say what to compare, e.g. --grid placement=post,pre seed=1,2");
  if (o.data.empty()) refuse("--data is missing: name the text to train on");
  if (std::find(o.data.begin(), o.data.end(), "-") != o.data.end())
    refuse("compare reads its text once for each run: --data - cannot do that");
  if (!o.time_limit.empty() || o.epochs > 0)
    refuse("compare gives every run the same steps: say --steps, not --for or --epochs");
  if (o.patience > 0) refuse("compare gives every run the same steps: leave --patience out");
  if (o.eval_every == 0 || o.val_fraction == 0)
    refuse("compare goes by the loss on the validation split: --eval-every and --val-fraction must be above 0");
  if (o.steps == 0) refuse("--steps 0 compares nothing");
}

void check_keys(const Grid& grid) {
  for (const char* key : {"data", "include", "exclude", "unknown", "tokenizer", "val-fraction", "val-split", "val-data"})
    if (std::find(grid.keys.begin(), grid.keys.end(), key) != grid.keys.end())
      refuse(std::string("--grid ") + key + ": losses on different texts are not to be compared; make a comparison for each");
}

void note_tokens(Comparison& c, const TrainOptions& o) {
  const double tokens = static_cast<double>(o.steps) * o.batch * o.accumulate * o.config.context;
  c.fewest_tokens = c.most_tokens == 0 ? tokens : std::min(c.fewest_tokens, tokens);
  c.most_tokens = std::max(c.most_tokens, tokens);
}

void check_cells(Study& s) {
  std::vector<std::string> models;
  for (const GridCell& cell : s.comparison.grid.cells) {
    if (directory_name(cell.name).size() > 200) refuse("the name of cell " + cell.name.substr(0, 50) + "... is too long for a directory: name fewer keys");
    try {
      CheckpointHeader from;
      const TrainOptions untuned = options_on_checkpoint(s.words, cell.keys, from);
      models.push_back(to_toml(with_vocabulary(untuned)));
      if (s.tuning.values.empty()) note_tokens(s.comparison, untuned);
      for (const double value : s.tuning.values) {
        std::vector<GridKey> keys = cell.keys;
        keys.emplace_back(s.tuning.key, option_text(value));
        const TrainOptions tuned = options_on_checkpoint(s.words, keys, from);
        resolved(with_vocabulary(tuned).config);
        note_tokens(s.comparison, tuned);
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      refuse("cell " + cell.name + ": " + error.what());
    }
    for (size_t i = 0; i + 1 < models.size(); ++i)
      if (models[i] == models.back()) refuse("cells " + s.comparison.grid.cells[i].name + " and " + cell.name + " are the same");
  }
}

// Of the text as the runs read it: those that start from a checkpoint have its tokens, which must be the same for all.
uint64_t fingerprint_of_data(const Study& s) {
  std::map<std::string, uint64_t> started_from;
  for (const GridCell& cell : s.comparison.grid.cells) {
    CheckpointHeader from;
    const TrainOptions o = options_on_checkpoint(s.words, cell.keys, from);
    if (started_from.count(o.init_from)) continue;
    const Tokenizer* tokenizer = o.init_from.empty() ? nullptr : &from.tokenizer;
    const uint64_t found = load_dataset(o, tokenizer, o.config.context).fingerprint;
    if (!started_from.empty() && found != started_from.begin()->second)
      refuse("cells " + s.comparison.grid.cells[0].name + " and " + cell.name +
             " have other tokens: their losses are not to be compared");
    started_from[o.init_from] = found;
  }
  return started_from.begin()->second;
}

Study prepare(const Command& given) {
  Study s;
  s.command = on_top_of_stored(given);
  const CompareOptions& c = s.options();
  const TrainOptions& o = s.command.train;
  check_options(c, o);
  s.comparison.grid = parse_grid(c.grid);
  check_keys(s.comparison.grid);
  s.seeds = seeds_of(s.comparison.grid, s.command);
  s.tuning = tuning_of(s.comparison.grid, s.command, s.seeds);
  s.comparison.tuned_key = s.tuning.key, s.comparison.tuning_grid = s.tuning.values;
  s.comparison.baseline = baseline_of(s.comparison.grid, c.baseline);
  s.comparison.timed = c.jobs == 1;
  s.comparison.cells.resize(s.comparison.grid.cells.size());
  s.words = words_for_train(s.command);
  if (!s.command.said("--final-batches")) s.words.push_back("--final-batches=0");  // a final loss is of the whole split
  s.binary = own_binary(s.command.program);
  check_cells(s);
  s.data_fingerprint = fingerprint_of_data(s);
  s.out = o.out;
  if (o.dry_run && s.out.empty()) s.out = next_run_directory("compare");
  return s;
}

// ---- the directory ---------------------------------------------------------------------------------------

// Files that a comparison has written: its tables and the directories of its runs.
void remove_comparison(const std::string& out) {
  for (const char* name : {kOptions, "curves.csv", "runs.csv", "summary.csv", "diagnostics.csv"}) fs::remove(fs::path(out) / name);
  for (const auto& cell : fs::directory_iterator(out)) {
    if (!cell.is_directory()) continue;
    for (const auto& run : fs::directory_iterator(cell))
      if (fs::exists(run.path() / "log.txt")) fs::remove_all(run.path());
    if (fs::is_empty(cell)) fs::remove(cell.path());
  }
}

void prepare_directory(const Study& s) {
  const TrainOptions& o = s.command.train;
  if (fs::exists(s.out + "/" + kOptions) && !o.resume) {
    if (!o.force)
      throw std::runtime_error(s.out + " already holds a comparison: --resume goes on with it, --force replaces it");
    remove_comparison(s.out);
  }
  WholeFile file(s.out + "/" + kOptions);
  file.write("# What was said of this comparison; train_gpt compare --out THIS --resume reads it back.\n" +
             said_as_toml(s.command));
  file.finish();
  file.publish();
}

// ---- the stages ------------------------------------------------------------------------------------------

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
  std::printf("%s", counted(double(grid.cells.size()), "cell").c_str());
  if (tunes > 0)
    std::printf(", %zu values of %s each on seed %s", s.tuning.values.size(), s.tuning.key.c_str(),
                std::to_string(s.options().tune_seed).c_str());
  std::printf(", %s: %s of %s into %s\n", counted(double(s.seeds.size()), "seed").c_str(),
              counted(double(finals + tunes), "run").c_str(), counted(double(s.command.train.steps), "step").c_str(), s.out.c_str());
  for (const GridCell& cell : grid.cells) std::printf("  %s\n", cell.name.c_str());
  for (const std::string& line : warnings_about(s.command.train)) std::printf("WARNING: %s\n", line.c_str());
  if (const std::string text = unequal_tokens(s.comparison); !text.empty()) std::puts(text.c_str());
}

}  // namespace

void run_compare(const Command& command) {
  Study s = prepare(command);
  DirectoryLock lock;
  if (!s.command.train.dry_run) lock = claim_directory(s.out, "compare");
  print_plan(s);
  if (s.command.train.dry_run) return;
  catch_interrupts();
  prepare_directory(s);
  if (!s.tuning.values.empty()) tune(s);
  final_runs(s);
  summarize(s.comparison, s.options().target);
  write_tables(s.comparison, s.out);
  print_table(s.comparison);
  std::printf("\ntables  %s\nreport  make report RUN=%s\n", shell_words({s.out + "/summary.csv"}).c_str(), shell_words({s.out}).c_str());
}
