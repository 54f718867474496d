#pragma once
// A CSV file of plain fields, by column name.

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "data/run_directory/metrics.hpp"

class Table {
 public:
  explicit Table(const std::string& csv) {
    std::istringstream in(csv);
    std::string line;
    std::getline(in, line);
    names_ = csv_fields(line);
    while (std::getline(in, line)) rows_.push_back(csv_fields(line));
  }

  size_t rows() const { return rows_.size(); }
  // The field of the row whose first field is `step`; "" if there is none.
  std::string at(const std::string& column, int64_t step) const {
    for (const auto& row : rows_)
      if (row[0] == std::to_string(step)) return row.at(index_of(column));
    return "";
  }
  std::string last(const std::string& column) const { return rows_.back().at(index_of(column)); }
  std::vector<std::string> all(const std::string& column) const {
    std::vector<std::string> fields;
    for (const auto& row : rows_) fields.push_back(row.at(index_of(column)));
    return fields;
  }
  // The numbers in a column, without empty fields.
  std::vector<double> numbers(const std::string& column) const {
    std::vector<double> values;
    for (const std::string& field : all(column))
      if (!field.empty()) values.push_back(std::stod(field));
    return values;
  }

 private:
  size_t index_of(const std::string& column) const {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == column) return i;
    return names_.size();  // at() throws
  }
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> rows_;
};
