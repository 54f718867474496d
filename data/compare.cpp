#include "compare.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.hpp"
#include "progress.hpp"
#include "run.hpp"

namespace fs = std::filesystem;

namespace {

std::string own_binary(const std::string& typed) {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  return none ? typed : self.string();
}

// Runs a process to its end and returns its exit status; 128 + signal where a signal ended it.
int run_process(const std::string& binary, std::vector<std::string> words) {
  words.insert(words.begin(), binary);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail_file("start", binary, errno);
  if (child == 0) {
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct CellResult {
  std::string state;  // "finished", "diverged", "failed"
  double val_loss = NAN, best_val_loss = NAN, train_loss = NAN, seconds = NAN, tokens_per_second = NAN;
};

// The lines of a metrics.csv behind its header.
std::vector<std::string> metrics_lines(const std::string& directory) {
  std::vector<std::string> lines;
  if (!fs::exists(directory + "/metrics.csv")) return lines;
  std::istringstream file(read_file(directory + "/metrics.csv"));
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) lines.push_back(line);
  return lines;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

double number(const std::string& field) { return field.empty() ? NAN : std::strtod(field.c_str(), nullptr); }

CellResult result_of(const std::string& directory, int exit_status) {
  CellResult result;
  result.state = exit_status == 0 ? "finished" : exit_status == kExitDiverged ? "diverged" : "failed";
  double first_loss = NAN, time = 0, tokens = 0;
  for (const std::string& line : metrics_lines(directory)) {
    const std::vector<std::string> f = fields_of(line);  // columns: see Metrics
    if (f.size() < 11) continue;
    tokens = number(f[1]), time = number(f[2]), result.train_loss = number(f[3]);
    if (std::isnan(first_loss)) first_loss = result.train_loss;
    const double val = number(f[4]);
    if (!std::isnan(val)) {
      result.val_loss = val;
      result.best_val_loss = std::fmin(result.best_val_loss, val);
    }
  }
  if (result.train_loss > first_loss) result.state = "diverged";  // ended above where it began
  result.seconds = time;
  result.tokens_per_second = time > 0 ? tokens / time : NAN;
  return result;
}

// All cells' metrics below one another, with a column for each key of the grid.
void write_curves(const std::string& path, const std::vector<GridCell>& cells, const std::string& out) {
  WholeFile file(path);
  std::string header = "cell";
  for (const auto& [key, value] : cells[0].keys) header += "," + key;
  file.write(header +
             ",step,tokens,elapsed_s,train_loss,val_loss,val_bpb,lr,grad_norm,clipped,step_ms,tokens_per_second\n");
  for (const GridCell& cell : cells) {
    std::string prefix = '"' + cell.name + '"';
    for (const auto& [key, value] : cell.keys) prefix += "," + value;
    for (const std::string& line : metrics_lines(out + "/" + cell.name)) file.write(prefix + "," + line + "\n");
  }
  file.finish();
  file.publish();
}

std::string shown(double x, const char* printf_format) { return std::isnan(x) ? "-" : format(printf_format, x); }

void print_table(const std::vector<GridCell>& cells, const std::vector<CellResult>& results) {
  size_t width = 4;
  for (const GridCell& cell : cells) width = std::max(width, cell.name.size());
  const int w = static_cast<int>(width);
  std::printf("\n%-*s  %-9s  %10s  %10s  %10s  %8s  %9s\n", w, "cell", "state", "final val", "best val", "train",
              "seconds", "tokens/s");
  for (size_t i = 0; i < cells.size(); ++i) {
    const CellResult& r = results[i];
    std::printf("%-*s  %-9s  %10s  %10s  %10s  %8s  %9s\n", w, cells[i].name.c_str(), r.state.c_str(),
                shown(r.val_loss, "%.4f").c_str(), shown(r.best_val_loss, "%.4f").c_str(),
                shown(r.train_loss, "%.4f").c_str(), shown(r.seconds, "%.1f").c_str(),
                shown(r.tokens_per_second, "%.0f").c_str());
  }
}

// Every cell with every seed.
std::vector<GridCell> cells_of(const std::vector<std::string>& words) {
  if (words.empty())
    throw std::invalid_argument("--grid is missing: say what to compare, e.g. --grid placement=post,pre seed=1,2");
  const Grid grid = parse_grid(words);
  if (grid.seeds.empty()) return grid.cells;
  std::vector<GridCell> cells;
  for (GridCell cell : grid.cells)
    for (const std::string& seed : grid.seeds) {
      cells.push_back(cell);
      cells.back().name += ",seed=" + seed;
      cells.back().keys.emplace_back("seed", seed);
    }
  return cells;
}

}  // namespace

void run_compare(const Command& command) {
  const std::vector<GridCell> cells = cells_of(command.compare.grid);
  const TrainOptions& o = command.train;
  if (o.data.empty()) throw std::invalid_argument("--data is missing: name the text to train on");
  for (const std::string& path : o.data)
    if (path == "-") throw std::invalid_argument("compare reads its text once for each cell: --data - cannot do that");
  for (const GridCell& cell : cells) {  // say now what would be wrong with the last cell in an hour
    std::string toml;
    for (const auto& [key, value] : cell.keys) toml += key + " = \"" + value + "\"\n";
    from_toml(toml);
  }
  const std::string out = o.out.empty() ? next_run_directory("compare") : o.out;
  std::printf("%zu cells into %s\n", cells.size(), out.c_str());
  if (o.dry_run) {
    for (const GridCell& cell : cells) std::printf("  %s\n", cell.name.c_str());
    return;
  }

  const std::string binary = own_binary(command.program);
  std::vector<CellResult> results;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string directory = out + "/" + cells[i].name;
    std::printf("\n== cell %zu of %zu: %s\n", i + 1, cells.size(), cells[i].name.c_str());
    std::vector<std::string> words = {"train"};
    const std::vector<std::string> common = command.cell_words();
    words.insert(words.end(), common.begin(), common.end());
    for (const auto& [key, value] : cells[i].keys) words.push_back("--" + key + "=" + value);
    words.insert(words.end(), {"--quiet", "--out", directory});
    if (o.force) words.push_back("--force");
    const int status = run_process(binary, words);
    if (status == 130 || status == 128 + SIGINT) throw std::runtime_error("stopped; what is done lies in " + out);
    if (status == 1 && i == 0) throw std::runtime_error("the first cell could not be run; see above");
    results.push_back(result_of(directory, status));
  }
  write_curves(out + "/curves.csv", cells, out);
  print_table(cells, results);
  std::printf("\ncurves  %s/curves.csv\nplot    python3 dev/plot.py %s/curves.csv --out %s/curves.png\n", out.c_str(),
              out.c_str(), out.c_str());
}
