#include "worked.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

#include "catch.hpp"

namespace {

// Half a unit of the last digit of a number such as "-1.25e-3", plus a little for its own rounding.
double half_unit(const std::string& number) {
  const size_t e = number.find_first_of("eE"), dot = number.find('.');
  const double exponent = e == std::string::npos ? 0 : std::stod(number.substr(e + 1));
  const double digits = dot == std::string::npos ? 0 : static_cast<double>(std::min(e, number.size()) - dot - 1);
  return 0.5001 * std::pow(10., exponent - digits);
}

}  // namespace

WorkedPage::WorkedPage(const std::string& name) : path_("layers/" + name + ".md") {
  std::ifstream file(path_);
  REQUIRE(file);
  std::string line, current;
  for (bool marked = false, inside = false; std::getline(file, line);) {
    if (line == "<!-- worked -->") marked = true;
    else if (marked && line.starts_with("```")) inside = !inside, marked = inside;
    if (!inside || line.starts_with("```")) continue;
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      std::istringstream(line.substr(0, equals)) >> current;
      INFO(path_ << ": two rows are called " << current);
      REQUIRE(!rows_.contains(current));
    }
    std::istringstream words(equals == std::string::npos ? line : line.substr(equals + 1));
    for (std::string word; words >> word;) {
      INFO(path_ << ": " << line);
      size_t end = 0;
      double value = 0;
      REQUIRE_NOTHROW(value = std::stod(word, &end));
      REQUIRE(end == word.size());
      rows_[current].push_back({value, half_unit(word)});
    }
  }
  REQUIRE(!rows_.empty());
}

WorkedPage::~WorkedPage() {
  for (const auto& [name, printed] : rows_) {
    INFO(path_ << ": no test computes " << name);
    CHECK(seen_.contains(name));
  }
}

const std::vector<WorkedPage::Printed>& WorkedPage::row(const std::string& name) {
  INFO(path_ << " has no row " << name);
  REQUIRE(rows_.contains(name));
  seen_.insert(name);
  return rows_[name];
}

std::vector<double> WorkedPage::numbers(const std::string& name) {
  std::vector<double> values;
  for (const Printed& printed : row(name)) values.push_back(printed.value);
  return values;
}

std::vector<int> WorkedPage::integers(const std::string& name) {
  const std::vector<double> values = numbers(name);
  return {values.begin(), values.end()};
}

void WorkedPage::matches(const std::string& name, std::span<const double> computed) {
  const std::vector<Printed>& printed = row(name);
  INFO(path_ << ": " << name);
  REQUIRE(computed.size() == printed.size());
  for (size_t i = 0; i < computed.size(); ++i) {
    INFO("number " << i + 1 << ": the page has " << printed[i].value << ", computed is " << computed[i]);
    CHECK(std::fabs(computed[i] - printed[i].value) <= printed[i].half_unit);
  }
}
