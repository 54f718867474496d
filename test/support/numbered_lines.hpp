#pragma once
// A text of n short lines, no two of which are equal.

#include <string>

inline std::string numbered_lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "line " + std::to_string(i) + " of a text\n";
  return text;
}
