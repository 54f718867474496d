#pragma once
// Reads the worked examples from the pages of layers/.
//
// An example is a text block after a mark:
//
//   <!-- worked -->
//   ```text
//   x     =  1.0   2.0   3.0        a row of numbers; text after # is a comment
//            2.0   4.0   9.0        a further row of x
//   mean  =  2.0
//            5.0
//   ```
//
// A test reads the inputs with numbers("x"), computes the rest with the textbook in double, and calls
// matches("mean", ...): each number must equal the printed one to half a unit in its last digit.

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

class WorkedPage {
 public:
  explicit WorkedPage(const std::string& name);  // "norm/norm": layers/norm/norm.md
  ~WorkedPage();                                 // CHECKs that the test used every number of the page

  std::vector<double> numbers(const std::string& name);
  std::vector<int> integers(const std::string& name);
  void matches(const std::string& name, std::span<const double> computed);

 private:
  struct Printed {
    double value, half_unit;
  };
  const std::vector<Printed>& row(const std::string& name);

  std::string path_;
  std::map<std::string, std::vector<Printed>> rows_;
  std::set<std::string> seen_;
};
