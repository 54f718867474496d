#pragma once
// Text that tests look at: messages of exceptions, lines, parts.

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

// The message of the Error that f() throws, or "".
template <class Error, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline size_t count_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
