#include "tables.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/strings/format.hpp"
#include "tuning.hpp"

namespace {

// ---- CSV -------------------------------------------------------------------------------------------------

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string field(double x) { return csv_number(x); }
std::string field(int64_t n) { return std::to_string(n); }

using Fields = std::vector<std::string>;

Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Calls `write_rows` with a function that writes a row.
template <class WriteRows>
void write_csv(const std::string& path, const Fields& header, const WriteRows& write_rows) {
  WholeFile file(path);
  const auto write = [&](const Fields& fields) {
    std::string line;
    for (const std::string& text : fields) line += (&text == &fields[0] ? "" : ",") + field(text);
    file.write(line + "\n");
  };
  write(header);
  write_rows(write);
  file.publish();
}

// The tables have columns `lr`, the rate of a step, and `steps`, those that a run took.
std::string column_of(const std::string& key) {
  return key == "lr" ? "peak_lr" : key == "steps" ? "planned_steps" : key;
}

Fields split(const std::string& text) {
  Fields fields;
  std::istringstream in(text);
  for (std::string one; in >> one;) fields.push_back(one);
  return fields;
}

Fields key_columns(const Comparison& c) {
  Fields columns;
  for (const std::string& key : c.grid.keys) columns.push_back(column_of(key));
  return columns;
}

Fields tuned_columns(const Comparison& c) {
  Fields columns;
  for (const TunedOption& option : c.tuning.options) columns.push_back(column_of(option.key));
  return columns;
}

Fields tuned_fields(const Comparison& c, const Point& point) {
  Fields fields(c.tuning.options.size());
  if (point.empty()) return fields;
  const std::vector<GridKey> keys = c.tuning.keys(point);
  for (size_t k = 0; k < fields.size(); ++k) fields[k] = keys[k].second;
  return fields;
}

Fields key_fields(const Comparison& c, size_t cell) {
  Fields fields;
  for (const std::string& key : c.grid.keys) fields.push_back(c.grid.cells[cell].value(key));
  return fields;
}

// The columns that say which run a row belongs to.
Fields run_columns(const Comparison& c) {
  return Fields{"cell", "stage"} + key_columns(c) + Fields{"seed"} + tuned_columns(c);
}

Fields run_fields(const Comparison& c, const CellRun& run) {
  Fields fields = {c.grid.cells[run.cell].name, run.stage == Stage::tune ? "tune" : "final"};
  return fields + key_fields(c, run.cell) + Fields{run.seed} + tuned_fields(c, run.point);
}

void write_curves(const Comparison& c) {
  const Fields columns = run_columns(c) + Fields(std::begin(metrics::names), std::end(metrics::names));
  write_csv(c.out() + "/curves.csv", columns, [&](const auto& write) {
    for (const CellRun& run : c.runs)
      for (Fields row : read_metrics(c.out() + "/" + run.directory)) {
        for (const auto time : {metrics::elapsed_s, metrics::step_ms, metrics::tokens_per_second})
          if (!c.timed()) row[time].clear();
        write(run_fields(c, run) + row);
      }
  });
}

// The columns of --eval-pairs, or nothing without it.
Fields if_pairs(const Comparison& c, const Fields& columns) {
  return c.command.train.eval_pairs.empty() ? Fields() : columns;
}

void write_runs(const Comparison& c) {
  const Fields columns =
      run_columns(c) + split("state stopped_at first_tensor initial_loss final_val best_val best_step final_train "
                             "steps tokens flops seconds tokens_per_second loss_spikes grad_spikes clipped "
                             "steps_to_target seconds_to_target parameters unigram floor date version compiler simd "
                             "directory command") +
      if_pairs(c, {"pairs"});
  write_csv(c.out() + "/runs.csv", columns, [&](const auto& write) {
    for (const CellRun& run : c.runs) {
      const RunResult& r = run.result;
      const HistoryLine& by = r.trained_by;
      write(run_fields(c, run) +
            Fields{name_of(r.state), r.stopped_at > 0 ? field(r.stopped_at) : "", r.first_tensor, field(r.initial_loss),
                   field(r.final_loss), field(r.best_loss), field(r.best_step), field(r.final_train), field(r.steps),
                   field(r.tokens), field(r.flops), field(r.seconds), field(r.tokens_per_second), field(r.loss_spikes),
                   field(r.grad_spikes), field(r.clipped), field(r.steps_to_target), field(r.seconds_to_target),
                   field(int64_t(r.parameters)), field(r.unigram), field(r.floor), by.date,
                   by.program.version, by.program.compiler, by.program.simd, run.directory,
                   shell_words(Fields{c.command.program} + run.words)} +
            if_pairs(c, {field(r.pairs)}));
    }
  });
}

Fields summary_columns(const Comparison& c) {
  Fields sensitivities;
  for (const TunedOption& option : c.tuning.options) sensitivities.push_back(option.key + "_sensitivity");
  return Fields{"cell"} + key_columns(c) + tuned_columns(c) +
         split("at_edge n finished diverged stuck failed mean sd ci best difference difference_ci verdict p p_holm "
               "verdict_holm p_unequal target steps_to_target seconds_to_target seconds seconds_min seconds_max "
               "tokens_per_second tokens_per_second_min tokens_per_second_max loss_spikes grad_spikes clipped "
               "parameters") +
         if_pairs(c, {"pairs", "pairs_ci"}) + sensitivities;
}

Fields spread_fields(const Spread& s) { return {field(s.median), field(s.low), field(s.high)}; }

// Writes points, and the values that make each, with these words between them.
std::string points_text(const std::vector<std::vector<GridKey>>& points, std::string (*text)(const GridKey&),
                        const char* between_values, const char* between_points) {
  std::string all;
  for (const std::vector<GridKey>& point : points) {
    std::string values;
    for (const GridKey& key : point) values += (values.empty() ? "" : between_values) + text(key);
    all += (all.empty() ? "" : between_points) + values;
  }
  return all;
}

// Returns one row for each cell, in the order of summary_columns().
std::vector<Fields> summary_rows(const Comparison& c) {
  std::vector<Fields> rows;
  for (size_t i = 0; i < c.cells.size(); ++i) {
    const CellSummary& s = c.cells[i];
    const RunResult& mean = s.mean;
    const std::string untried =  // "peak_lr=0.009 peak_lr=0.001,warmup=80%"
        points_text(s.untried, [](const GridKey& k) { return column_of(k.first) + "=" + k.second; }, ",", " ");
    Fields sensitivities;
    for (const double x : s.sensitivity) sensitivities.push_back(field(x));
    rows.push_back(
        Fields{c.grid.cells[i].name} + key_fields(c, i) + tuned_fields(c, s.best) +
        Fields{untried, field(int64_t(s.runs)), field(int64_t(s.count[0])), field(int64_t(s.count[1])),
               field(int64_t(s.count[2])), field(int64_t(s.count[3])), field(s.loss.mean), field(s.loss.sd),
               field(s.loss.half_width), field(mean.best_loss), field(s.difference.mean),
               field(s.difference.half_width), s.verdict, field(s.p), field(s.p_holm), s.verdict_holm,
               field(s.p_unequal), field(c.target), field(mean.steps_to_target), field(mean.seconds_to_target)} +
        spread_fields(s.seconds) + spread_fields(s.tokens_per_second) +
        Fields{field(mean.loss_spikes), field(mean.grad_spikes), field(mean.clipped),
               field(int64_t(mean.parameters))} +
        if_pairs(c, {field(s.pairs.mean), field(s.pairs.half_width)}) + sensitivities);
  }
  return rows;
}

void write_summary(const Comparison& c) {
  write_csv(c.out() + "/summary.csv", summary_columns(c), [&](const auto& write) {
    for (const Fields& row : summary_rows(c)) write(row);
  });
}

// Writes the rows of all runs' diagnostics.csv, if any run has one.
void write_diagnostics(const Comparison& c) {
  std::vector<std::pair<Fields, std::string>> files;
  for (const CellRun& run : c.runs)
    if (const std::string path = c.out() + "/" + run.directory + "/" + kDiagnostics;
        run.stage == Stage::final && std::filesystem::exists(path))
      files.emplace_back(run_fields(c, run), path);
  if (files.empty()) return;
  write_csv(c.out() + "/diagnostics.csv", run_columns(c) + split("step layer part what value"), [&](const auto& write) {
    for (const auto& [run, path] : files) {
      std::istringstream file(read_file(path));
      std::string line;
      std::getline(file, line);
      while (std::getline(file, line)) write(run + csv_fields(line));
    }
  });
}

// ---- the terminal ----------------------------------------------------------------------------------------

constexpr size_t kTableColumns = 100;

std::string shown(double x, const char* how) { return std::isnan(x) ? "" : format(how, x); }
std::string with_error(double x, double half_width, const char* how) {
  if (std::isnan(x)) return "";
  return format(how, x) + (std::isnan(half_width) ? "" : format(" ± %.4f", half_width));
}

// Returns "12.0 (11.8-12.9)", without the range if both ends look the same.
std::string with_range(const Spread& s, const char* how) {
  const std::string low = shown(s.low, how), high = shown(s.high, how);
  return shown(s.median, how) + (low == high ? "" : " (" + low + "-" + high + ")");
}

size_t width_of(const std::vector<Fields>& rows) {
  std::istringstream lines(aligned(rows, 1));
  size_t width = 0;
  for (std::string line; std::getline(lines, line);) width = std::max(width, columns_of(line));
  return width;
}

bool is_numbered(const std::vector<Fields>& names) { return names[0] == Fields{"#"}; }

// Returns how the table's rows begin: with the values of the grid's keys, or with numbers if the keys leave no room for
// losses.
std::vector<Fields> names_of_rows(const Comparison& c) {
  const bool has_keys = !c.grid.keys.empty();
  std::vector<Fields> names = {has_keys ? c.grid.keys : Fields{"cell"}}, numbers = {{"#"}};
  for (size_t i = 0; i < c.cells.size(); ++i) {
    names.push_back(has_keys ? key_fields(c, i) : Fields{c.grid.cells[i].name});
    numbers.push_back({"#" + std::to_string(i + 1)});
  }
  return width_of(names) > kTableColumns / 2 ? numbers : names;
}

// Prints a table whose rows begin with `names`, in blocks that fit the terminal. Leaves out columns without a number.
void print_blocks(const std::vector<Fields>& names, const std::vector<Fields>& rows) {
  std::vector<Fields> block = names;
  for (size_t column = 0; column < rows[0].size(); ++column) {
    if (std::all_of(rows.begin() + 1, rows.end(), [&](const Fields& row) { return row[column].empty(); })) continue;
    std::vector<Fields> wider = block;
    for (size_t i = 0; i < rows.size(); ++i) wider[i].push_back(rows[i][column]);
    if (width_of(wider) > kTableColumns && block[0].size() > names[0].size()) {
      std::printf("\n%s", aligned(block, 1).c_str());
      wider = names;
      for (size_t i = 0; i < rows.size(); ++i) wider[i].push_back(rows[i][column]);
    }
    block = wider;
  }
  std::printf("\n%s\n", aligned(block, 1).c_str());
}

std::string state_of(const CellSummary& s) {
  std::string text = std::to_string(s.count[0]) + "/" + std::to_string(s.runs) + " finished";
  for (const RunState state : {RunState::diverged, RunState::stuck, RunState::failed})
    if (const int n = s.count[static_cast<int>(state)]) text += ", " + std::to_string(n) + " " + name_of(state);
  return text;
}

// Lists runs that diverged, got stuck or failed, and runs that predict worse than the token frequencies (unigram
// entropy).
void print_failures(const Comparison& c) {
  const std::vector<Fields> names = names_of_rows(c);
  for (const CellRun& run : c.runs) {
    const RunResult& r = run.result;
    const bool above = r.state == RunState::finished && r.final_loss > r.unigram;
    if (run.stage != Stage::final || (r.state == RunState::finished && !above)) continue;
    std::string text = (is_numbered(names) ? names[run.cell + 1][0] + "  seed=" + run.seed : run.label) + ": " +
                       describe(r);
    if (r.state == RunState::stuck || above) text += format("; the unigram entropy is %.4f", r.unigram);
    if (r.state == RunState::failed) text += ", see " + c.out() + "/" + run.directory + "/log.txt";
    std::puts(text.c_str());
  }
}

// Prints what was tuned, over which values, and where a better value may be.
void print_tuning(const Comparison& c) {
  for (const TunedOption& option : c.tuning.options) {
    std::string values;
    for (int i = 0; i < static_cast<int>(option.values.size()); ++i) values += (i > 0 ? ", " : "") + option.value(i);
    std::printf("%-10s  each cell's best, of %s%s\n", option.key.c_str(), values.c_str(),
                c.tuning.options.size() > 1 ? " in all combinations" : "");
  }
  if (!c.tuning.empty()) std::printf("            and of the neighbors of the best, on seed %llu\n",
                                     static_cast<unsigned long long>(c.options().tune_seed));
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    const std::string untried =  // "lr 0.009, lr 0.001 with warmup 80%"
        points_text(c.cells[cell].untried, [](const GridKey& k) { return k.first + " " + k.second; }, " with ", ", ");
    if (!untried.empty())
      std::printf("*           %s may be better at %s, which was not tried\n",
                  c.grid.cells[cell].name.c_str(), untried.c_str());
    for (const auto& [key, value] : best_elsewhere(c, cell))
      std::printf("            %s did not try %s %s, which is best in another cell: add it to --tune %s\n",
                  c.grid.cells[cell].name.c_str(), key.c_str(), value.c_str(), key.c_str());
  }
}

std::string baseline_text(const Comparison& c, const std::vector<Fields>& names) {
  const GridCell& cell = c.grid.cells[c.baseline];
  if (c.grid.has("size")) return cell.without("size").name + " of the same size";
  return is_numbered(names) ? names[c.baseline + 1][0] : cell.name;
}

// Explains the columns.
void print_legend(const Comparison& c) {
  const std::vector<Fields> names = names_of_rows(c);
  bool means = false, corrected = false, best = false, times = false, whole = true;
  for (const CellSummary& s : c.cells) {
    means |= !std::isnan(s.loss.half_width);
    corrected |= s.verdict != s.verdict_holm;
    best |= !std::isnan(s.mean.best_loss);
    times |= s.runs > 1 && !std::isnan(s.seconds.median);
  }
  const auto tokens = [](const TrainOptions& o) { return int64_t{o.batch} * o.config.context; };
  const bool alike = std::ranges::all_of(
      c.planned, [&](const TrainOptions& o) { return o.eval_batches == 0 || tokens(o) == tokens(c.planned[0]); });
  for (const CellRun& run : c.runs) whole &= run.result.whole || std::isnan(run.result.final_loss);
  std::printf("final val   loss on %s, nats per token%s\n",
              whole ? "the whole validation split" : "--eval-batches batches, as --final-batches says",
              means ? ";\n            mean over the seeds ± the half width of its 95 % t interval" : "");
  if (best)
    std::printf("best        lowest validation loss during training, on --eval-batches batches%s\n",
                alike ? "" : ";\n            cells have batches of other sizes, and so other validation tokens");
  if (c.cells.size() > 1)
    std::printf("difference  to %s, of pairs with the same seed;\n"
                "            %s\n",
                baseline_text(c, names).c_str(),
                means ? "\"not distinguishable\": its interval contains 0"
                      : "one seed tells no difference from chance: name more, seed=1,2,3");
  if (corrected)
    std::printf("(alone)     this verdict does not hold after Holm's correction for the number of cells\n");
  if (c.cells.size() > 1 && c.cells[c.baseline].count[0] < c.cells[c.baseline].runs)
    std::printf("            unknown: not every seed of the baseline finished; choose another with --baseline\n");
  if (!c.command.train.eval_pairs.empty())
    std::printf("pairs       share of --eval-pairs that is right, the mean of their categories\n");
  if (!std::isnan(c.target)) std::printf("to %.3f    steps until the validation loss reaches this value\n", c.target);
  if (times) std::printf("seconds     median of the runs (lowest-highest), as for tokens/s\n");
  if (!c.tuning.empty())
    std::printf("sensitivity to %s: the mean loss of all its values, minus the lowest\n", tuned_text(c.tuning).c_str());
  if (const std::string text = unequal_tokens(c); !text.empty()) std::printf("unequal     %s\n", text.c_str());
  print_tuning(c);
}

}  // namespace

std::string unequal_tokens(const Comparison& c) {
  if (c.fewest_tokens == c.most_tokens || !c.tokens.empty()) return "";
  return format("runs train on %.0f to ", c.fewest_tokens) + format("%.0f tokens: ", c.most_tokens) +
         "for equal numbers, name steps too, e.g. --grid batch=4 steps=400 + batch=8 steps=200";
}

void write_tables(const Comparison& c) {
  write_curves(c);
  write_runs(c);
  write_diagnostics(c);
  write_summary(c);
}

void print_json_summary(const Comparison& c) {
  const Fields columns = summary_columns(c);
  const Fields texts = Fields{"cell", "at_edge", "verdict", "verdict_holm"} + key_columns(c);
  for (const Fields& row : summary_rows(c)) {
    nlohmann::ordered_json json = {{"event", "summary"}};
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool text = std::find(texts.begin(), texts.end(), columns[i]) != texts.end();
      nlohmann::ordered_json& value = json[columns[i]];
      char* end = nullptr;
      const double number = std::strtod(row[i].c_str(), &end);
      if (text || *end) value = row[i];  // "20%"
      else if (!row[i].empty()) value = number;
    }
    json_line(to_ascii(json));
  }
}

void print_table(const Comparison& c) {
  const std::vector<Fields> names = names_of_rows(c);
  Fields tuned;
  for (const TunedOption& option : c.tuning.options) tuned.push_back(option.key);
  std::vector<Fields> rows = {tuned + Fields{"final val", "best", "difference", "", "pairs",
                                             "to " + shown(c.target, "%.3f"), "seconds", "tokens/s", "spikes",
                                             "clipped", "sensitivity"}};
  for (const CellSummary& s : c.cells) {
    const std::string loss = with_error(s.loss.mean, s.loss.half_width, "%.4f");
    std::string sensitivities;
    for (const double x : s.sensitivity) sensitivities += (sensitivities.empty() ? "" : ", ") + shown(x, "%.3f");
    Fields tuned_to = tuned_fields(c, s.best);
    for (size_t k = 0; k < tuned_to.size(); ++k)
      for (const std::vector<GridKey>& point : s.untried)
        if (std::ranges::count(point, tuned[k], &GridKey::first) > 0 && !tuned_to[k].ends_with("*")) tuned_to[k] += "*";
    rows.push_back(tuned_to + Fields{loss.empty() ? state_of(s) : loss, shown(s.mean.best_loss, "%.4f"),
                                     with_error(s.difference.mean, s.difference.half_width, "%+.4f"),
                                     s.verdict + (s.verdict == s.verdict_holm ? "" : " (alone)"),
                                     with_error(s.pairs.mean, s.pairs.half_width, "%.4f"),
                                     shown(s.mean.steps_to_target, "%.0f"), with_range(s.seconds, "%.1f"),
                                     with_range(s.tokens_per_second, "%.0f"), shown(100 * s.mean.loss_spikes, "%.1f%%"),
                                     shown(100 * s.mean.clipped, "%.0f%%"), sensitivities});
  }
  if (is_numbered(names)) std::puts("");
  for (size_t i = 0; i < c.cells.size() && is_numbered(names); ++i)
    std::printf("%s  %s\n", names[i + 1][0].c_str(), c.grid.cells[i].name.c_str());
  print_blocks(names, rows);
  print_failures(c);
  print_legend(c);
}
