#include "summary.hpp"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "data/strings/format.hpp"

#include "report.hpp"

namespace {

// A line of the table: a row of a run, which is the first that has all of `with`.
struct Line {
  const char *title, *table;
  Json with;
  const char* unit;  // the first number's unit: a field and how to print it
  double scale;
  const char* field;
};

std::vector<Line> lines() {
  const auto attention = [](const char* size, const char* direction) {
    return Json{{"size", size}, {"direction", direction}};
  };
  const auto step = [](const char* of, const char* matmul) {
    return Json{{"of", of}, {"norm", "layernorm"}, {"matmul", matmul}};
  };
  return {
      {"matrix products, fp32", "gemm fp32", {}, "%.0f %%", 100, "median share"},
      {"matrix products, bf16", "gemm bf16", {}, "%.0f %%", 100, "median share"},
      {"attention T 64, forward", "attention", attention("B4 T64 H12 D64", "forward"), "%.0f %%", 100, "share"},
      {"attention T 64, backward", "attention", attention("B4 T64 H12 D64", "backward"), "%.0f %%", 100, "share"},
      {"attention T 1024, forward", "attention", attention("B1 T1024 H12 D64", "forward"), "%.0f %%", 100, "share"},
      {"attention T 1024, backward", "attention", attention("B1 T1024 H12 D64", "backward"), "%.0f %%", 100, "share"},
      {"GELU, forward", "layers", {{"of", "gelu"}, {"direction", "forward"}}, "%.1f GB/s", 1, "speed"},
      {"sampling, llama2 15M", "sampling", {{"of", "llama2 15M"}, {"how", "likeliest token"}}, "%.0f %%", 100, "share"},
      {"step, nanoGPT's recipe, fp32", "steps", step("nanoGPT's, B12 T64", "fp32"), "%.1f ms", 1, "ms"},
      {"step, nanoGPT's recipe, bf16", "steps", step("nanoGPT's, B12 T64", "bf16"), "%.1f ms", 1, "ms"},
      {"step, 124M, B 4 T 64, fp32", "steps", step("GPT-2 124M, B4 T64", "fp32"), "%.0f ms", 1, "ms"},
      {"step, 124M, B 4 T 64, bf16", "steps", step("GPT-2 124M, B4 T64", "bf16"), "%.0f ms", 1, "ms"},
      {"step, 124M, B 1 T 1024, fp32", "steps", step("GPT-2 124M, B1 T1024", "fp32"), "%.0f ms", 1, "ms"},
      {"step, 124M, B 1 T 1024, bf16", "steps", step("GPT-2 124M, B1 T1024", "bf16"), "%.0f ms", 1, "ms"},
  };
}

bool has_all(const Json& row, const Json& with) {
  for (const auto& [key, value] : with.items())
    if (!row.contains(key) || row[key] != value) return false;
  return true;
}

// The row of a line, or null: a part may not have run, or the build has no bf16.
Json find_row(const Json& run, const Line& line) {
  if (!run.contains(line.table)) return nullptr;
  const Json& table = run[line.table];
  if (!table.is_array()) return table;
  for (const Json& row : table)
    if (has_all(row, line.with)) return row;
  return nullptr;
}

std::string ratio_of(const Json& row) {
  if (row.contains("median ratio"))
    return format(" · %.2f", row["median ratio"]) + format(" (%.2f)", row["lowest ratio"]);
  return row.contains("ratio") ? format(" · %.2f", row["ratio"]) : "";
}

std::string cell(const Json& run, const Line& line) {
  const Json row = find_row(run, line);
  return row.is_null() ? "-" : format(line.unit, line.scale * row[line.field].get<double>()) + ratio_of(row);
}

}  // namespace

void print_summary(const std::vector<std::string>& files) {
  std::vector<Json> runs;
  std::vector<Column> columns = {{"title", "", 30, kText}};
  for (const std::string& path : files) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    runs.push_back(Json::parse(file));
    columns.push_back({path.c_str(), "", 22, kText});
  }
  Report report;
  std::vector<std::string> heads;
  for (const Json& run : runs) heads.push_back(run.at("machine").at("simd"));
  for (size_t i = 0; i < runs.size(); ++i) columns[i + 1].title = heads[i].c_str();
  report.table("summary", "On each kind of processor: speed or share of the ceiling · times as fast as the best peer",
               columns);
  for (const Line& line : lines()) {
    Json row = {{"title", line.title}};
    bool any = false;
    for (size_t i = 0; i < runs.size(); ++i) {
      row[files[i]] = cell(runs[i], line);
      any = any || row[files[i]] != "-";
    }
    if (any) report.row(row);
  }
}
