#pragma once
// Tables on the terminal, and the same rows as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

struct Column {
  const char* key;    // of the field that is shown; a row may lack it
  const char* title;
  int width;
  int digits;         // behind the point; kText or kShare instead
};
constexpr int kText = -1;   // a string, to the left
constexpr int kShare = -2;  // a share as per cent

class Report {
 public:
  // Begins a table; it is the array `name` of the file.
  void table(const std::string& name, const std::string& title, const std::vector<Column>& columns);
  void row(const Json& fields);        // a line of the table, a whole object in the file
  void say(const std::string& line);   // on the terminal only
  void keep(const std::string& name, const Json& value);  // in the file only
  void write(const std::string& path) const;  // throws std::runtime_error

 private:
  Json all_ = Json::object();
  std::string name_;
  std::vector<Column> columns_;
};
