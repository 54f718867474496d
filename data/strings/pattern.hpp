#pragma once
// Regular expressions from users and files, matched in bounded time and memory.

#include <memory>
#include <string>

// The syntax is PCRE2's. If ECMAScript differs, its meaning holds: [] matches nothing, \u0041 is A. Matching does not
// recurse and stops after a fixed number of steps.
class Pattern {
 public:
  // Throws std::invalid_argument "--OPTION 'PATTERN' is not a regular expression: ..." with the position of the error.
  Pattern(const std::string& option, const std::string& pattern);

  // True if the pattern matches some part of `text`. Throws std::invalid_argument if that takes too many steps.
  bool matches(const std::string& text) const;

 private:
  std::string shown_;  // "--OPTION 'PATTERN'"
  std::shared_ptr<const void> code_, limits_;
};
