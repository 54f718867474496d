#include "compare.hpp"

#include <cstdio>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/run/messages.hpp"
#include "data/run_directory/directory.hpp"
#include "data/strings/format.hpp"
#include "forecast.hpp"
#include "prepare.hpp"
#include "runs.hpp"
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

// Returns the comparison with only the cells of the shard. Tuning compares the runs of a cell, so one process trains
// them all.
Comparison cells_of_shard(const Comparison& c) {
  Comparison part = c;
  part.shard = {};
  part.grid.cells.clear();
  for (size_t cell = c.shard.index; cell < c.grid.cells.size(); cell += c.shard.count)
    part.grid.cells.push_back(c.grid.cells[cell]);
  part.cells.resize(part.grid.cells.size());
  return part;
}

// Reads the trained runs, up to the first that the search still needs. Trains none.
Comparison as_trained(Comparison c) {
  c.trains = false;
  try {
    train_all(c);
  } catch (const RunsLeft&) {
  }
  return c;
}

// Trains the runs of the shard, and reads the runs of all shards. Returns false if other shards are not finished.
bool train_shard(Comparison& c) {
  Comparison part = c.tuning.empty() ? c : cells_of_shard(c);
  train_all(part);
  c.shard = {};
  c.trains = false;
  try {
    train_all(c);
    return true;
  } catch (const RunsLeft&) {
    return false;
  }
}

std::string plan_json(const Comparison& c, const Forecast& f) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const GridCell& cell : c.grid.cells) cells.push_back(cell.name);
  return to_ascii({{"event", "plan"}, {"directory", c.out()}, {"cells", cells}, {"seeds", c.seeds},
                   {"runs", f.fewest_runs}, {"most_runs", f.most_runs}, {"trained", c.trained.runs},
                   {"steps", f.fewest_steps}, {"most_steps", f.most_steps}, {"seconds", f.fewest_seconds},
                   {"most_seconds", f.most_seconds}});
}

void print_plan(const Comparison& c) {
  const Forecast f = forecast(c);
  std::printf("%s", counted(double(c.grid.cells.size()), "cell").c_str());
  if (!c.tuning.empty())
    std::printf(", at most %s each to tune %s on seed %s", counted(double(most_tuning_runs(c)), "run").c_str(),
                tuned_text(c.tuning).c_str(), std::to_string(c.options().tune_seed).c_str());
  std::printf(", %s: %s into %s\n", counted(double(c.seeds.size()), "seed").c_str(), runs_text(f).c_str(),
              c.out().c_str());
  for (const GridCell& cell : c.grid.cells) std::printf("  %s\n", cell.name.c_str());
  if (c.trained.runs > 0) std::printf("%s trained already\n", counted(double(c.trained.runs), "run").c_str());
  if (c.shard.count > 1) std::printf("this process trains part %s\n", c.options().shard.c_str());
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
  std::printf("\ntables  %s\nreport  make report RUN=%s\n", shell_words({c.out() + "/summary.csv"}).c_str(),
              shell_words({c.out()}).c_str());
}
