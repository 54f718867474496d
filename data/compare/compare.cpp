#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "data/host/files.hpp"
#include "data/host/format.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/json.hpp"
#include "data/options/command_line.hpp"
#include "data/run/messages.hpp"
#include "data/run_directory/directory.hpp"
#include "prepare.hpp"
#include "runs.hpp"
#include "tables.hpp"

namespace {

// ---- tuning ----------------------------------------------------------------------------------------------

// The values tried so far with a cell, in rising order, and the index of the best.
struct Tried {
  std::vector<double> values;
  size_t best = 0;

  bool at_low_edge() const { return best == 0; }
  bool at_high_edge() const { return best + 1 >= values.size(); }
};

Tried tried_with(const Comparison& c, size_t cell) {
  std::vector<std::pair<double, double>> losses;  // of each value
  for (const CellRun& run : c.runs)  // a run that failed says nothing about its value
    if (run.cell == cell && run.stage == Stage::tune && run.result.state != RunState::failed)
      losses.emplace_back(*run.tuned, run.result.state == RunState::diverged ? INFINITY : run.result.final_loss);
  std::sort(losses.begin(), losses.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Tried t;
  for (const auto& [value, loss] : losses) {
    if (loss < losses[t.best].second) t.best = t.values.size();
    t.values.push_back(value);
  }
  return t;
}

// The next value beyond the edge at which the best lies, by the ratio of the last two; none if the best is inside.
std::optional<double> beyond_edge(const Tried& t) {
  const size_t n = t.values.size();
  if (n < 2 || !(t.at_low_edge() || t.at_high_edge())) return std::nullopt;
  const double edge = t.at_low_edge() ? t.values[0] : t.values[n - 1];
  const double inner = t.at_low_edge() ? t.values[1] : t.values[n - 2];
  return std::strtod(format("%.1e", edge * edge / inner).c_str(), nullptr);  // two digits: 1e-2² / 3e-3 is 3.3e-2
}

// None if the option does not take the value, or it has been tried.
std::optional<CellRun> plan_beyond_edge(const Comparison& c, size_t cell, const std::string& seed) {
  const auto value = beyond_edge(tried_with(c, cell));
  if (!value) return std::nullopt;
  try {
    CellRun run = plan_run(c, Stage::tune, cell, seed, *value);
    resolved(with_vocabulary(parse_words(run.words).train).config);
    for (const CellRun& other : c.runs)
      if (other.directory == run.directory) return std::nullopt;
    return run;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// Finds each cell's best value of --tune's option: trains with every value on one seed, and with further values while
// the best lies at an edge.
void tune(Comparison& c) {
  const std::string seed = std::to_string(c.options().tune_seed);
  const int64_t later = static_cast<int64_t>(c.cells.size() * c.seeds.size()) * c.command.train.steps;
  std::vector<CellRun> runs;
  for (size_t cell = 0; cell < c.cells.size(); ++cell)
    for (const double value : c.tuning.values) runs.push_back(plan_run(c, Stage::tune, cell, seed, value));
  for (int extension = 0; !runs.empty(); ++extension) {
    make_runs(c, runs, later);
    runs.clear();
    for (size_t cell = 0; cell < c.cells.size() && extension < c.options().extend; ++cell)
      if (const auto run = plan_beyond_edge(c, cell, seed)) runs.push_back(*run);
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    const Tried t = tried_with(c, cell);
    if (t.values.empty())
      throw std::runtime_error("every run of " + c.grid.cells[cell].name + " failed: see log.txt in its directories");
    c.cells[cell].tuned = t.values[t.best];
    c.cells[cell].at_edge = t.at_low_edge() || t.at_high_edge();
  }
}

// ----------------------------------------------------------------------------------------------------------

void train_cells(Comparison& c) {
  std::vector<CellRun> runs;
  size_t number = 0;
  for (const std::string& seed : c.seeds)  // seed by seed, so that the first runs already compare all cells
    for (size_t cell = 0; cell < c.cells.size(); ++cell) {
      if (number++ % c.shard.count != c.shard.index) continue;
      const double tuned = c.cells[cell].tuned;
      runs.push_back(plan_run(c, Stage::final, cell, seed, std::isnan(tuned) ? std::nullopt : std::optional(tuned)));
    }
  make_runs(c, runs, 0);
}

void train_all(Comparison& c) {
  if (!c.tuning.values.empty()) tune(c);
  train_cells(c);
}

// The same comparison with the cells of the shard only. Tuning compares the runs of a cell, so one process trains them.
Comparison cells_of_shard(const Comparison& c) {
  Comparison part = c;
  part.shard = {};
  part.grid.cells.clear();
  for (size_t cell = c.shard.index; cell < c.grid.cells.size(); cell += c.shard.count)
    part.grid.cells.push_back(c.grid.cells[cell]);
  part.cells.resize(part.grid.cells.size());
  return part;
}

// Trains the runs of the shard, and reads those of all. Returns false if some of other shards are not trained yet.
bool train_shard(Comparison& c) {
  Comparison part = c.tuning.values.empty() ? c : cells_of_shard(c);
  train_all(part);
  c.shard = {}, c.trains = false;
  try {
    train_all(c);
    return true;
  } catch (const RunsLeft&) {
    return false;
  }
}

std::string plan_json(const Comparison& c, size_t runs) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const GridCell& cell : c.grid.cells) cells.push_back(cell.name);
  return to_ascii({{"event", "plan"}, {"directory", c.out()}, {"cells", cells}, {"seeds", c.seeds}, {"runs", runs},
                   {"steps", c.command.train.steps}});
}

void print_plan(const Comparison& c) {
  const size_t cells = c.grid.cells.size(), finals = cells * c.seeds.size(), tunes = cells * c.tuning.values.size();
  std::printf("%s", counted(double(cells), "cell").c_str());
  if (tunes > 0)
    std::printf(", %zu values of %s each on seed %s", c.tuning.values.size(), c.tuning.key.c_str(),
                std::to_string(c.options().tune_seed).c_str());
  std::printf(", %s: %s of %s into %s\n", counted(double(c.seeds.size()), "seed").c_str(),
              counted(double(finals + tunes), "run").c_str(), counted(double(c.command.train.steps), "step").c_str(),
              c.out().c_str());
  for (const GridCell& cell : c.grid.cells) std::printf("  %s\n", cell.name.c_str());
  if (c.shard.count > 1) std::printf("this process trains part %s\n", c.options().shard.c_str());
  if (has_json_lines()) json_line(plan_json(c, finals + tunes));
  for (const std::string& line : warnings_about(c.command.train, c.planned)) std::printf("WARNING: %s\n", line.c_str());
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
  print_plan(c);
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
  std::printf("\ntables  %s\nreport  make report RUN=%s\n", shell_words({c.out() + "/summary.csv"}).c_str(),
              shell_words({c.out()}).c_str());
}
