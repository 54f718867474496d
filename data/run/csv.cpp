#include "csv.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "data/host/files.hpp"

std::string csv_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return std::isnan(x) ? "" : text;
}

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
  return end == field.c_str() + field.size();  // also for ""
}

// The step that a row begins with; -1 if there is none.
int64_t step_of(const std::string& field) {
  if (field.empty() || field.size() > 18 || field.find_first_not_of("0123456789") != field.npos) return -1;
  return std::atoll(field.c_str());
}

void say_what_is_lost(const std::string& path, const std::vector<size_t>& lines) {
  if (lines.empty()) return;
  std::string list = lines.size() == 1 ? "line " : "lines ";
  for (size_t i = 0; i < std::min<size_t>(5, lines.size()); ++i) list += (i ? ", " : "") + std::to_string(lines[i]);
  std::fprintf(stderr, "NOTE     %s: dropped %zu %s that cannot be read (%s%s)\n", path.c_str(), lines.size(),
               lines.size() == 1 ? "row" : "rows", list.c_str(), lines.size() > 5 ? ", ..." : "");
}

}  // namespace

std::string csv_up_to(const std::string& path, const std::vector<std::string>& columns, int64_t last_step,
                      const std::vector<std::string>& words, bool once) {
  const auto joined = [](const std::vector<std::string>& fields) {
    std::string line;
    for (const std::string& field : fields) line += (&field == fields.data() ? "" : ",") + field;
    return line + "\n";
  };
  const auto place = [](const std::vector<std::string>& in, const std::string& name) {
    return static_cast<size_t>(std::find(in.begin(), in.end(), name) - in.begin());
  };
  std::string kept = joined(columns), line;
  if (last_step == 0 || !std::filesystem::exists(path)) return kept;
  std::istringstream file(read_file(path));
  std::getline(file, line);
  std::vector<std::string> found = csv_fields(line);
  if (found[0] != columns[0]) found = columns;  // the header is damaged, the rows may be whole
  std::vector<size_t> lost;
  int64_t before = 0;
  for (size_t number = 2; std::getline(file, line) && !file.eof(); ++number) {
    const std::vector<std::string> fields = csv_fields(line);
    const int64_t step = step_of(fields[0]);
    bool readable = fields.size() == found.size() && step >= before + (once ? 1 : 0);
    for (size_t i = 0; readable && i < fields.size(); ++i)
      readable = is_number(fields[i]) || place(words, found[i]) < words.size();
    if (!readable) lost.push_back(number);
    if (!readable || step > last_step) continue;  // later steps will be taken again
    before = step;
    std::vector<std::string> row;
    for (const std::string& column : columns)
      row.push_back(place(found, column) < found.size() ? fields[place(found, column)] : "");
    kept += joined(row);
  }
  say_what_is_lost(path, lost);
  return kept;
}
