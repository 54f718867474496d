#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "data/strings/format.hpp"

namespace {

std::string text_of(const Json& fields, const Column& column) {
  const auto field = fields.find(column.key);
  if (field == fields.end() || field->is_null()) return column.digits == kText ? "" : "-";
  if (field->is_string()) return field->get<std::string>();
  const double value = field->get<double>();
  if (column.digits == kShare) return format("%.0f %%", 100 * value);
  const std::string printf_format = "%." + std::to_string(column.digits) + "f";
  return format(printf_format.c_str(), value);
}

std::string padded(const std::string& text, const Column& column) {
  const std::string space(static_cast<size_t>(std::max(0, column.width - static_cast<int>(columns_of(text)))), ' ');
  return column.digits == kText ? text + space : space + text;
}

}  // namespace

void Report::table(const std::string& name, const std::string& title, const std::vector<Column>& columns) {
  name_ = name, columns_ = columns;
  std::string heads;
  for (const Column& column : columns) heads += padded(column.title, column) + "  ";
  say("\n" + title + "\n" + heads);
}

void Report::row(const Json& fields) {
  all_[name_].push_back(fields);
  std::string line;
  for (const Column& column : columns_) line += padded(text_of(fields, column), column) + "  ";
  say(line);
}

void Report::say(const std::string& line) {
  std::string text = line;
  text.erase(text.find_last_not_of(' ') + 1);
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Report::keep(const std::string& name, const Json& value) { all_[name] = value; }

void Report::write(const std::string& path) const {
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  std::ofstream file(path);
  file << all_.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}
