#pragma once
// Tables on the terminal, and the same rows as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

struct Column {
  const char* key;    // the field to show; a row may lack it
  const char* title;
  int width;
  int digits;         // after the decimal point, or kText or kShare
};
constexpr int kText = -1;   // a string, left-aligned
constexpr int kShare = -2;  // a share in percent

class Report {
 public:
  // Begins a table. Its rows go to the array `name` of the file.
  void table(const std::string& name, const std::string& title, const std::vector<Column>& columns);
  void row(const Json& fields);       // to the table and to the file
  void say(const std::string& line);  // to the terminal only
  void keep(const std::string& name, const Json& value);  // to the file only
  void write(const std::string& path) const;              // throws std::runtime_error

 private:
  Json all_ = Json::object();
  std::string name_;
  std::vector<Column> columns_;
};
