#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "data/files/json.hpp"
#include "data/strings/format.hpp"
#include "data/strings/notes.hpp"
#include "directory.hpp"

std::string csv_number(double x) { return std::isnan(x) ? "" : format("%.9g", x); }

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line)
    if (c == ',') fields.emplace_back();
    else fields.back() += c;
  return fields;
}

namespace {

bool is_number(const std::string& field) {
  char* end = nullptr;
  std::strtod(field.c_str(), &end);
  return end == field.c_str() + field.size();  // true for ""
}

// Returns the step in a row's first field, or -1.
int64_t step_of(const std::string& field) {
  if (field.empty() || field.size() > 18 || field.find_first_not_of("0123456789") != field.npos) return -1;
  return std::atoll(field.c_str());
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + field;
  return line + "\n";
}

size_t place(const std::vector<std::string>& in, const std::string& name) {
  return static_cast<size_t>(std::find(in.begin(), in.end(), name) - in.begin());
}

}  // namespace

CsvRows csv_up_to(const std::string& path, const std::vector<std::string>& columns, int64_t last_step,
                  const std::vector<std::string>& words, bool once) {
  CsvRows kept = {csv_line(columns), {}};
  std::string line;
  if (last_step == 0 || !std::filesystem::exists(path)) return kept;
  std::istringstream file(read_file(path));
  std::getline(file, line);
  std::vector<std::string> found = csv_fields(line);
  if (found[0] != columns[0]) found = columns;  // the header is damaged, but the rows may be good
  int64_t before = 0;
  for (size_t number = 2; std::getline(file, line) && !file.eof(); ++number) {
    const std::vector<std::string> fields = csv_fields(line);
    const int64_t step = step_of(fields[0]);
    bool readable = fields.size() == found.size() && step >= before + (once ? 1 : 0);
    for (size_t i = 0; readable && i < fields.size(); ++i)
      readable = is_number(fields[i]) || place(words, found[i]) < words.size();
    if (!readable) kept.dropped.push_back(number);
    if (!readable || step > last_step) continue;  // later steps will be repeated
    before = step;
    std::vector<std::string> row;
    for (const std::string& column : columns)
      row.push_back(place(found, column) < found.size() ? fields[place(found, column)] : "");
    kept.text += csv_line(row);
  }
  return kept;
}

std::string readable_rows(const std::string& path, CsvRows rows) {
  const std::vector<size_t>& lines = rows.dropped;
  if (lines.empty()) return rows.text;
  std::string list = lines.size() == 1 ? "line " : "lines ";
  for (size_t i = 0; i < std::min<size_t>(5, lines.size()); ++i) list += (i ? ", " : "") + std::to_string(lines[i]);
  if (lines.size() > 5) list += ", ...";
  print_note(path + ": dropped " + counted(static_cast<double>(lines.size()), "row") + " that cannot be read (" + list +
             ")");
  return rows.text;
}

// ---- metrics.csv -----------------------------------------------------------------------------------------

std::string csv_line(const MetricsRow& r) {
  char line[512];
  std::snprintf(line, sizeof line, "%lld,%lld,%.3f,%s,%s,%s,%s,%s,%d,%.3f,%s,%s", static_cast<long long>(r.step),
                static_cast<long long>(r.tokens), r.elapsed_s, csv_number(r.train_loss).c_str(),
                csv_number(r.val_loss).c_str(), csv_number(r.val_bpb).c_str(), csv_number(r.lr).c_str(),
                csv_number(r.grad_norm).c_str(), r.clipped ? 1 : 0, r.step_ms,
                std::isfinite(r.tokens_per_second) ? format("%.0f", r.tokens_per_second).c_str() : "",
                csv_number(r.val_loss_full).c_str());
  return line;
}

namespace {

std::string step_json(const MetricsRow& r) {
  return to_ascii({{"event", "step"}, {"step", r.step}, {"tokens", r.tokens}, {"elapsed_s", r.elapsed_s},
                   {"train_loss", r.train_loss}, {"lr", r.lr}, {"grad_norm", r.grad_norm}, {"clipped", r.clipped},
                   {"step_ms", r.step_ms}, {"tokens_per_second", r.tokens_per_second}});
}

MetricsRow parse_row(const std::string& line) {
  if (line.starts_with("step")) return {};
  std::vector<double> x;
  for (const std::string& field : csv_fields(line))
    x.push_back(field.empty() ? std::numeric_limits<double>::quiet_NaN() : std::strtod(field.c_str(), nullptr));
  using namespace metrics;
  return {int64_t(x[step]), int64_t(x[tokens]), x[elapsed_s], x[train_loss], x[val_loss], x[val_bpb], x[lr],
          x[grad_norm], x[clipped] == 1, x[step_ms], x[tokens_per_second], x[val_loss_full]};
}

std::vector<std::string> all_columns() { return {std::begin(metrics::names), std::end(metrics::names)}; }

// The last line of a metrics.csv.
MetricsRow last_row(std::string text) {
  text.pop_back();
  return parse_row(text.substr(text.rfind('\n') + 1));
}

}  // namespace

MetricsRow row_of_step(const std::string& path, int64_t step) {
  const MetricsRow row = last_row(csv_up_to(path, all_columns(), step, {}, true).text);
  return row.step == step ? row : MetricsRow();
}

Metrics::Metrics(const std::string& directory, int64_t last_step, const std::string& unwritten)
    : path_(directory + "/" + kMetrics),
      file_(path_, readable_rows(path_, csv_up_to(path_, all_columns(), last_step, {}, true))) {
  last_ = last_row(read_file(path_));
  const std::vector<std::string> fields = csv_fields(unwritten);
  if (last_.step >= last_step || fields.size() != metrics::columns || fields[0] != std::to_string(last_step)) return;
  write(parse_row(unwritten));
}

void Metrics::write(const MetricsRow& row) {
  if (has_json_lines()) json_line(step_json(row));
  file_.write(csv_line(row) + "\n");
  last_ = row;
}

void Metrics::replace_last(const MetricsRow& row) {
  std::string text = read_file(path_);
  text.resize(text.rfind('\n', text.size() - 2) + 1);
  file_ = GrowingFile(path_, text + csv_line(row) + "\n");
  last_ = row;
}
