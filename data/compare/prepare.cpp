#include "prepare.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <tuple>

#include "data/files/files.hpp"
#include "data/options/command_line.hpp"
#include "data/options/settings_file.hpp"
#include "data/run/multiple_choice.hpp"
#include "data/run/resume.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/format.hpp"
#include "data/text/load_dataset.hpp"
#include "runs.hpp"
#include "scaling.hpp"
#include "tuning.hpp"

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptions = "comparison.toml";
constexpr const char* kTables[] = {"curves.csv", "runs.csv", "summary.csv", "diagnostics.csv"};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// ---- options ---------------------------------------------------------------------------------------------

bool same_runs(const CompareOptions& a, const CompareOptions& b) {
  const auto tied = [](const CompareOptions& o) {
    return std::tie(o.grid, o.tune, o.tune_seed, o.tune_runs, o.tune_size, o.baseline, o.margin, o.target);
  };
  return tied(a) == tied(b);
}

// The command that wrote comparison.toml.
Command stored_command(const std::string& path, const std::string& text) {
  Command empty;
  empty.kind = Command::Kind::compare;
  return parse_on_top(empty, text, path);
}

// How long the runs train, as an option and its value: {"steps", "3000"}, {"tokens-per-parameter", "20"}.
std::pair<std::string, std::string> length_of(const Command& command) {
  for (const CommandSetting& s : settings_of(Command::Kind::compare))
    if (s.length && command.said(s.name)) return {s.name, s.value(command)};
  return {"steps", toml(command.train.steps)};
}

// Returns the first option in which the runs differ, or "".
std::string changed_option(const Command& before, const Command& now) {
  const auto [was, old_value] = length_of(before);
  const auto [is, value] = length_of(now);
  if (was != is || old_value != value)
    return "--" + was + " is " + old_value + " there and " + (was == is ? "" : "--" + is + " is ") + value + " here";
  return first_difference(before.train, now.train, [](const Setting& s) { return s.machine; });
}

// With --resume, the stored options apply unless the command line gives them again. The grid may grow, but the options
// of a run must not change. If some runs were simultaneous, the comparison reports no times. Processes that join a
// comparison must agree on all options.
Command on_top_of_stored(const Command& command) {
  const TrainOptions& o = command.train;
  const bool join = command.compare.join;
  if (o.resume && o.out.empty()) throw std::invalid_argument("--resume needs --out: name the comparison to continue");
  const std::string path = o.out + "/" + kOptions;
  if (!o.resume && !(join && fs::exists(path))) return with_sizes(command);
  if (!fs::exists(path)) throw std::runtime_error(o.out + " holds no comparison: there is no " + path);
  const std::string stored = read_file(path);
  const Command before = stored_command(path, stored);
  Command merged = with_sizes(parse_on_top(command, stored, path));
  merged.train.resume = true;
  const std::string changed = changed_option(before, merged);
  if (!changed.empty())
    throw std::invalid_argument("cannot go on with " + o.out + ": " + changed +
                                "; leave the option out, or start anew");
  if (!reports_times(before.compare) && reports_times(merged.compare))
    throw std::invalid_argument("cannot go on with " + o.out +
                                " as --jobs 1: some of its runs were made in parallel; leave --jobs out");
  if (join && !same_runs(before.compare, merged.compare))
    throw std::invalid_argument("cannot join " + o.out +
                                ": its cells are others; leave out all options but --out and --join");
  return merged;
}

uint64_t parse_seed(const std::string& text) {
  if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != text.npos)
    throw std::invalid_argument("seed '" + text + "' is not a whole number");
  return std::stoull(text);
}

std::vector<std::string> seeds_of(const Grid& grid, const Command& command) {
  std::set<uint64_t> numbers;
  for (const std::string& seed : grid.seeds) numbers.insert(parse_seed(seed));
  if (numbers.empty() && !command.compare.tune.empty() && !command.said("seed")) numbers = {1, 2, 3};
  if (numbers.empty()) numbers = {command.train.seed};
  std::vector<std::string> seeds;
  for (const uint64_t number : numbers) seeds.push_back(std::to_string(number));
  return seeds;
}

// Parses "3/16".
RunShard shard_of(const std::string& text, size_t most) {
  if (text.empty()) return {};
  unsigned index = 0, count = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%4u/%4u%c", &index, &count, &end) != 2 || index < 1 || index > count)
    throw std::invalid_argument("--shard " + text + ": write 1/4, 2/4, 3/4 and 4/4 for four parts");
  if (count > most)
    throw std::invalid_argument("--shard " + text + ": the comparison has only " + counted(double(most), "part") +
                                " to share");
  return {index - 1, count};
}

// Losses can be compared only if all runs read and measure the same, for as long. `option` is "--grid " or "--tune ".
void check_key(const std::string& option, const std::string& key, const Command& command) {
  const TrainSetting& s = *find_setting(train_settings(), key);
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(option + key + why); };
  if (s.text) refuse(": losses on different texts cannot be compared; make a comparison for each");
  if (s.measures) refuse(": all runs of a comparison measure alike; leave it out");
  if (s.length && command.train.tokens_per_parameter > 0)
    refuse(" and --tokens-per-parameter both say how long to train: leave one out");
  if (s.dimension && command.train.tokens_per_parameter > 0)
    refuse(": with --tokens-per-parameter or --flops the size of a cell says how long it trains; name sizes "
           "(size=d1,d2), or make a comparison for each");
  if (option == "--tune " && (s.untuned || s.machine))
    refuse(": it must not be chosen by the loss; tune another option");
}

// Says which typed options have no effect, because all cells have their own.
void note_replaced(Comparison& c, const Command& given) {
  const auto note = [&](const std::string& key, const char* option = "--grid") {
    if (given.said(key))
      c.notes.push_back(std::string(option) + " names " + key + ", so --" + key + " has no effect");
  };
  for (const std::string& key : c.grid.keys)
    if (std::ranges::all_of(c.grid.cells, [&](const GridCell& cell) { return !cell.value(key).empty(); })) note(key);
  if (!c.grid.seeds.empty()) note("seed");
  for (const TunedOption& tuned : c.tuning.options) note(tuned.key, "--tune");
}

Tuning tuning_of(const Grid& grid, const Command& command, const std::vector<std::string>& seeds) {
  const CompareOptions& c = command.compare;
  const Tuning tuning = parse_tuning(c.tune);
  for (const TunedOption& option : tuning.options) {
    check_key("--tune ", option.key, command);
    if (contains(grid.keys, option.key))
      throw std::invalid_argument("--tune and --grid both name " + option.key + ": name it in one of them");
  }
  if (const std::string seed = std::to_string(c.tune_seed); !tuning.empty() && contains(seeds, seed))
    throw std::invalid_argument("--tune-seed " + seed +
                                " is one of the seeds: values chosen on it would favor it; choose another");
  if (const std::string& size = c.tune_size; !size.empty()) {
    const auto has_size = [&](const GridCell& cell) { return cell.value("size") == size; };
    if (std::ranges::none_of(grid.cells, has_size))
      throw std::invalid_argument("--tune-size " + size + " is no size of the grid: name one of --grid size=...");
  }
  if (const size_t least = tuning.combinations().size(); c.tune_runs && *c.tune_runs < static_cast<int>(least))
    throw std::invalid_argument("--tune-runs " + std::to_string(*c.tune_runs) + " is below the " +
                                std::to_string(least) +
                                " combinations of --tune: allow more runs, or name fewer values");
  return tuning;
}

size_t baseline_of(const Grid& grid, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> known;
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    if (grid.cells[i].name == name || grid.cells[i].without("size").name == name) return i;
    known.push_back(grid.cells[i].name);
  }
  throw std::invalid_argument("--baseline: " + unknown_name("cell", name, known));
}

constexpr const char* kNeedsValidation =
    "compare needs the loss on a validation text: set --eval-every, and --val-fraction or --val-data";

// ---- checks: an error in the last run is reported now, not after an hour------------------------------------

void check_options(const CompareOptions& c, const TrainOptions& o) {
  if (c.join && c.grid.empty() && c.tune.empty())
    throw std::runtime_error("there is no comparison in " + o.out + " to join, and no --grid to begin one");
  if (c.grid.empty() && c.tune.empty())
    throw std::invalid_argument("--grid is missing: say what to compare, e.g. --grid placement=post,pre seed=1,2");
  if (o.data.empty()) throw std::invalid_argument("--data is missing: name the text to train on");
  if (contains(o.data, "-"))
    throw std::invalid_argument("compare reads its text once for each run: --data - cannot do that");
  if (!o.time_limit.empty() || o.epochs > 0)
    throw std::invalid_argument("compare gives every run the same steps: say --steps, not --for or --epochs");
  if (o.patience > 0) throw std::invalid_argument("compare gives every run the same steps: leave --patience out");
  if (c.join && o.out.empty())
    throw std::invalid_argument("--join needs --out: name the directory that the processes share");
  if (c.join && o.force)
    throw std::invalid_argument("--force would remove what other processes train: leave it or --join out");
  if (eval_every(o) == 0) throw std::invalid_argument(kNeedsValidation);
}

void count_tokens(Comparison& c) {
  for (const TrainOptions& o : c.planned) {
    const double tokens = static_cast<double>(o.steps) * o.batch * o.accumulate * o.config.context;
    c.fewest_tokens = c.most_tokens == 0 ? tokens : std::min(c.fewest_tokens, tokens);
    c.most_tokens = std::max(c.most_tokens, tokens);
  }
}

// The context must not depend on the memory of the machine that trains a run.
void require_context(const Command& run, const TrainOptions& o, const CheckpointHeader& from) {
  if (const int whole = from.options.config.context; !run.said("context") && o.config.context != whole)
    throw std::invalid_argument("the whole context of " + o.init_from + ", " + std::to_string(whole) +
                                " tokens, needs more than half of the memory: say --context");
}

void check_cells(Comparison& c) {
  std::map<std::string, std::string> cell_of;  // key: a model and its training options, as TOML
  for (const GridCell& cell : c.grid.cells) {
    if (directory_name(cell.name).size() > 200)
      throw std::invalid_argument("the name of cell " + cell.name.substr(0, 50) +
                                  "... is too long for a directory: name fewer keys");
    std::string model;
    try {
      CheckpointHeader from;
      model = to_toml(with_vocabulary(options_on_checkpoint(c.words, cell.keys, from)));
      for (const Point& point : c.tuning.combinations()) {
        std::vector<GridKey> keys = cell.keys;
        for (const GridKey& tuned : c.tuning.keys(point)) keys.push_back(tuned);
        const Command run = parse_words(c.words, keys);
        const TrainOptions tuned = on_top_of_checkpoint(run, from).train;
        resolved(with_vocabulary(tuned).config);
        if (tuned.steps == 0) throw std::invalid_argument("--steps 0 compares nothing");
        if (!tuned.init_from.empty()) require_context(run, tuned, from);
        c.planned.push_back(tuned);
        const std::string note = note_on_rate(run, tuned);
        if (!note.empty() && !contains(c.notes, note)) c.notes.push_back(note);
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw std::invalid_argument("cell " + cell.name + ": " + plain_text(error));
    }
    const auto [same, is_new] = cell_of.emplace(model, cell.name);
    if (!is_new) throw std::invalid_argument("cells " + same->second + " and " + cell.name + " are the same");
  }
}

// Returns "cells placement=pre and placement=post", or "runs with batch=2 and with batch=4" if a cell tunes that.
std::string first_and(const Comparison& c, size_t planned) {
  const std::vector<Point> points = c.tuning.combinations();
  const size_t cell = planned / points.size();
  if (cell > 0) return "cells " + c.grid.cells[0].name + " and " + c.grid.cells[cell].name;
  const auto text = [&](const Point& point) {
    std::string values = "with";
    for (const auto& [key, value] : c.tuning.keys(point)) values += " " + key + "=" + value;
    return values;
  };
  return "runs " + text(points[0]) + " and " + text(points[planned]);
}

// Every run must be able to measure the pairs of --eval-pairs, which it does at its end.
void check_pairs(const Comparison& c, size_t planned, const Dataset& data) {
  const TrainOptions& o = c.planned[planned];
  if (o.eval_pairs.empty()) return;
  Config config = o.config;
  set_vocabulary(config, data.tokenizer.vocabulary());
  try {
    read_all(o.eval_pairs, read_pairs, question_tokens(data.tokenizer, o, o.unknown), config);
  } catch (const std::exception& error) {
    const GridCell& cell = c.grid.cells[planned / c.tuning.combinations().size()];
    throw std::invalid_argument("cell " + cell.name + ": " + plain_text(error));
  }
}

// Hashes everything that the runs read. Runs that start from a checkpoint use its tokenizer. All runs must have the
// same tokens, but for --data-limit, and be validated on the same ones.
InputHashes hash_inputs(Comparison& c) {
  InputHashes hashes;
  for (size_t i = 0; i < c.planned.size(); ++i) {
    const TrainOptions& o = c.planned[i];
    if (c.texts.contains(reading_of(o))) continue;
    const Dataset data = load_text(o, c.out());
    if (data.val.empty()) throw std::invalid_argument(kNeedsValidation);
    check_pairs(c, i, data);
    const InputHashes text = hash_text(o, data);
    const uint64_t validation = hash_validation(o, data);
    if (hashes.empty()) {
      hashes = text;
      c.validation = validation;
      c.notes.insert(c.notes.end(), data.notes.begin(), data.notes.end());
    }
    c.texts[reading_of(o)] = facts_of(data, o.config.context);
    if (!changed_input(hashes, text).empty())
      throw std::invalid_argument(first_and(c, i) + " have different tokens: their losses cannot be compared");
    if (validation != c.validation)
      throw std::invalid_argument(first_and(c, i) +
                                  " are validated on different tokens: their losses cannot be compared");
    if (o.init_from.empty()) continue;
    if (const std::string weights = hash_weights(o.init_from); !contains(hashes, weights)) hashes.push_back(weights);
  }
  return hashes;
}

// Records what the runs read. If the comparison has begun, it must not have changed.
void note_inputs(Comparison& c) {
  c.inputs = hash_inputs(c);
  const InputHashes& before = c.command.train.input_hashes;
  const std::string changed = changed_input(before, c.inputs);
  if (!changed.empty())
    throw std::runtime_error("cannot go on with " + c.out() + ": the " + changed +
                             " has changed since the comparison began; restore it, or start anew");
  for (const std::string& hash : before)  // the command line may name fewer cells this time
    if (!contains(c.inputs, hash)) c.inputs.push_back(hash);
  std::erase_if(c.command.given, [](const Given& g) { return g.name == "input-hashes"; });
  c.command.given.push_back({"input-hashes", c.inputs});
}

// Returns the stored options of the comparison that --resume continues.
Command command_before(const Comparison& c) {
  const std::string path = c.out() + "/" + kOptions;
  return stored_command(path, read_file(path));
}

// Returns the first part of the old --tune that the new options leave out, or "".
std::string left_out_of_tuning(const Comparison& c, const Command& before) {
  Comparison old;
  old.command = before;
  old.tuning = parse_tuning(before.compare.tune);
  const std::vector<TunedOption>&was = old.tuning.options, &is = c.tuning.options;
  if (!std::ranges::equal(was, is, {}, &TunedOption::key, &TunedOption::key))
    return was.empty() ? "the runs without --tune" : "the runs with --tune " + tuned_text(old.tuning);
  if (was.empty()) return "";
  for (size_t i = 0; i < was.size(); ++i)
    for (size_t n = 0; n < was[i].values.size(); ++n)
      if (std::ranges::find(is[i].values, was[i].values[n]) == is[i].values.end())
        return "--tune " + was[i].key + "=" + was[i].value(static_cast<int>(n));
  if (before.compare.tune_seed != c.options().tune_seed)
    return "--tune-seed " + std::to_string(before.compare.tune_seed);
  if (before.compare.tune_size != c.options().tune_size)
    return "the values tuned " + (before.compare.tune_size.empty() ? "at every size" : "at --tune-size " +
                                                                                       before.compare.tune_size);
  const size_t most = most_tuning_runs(old);
  return most > most_tuning_runs(c) ? "--tune-runs " + std::to_string(most) : "";
}

// Returns the first cell, seed or tuned value of the old comparison that the new options leave out, or "".
std::string left_out(const Comparison& c) {
  const Command before = command_before(c);
  const Grid grid = parse_grid(before.compare.grid);
  for (const GridCell& cell : grid.cells)
    if (std::ranges::find(c.grid.cells, cell.name, &GridCell::name) == c.grid.cells.end()) return "cell " + cell.name;
  for (const std::string& seed : seeds_of(grid, before))
    if (!contains(c.seeds, seed)) return "seed " + seed;
  return left_out_of_tuning(c, before);
}

// A resumed comparison may only add runs, because the tables hold every run.
void require_all_runs(const Comparison& c) {
  if (const std::string missing = left_out(c); !missing.empty())
    throw std::invalid_argument("cannot go on with " + c.out() + ": its tables would lose " + missing +
                                "; name it too (without --grid and --tune all stays), or choose another --out");
}

// A process that trains a shard joins a comparison, even without --join.
void say_join(Command& command) {
  if (!command.compare.join) command.given.push_back({"join", {"true"}});
  command.compare.join = true;
}

// True if `name` is the folder of a run that these options plan: "seed=1", "seed=1,lr=0.001", "tune,seed=0,lr=0.001".
bool is_planned_run(const std::string& name, const std::vector<std::string>& seeds, const CompareOptions& o) {
  const std::string seed = "seed=", tune = "tune," + seed + std::to_string(o.tune_seed) + ",";
  const auto is_of = [&](const std::string& number) {
    return name == seed + number || name.starts_with(seed + number + ",");
  };
  return name.starts_with(tune) || std::any_of(seeds.begin(), seeds.end(), is_of);
}

bool is_folder(const fs::directory_entry& entry) {  // not a link to one
  return entry.symlink_status().type() == fs::file_type::directory;
}

// Removes what a comparison with these options wrote: the files of its runs, and its tables. Everything else stays.
void remove_comparison(const std::string& out, const Command& before) {
  const Grid grid = parse_grid(before.compare.grid);
  const std::vector<std::string> seeds = seeds_of(grid, before);
  for (const GridCell& cell : grid.cells) {
    const fs::directory_entry folder(fs::path(out) / directory_name(cell.name));
    if (!is_folder(folder)) continue;
    for (const auto& run : fs::directory_iterator(folder))
      if (is_folder(run) && is_planned_run(run.path().filename().string(), seeds, before.compare))
        remove_run(run.path().string());
    if (fs::is_empty(folder)) fs::remove(folder);
  }
  for (const char* name : kTables) fs::remove(fs::path(out) / name);
  fs::remove(fs::path(out) / kOptions);
}

}  // namespace

Comparison prepare_comparison(Command given) {
  Comparison c;
  if (!given.compare.shard.empty()) say_join(given);
  c.command = on_top_of_stored(given);
  TrainOptions& o = c.command.train;
  check_options(c.options(), o);
  c.grid = parse_grid(c.options().grid);
  for (const std::string& key : c.grid.keys) check_key("--grid ", key, c.command);
  c.seeds = seeds_of(c.grid, c.command);
  c.tuning = tuning_of(c.grid, c.command, c.seeds);
  note_replaced(c, given);
  if (c.seeds.size() == 1 && c.grid.cells.size() > 1)
    c.notes.push_back("one seed gives no intervals and no verdicts: add seed=1,2,3 to --grid");
  if (o.resume) require_all_runs(c);
  c.baseline = baseline_of(c.grid, c.options().baseline);
  c.cells.resize(c.grid.cells.size());
  c.shard = shard_of(c.options().shard, c.tuning.empty() ? c.cells.size() * c.seeds.size() : tuned_cells(c).size());
  c.words = words_for_train(c.command);
  if (!c.command.said("final-batches")) c.words.push_back("--final-batches=0");  // final losses use the whole split
  check_cells(c);
  note_inputs(c);
  set_lengths(c);
  count_tokens(c);
  if (o.dry_run && o.out.empty()) o.out = next_run_directory("compare");
  return c;
}

void prepare_directory(const Comparison& c) {
  const std::string path = c.out() + "/" + kOptions;
  const std::string options = std::string(kComparisonStart) + "; train_gpt compare --out THIS --resume reads them.\n" +
                              said_as_toml(c.command);
  if (!c.command.train.resume && !c.command.train.force) check_new_folder(c.out(), kOptions);
  if (fs::exists(path) && !c.command.train.resume) {
    if (c.options().join && read_file(path) == options) return;  // another process just began the same comparison
    if (!c.command.train.force)
      throw std::runtime_error(c.out() + " already holds a comparison: --resume continues it, --force replaces it");
    check_replaced(path);
    for (const char* name : kTables) check_replaced(c.out() + "/" + name);
    remove_comparison(c.out(), command_before(c));
  }
  if (!c.command.train.resume)
    for (const char* name : kTables) check_output(c.out() + "/" + name, c.command.train.force);
  write_file(path, options);
}
