#pragma once
// Reads what python_ref/reference.py wrote: test/reference/<layer>/<case>.json and <case>.<tensor>.npy.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

class Reference {
 public:
  Reference(const std::string& layer, const std::string& name);
  static std::vector<std::string> cases(const std::string& layer);  // never empty, or it throws

  int integer(const std::string& key) const { return static_cast<int>(number(key)); }
  double number(const std::string& key) const;    // throws if there is none
  double scale(const std::string& tensor) const;  // throws if there is none
  bool has(const std::string& tensor) const;

  std::vector<float> floats(const std::string& tensor) const;
  std::vector<double> doubles(const std::string& tensor) const;
  std::vector<int> ints(const std::string& tensor) const;

  nlohmann::json json() const;  // the whole file

 private:
  std::string path_;  // without ".json"
  std::map<std::string, double> numbers_, scales_;
};
