#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/run/messages.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "forecast.hpp"
#include "prepare.hpp"
#include "runs.hpp"
#include "scaling.hpp"
#include "tables.hpp"
#include "tuning.hpp"

namespace {

void train_cells(Comparison& c) {
  std::vector<CellRun> runs;
  size_t number = 0;
  for (const std::string& seed : c.seeds)  // seeds outside, so that the first runs already compare all cells
    for (size_t cell = 0; cell < c.cells.size(); ++cell) {
      if (number++ % c.shard.count != c.shard.index) continue;
      runs.push_back(plan_run(c, Stage::final, cell, seed, c.cells[cell].best));
    }
  make_runs(c, runs, 0);
}

void train_all(Comparison& c) {
  if (!c.tuning.empty()) tune(c);
  train_cells(c);
}

// Returns the cells of the shard. A cell is never divided, because tuning compares its runs. It stays together with the
// cells that take over its values.
std::vector<size_t> cells_in(const RunShard& shard, const Comparison& c) {
  const std::vector<size_t> tuned = tuned_cells(c);
  std::vector<size_t> cells;
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell) {
    const auto number = static_cast<size_t>(std::ranges::find(tuned, c.tuned_by(cell)) - tuned.begin());
    if (number % shard.count == shard.index) cells.push_back(cell);
  }
  return cells;
}

// Returns the comparison with only these cells.
Comparison with_cells(const Comparison& c, const std::vector<size_t>& cells) {
  const size_t points = c.tuning.combinations().size();
  Comparison part = c;
  part.shard = {};
  part.grid.cells.clear();
  part.planned.clear();
  part.tokens.clear();
  for (const size_t cell : cells) {
    part.grid.cells.push_back(c.grid.cells[cell]);
    const auto first = c.planned.begin() + static_cast<std::ptrdiff_t>(cell * points);
    part.planned.insert(part.planned.end(), first, first + static_cast<std::ptrdiff_t>(points));
    if (!c.tokens.empty()) part.tokens.push_back(c.tokens[cell]);
  }
  part.cells.resize(part.grid.cells.size());
  return part;
}

// Reads the trained runs without training any. Returns false at the first one that is missing.
bool reads_all(Comparison& c) {
  c.trains = false;
  try {
    train_all(c);
    return true;
  } catch (const RunsLeft&) {
    return false;
  }
}

// Reads the trained runs of each cell, up to the first that is missing. Trains none.
Comparison as_trained(const Comparison& c) {
  Comparison all = c;
  const size_t groups = tuned_cells(c).size();
  for (size_t group = 0; group < groups; ++group) {
    const std::vector<size_t> cells = cells_in({group, groups}, c);
    Comparison part = with_cells(c, cells);
    reads_all(part);
    all.trained.add(part.trained);
    for (size_t i = 0; i < cells.size(); ++i) all.cells[cells[i]] = part.cells[i];
    for (CellRun run : part.runs) {
      run.cell = cells[run.cell];
      all.runs.push_back(run);
    }
  }
  return all;
}

// Trains the runs of the shard, and reads the runs of all shards. Returns false if other shards are not finished.
bool train_shard(Comparison& c) {
  Comparison part = c.tuning.empty() ? c : with_cells(c, cells_in(c.shard, c));
  train_all(part);
  c.shard = {};
  return reads_all(c);
}

struct PlannedModel {
  Config config;
  double parameters, tokens, epochs;
  int64_t steps;
  double flops, seconds;
};

// What a run of each cell trains.
std::vector<PlannedModel> models_of(const Comparison& c, const Forecast& f) {
  std::vector<PlannedModel> models;
  const size_t points = c.tuning.combinations().size();
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell) {
    const TrainOptions o = in_force(c.planned[cell * points]);
    const TextFacts text = text_of(c, o);
    const double tokens = static_cast<double>(o.steps) * o.batch * o.accumulate * o.config.context * text.targets;
    models.push_back({o.config, static_cast<double>(count_parameters(o.config)), tokens, tokens / text.train, o.steps,
                      f.run_flops[cell], f.run_seconds[cell]});
  }
  return models;
}

// Prints what each cell trains, if cells differ in that.
void print_cells(const Comparison& c, const Forecast& f) {
  std::vector<std::vector<std::string>> rows = {
      {"  cell", "layers", "channels", "parameters", "tokens", "epochs", "steps", "FLOPs", "time of a run"}};
  for (size_t cell = 0; const PlannedModel& m : models_of(c, f))
    rows.push_back({"  " + c.grid.cells[cell++].name, std::to_string(m.config.n_layer),
                    std::to_string(m.config.channels), format_count(m.parameters), format_count(m.tokens),
                    format("%.2g", m.epochs), format_count(static_cast<double>(m.steps)), format("%.3g", m.flops),
                    std::isnan(m.seconds) ? "" : format_seconds(m.seconds)});
  std::printf("%s", c.tokens.empty() ? "" : aligned(rows, 1).c_str());
  for (const GridCell& cell : c.grid.cells)
    if (c.tokens.empty()) std::printf("  %s\n", cell.name.c_str());
}

std::string plan_json(const Comparison& c, const Forecast& f) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array(), models = cells;
  for (const GridCell& cell : c.grid.cells) cells.push_back(cell.name);
  for (const PlannedModel& m : models_of(c, f))
    models.push_back({{"layers", m.config.n_layer}, {"channels", m.config.channels}, {"parameters", m.parameters},
                      {"tokens", m.tokens}, {"epochs", m.epochs}, {"steps", m.steps}, {"flops", m.flops},
                      {"seconds", m.seconds}});
  return to_ascii({{"event", "plan"}, {"directory", c.out()}, {"cells", cells}, {"seeds", c.seeds},
                   {"runs", f.fewest_runs}, {"most_runs", f.most_runs}, {"trained", c.trained.runs},
                   {"steps", f.fewest_steps}, {"most_steps", f.most_steps}, {"flops", f.fewest_flops},
                   {"most_flops", f.most_flops}, {"seconds", f.fewest_seconds}, {"most_seconds", f.most_seconds},
                   {"models", models}});
}

void print_plan(const Comparison& c) {
  const Forecast f = forecast(c);
  std::printf("%s", counted(double(c.grid.cells.size()), "cell").c_str());
  if (!c.tuning.empty())
    std::printf(", at most %s%s to tune %s on seed %s", counted(double(most_tuning_runs(c)), "run").c_str(),
                c.options().tune_size.empty() ? " each" : (" each of size " + c.options().tune_size).c_str(),
                tuned_text(c.tuning).c_str(), std::to_string(c.options().tune_seed).c_str());
  std::printf(", %s: %s into %s\n", counted(double(c.seeds.size()), "seed").c_str(), runs_text(f).c_str(),
              c.out().c_str());
  print_cells(c, f);
  if (c.trained.runs > 0) std::printf("%s trained already\n", counted(double(c.trained.runs), "run").c_str());
  if (c.shard.count > 1) std::printf("this process trains part %s\n", c.options().shard.c_str());
  if (!c.tokens.empty()) std::printf("bill: %s in all\n", flops_text(f).c_str());
  if (const std::string text = time_text(f); !text.empty()) std::printf("time: %s\n", text.c_str());
  if (has_json_lines()) json_line(plan_json(c, f));
  for (const std::string& note : c.notes) std::printf("NOTE: %s\n", note.c_str());
  for (const std::string& line : warnings_about(c.planned, c.planned)) std::printf("WARNING: %s\n", line.c_str());
  if (const std::string text = unequal_tokens(c); !text.empty()) std::puts(text.c_str());
}

}  // namespace

void run_compare(const Command& command) {
  if (command.train.json) begin_json_lines();
  Comparison c = prepare_comparison(command);
  const bool dry_run = c.command.train.dry_run;
  DirectoryLock lock;
  const auto kind = c.options().join ? DirectoryLock::Kind::shared : DirectoryLock::Kind::alone;
  if (!dry_run) lock = claim_directory(c.command.train.out, "compare", kind);
  print_plan(c.command.train.resume ? as_trained(c) : c);
  if (dry_run) return;
  catch_interrupts();
  prepare_directory(c);
  if (c.shard.count == 1) {
    train_all(c);
  } else if (!train_shard(c)) {
    std::printf("part %s is trained; the part that ends last writes the tables\n", c.options().shard.c_str());
    return;
  }
  summarize(c);
  write_tables(c);
  print_table(c);
  if (has_json_lines()) print_json_summary(c);
  std::printf("\ntables  %s\n", shell_words({c.out() + "/summary.csv"}).c_str());
  if (!std::getenv("TRAIN_GPT_COMMAND"))  // a launcher starts installed programs, which have no Makefile beside them
    std::printf("report  make report RUN=%s\n", shell_words({c.out()}).c_str());
}
