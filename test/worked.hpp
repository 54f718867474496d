#pragma once
// The examples that pages of layers/ work by hand, read from the page itself.
//
// An example is a block of text behind a mark:
//
//   <!-- worked -->
//   ```text
//   x     =  1.0   2.0   3.0        a row of numbers; what stands behind # is a remark
//            2.0   4.0   9.0        a further row of x
//   mean  =  2.0
//            5.0
//   ```
//
// A test takes what is given with numbers("x"), computes the rest with the textbook in double, and says
// matches("mean", ...): each number must be what is printed, to half a unit of its last digit.

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

class WorkedPage {
 public:
  explicit WorkedPage(const std::string& name);  // "norm/norm": layers/norm/norm.md
  ~WorkedPage();                                 // CHECKs that no number of the page was passed over

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
