#pragma once
// The part of TOML that config files need: lines `name = value` and comments.
//
//   value   "text", 'text', number, true, false, or an array of these; bare words are text
//
// Rejects tables, dotted keys, nested arrays and multi-line strings. The reader does not recurse.

#include <charconv>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

struct TomlEntry {
  std::string name;
  std::vector<std::string> values;  // without quotes and escapes
  int line;
};

// Throws std::invalid_argument "line 3: what is wrong: what to do".
std::vector<TomlEntry> read_toml(const std::string& text);

// ---- values as TOML --------------------------------------------------------------------------------------

// read_toml() returns the same bytes. A byte that is not UTF-8 becomes \xHH, which is not standard TOML.
std::string toml(const std::string& text);
std::string toml(const std::vector<std::string>& list);
inline std::string toml(bool b) { return b ? "true" : "false"; }

// The shortest digits that read back as the same number.
template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
std::string toml(T x) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

// "" for no value.
template <class T>
std::string toml(const std::optional<T>& x) {
  return x ? toml(*x) : "";
}
