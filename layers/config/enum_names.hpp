#pragma once
// Names of enum values, and messages about unknown names.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// An enum value and its name, as the user types it.
template <class E>
struct Named {
  E value;
  const char* name;
};

template <class E, size_t N>
const char* name_of(const Named<E> (&names)[N], E value) {
  for (const auto& entry : names)
    if (entry.value == value) return entry.name;
  return "?";
}

// Returns the known name with the fewest edits from `given`, or "" if none is near.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

// "unknown WHAT 'postt': did you mean 'post'? (one of post pre ...)"
std::string unknown_name(std::string_view what, std::string_view given, const std::vector<std::string>& known);

// The names of a table's rows.
template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Returns the row with this name. Throws std::invalid_argument that names the nearest.
template <class Rows>
const auto& row_named(const Rows& rows, std::string_view what, std::string_view name) {
  for (const auto& row : rows)
    if (name == row.name) return row;
  throw std::invalid_argument(unknown_name(what, name, names_of(rows)));
}

template <class E, size_t N>
E value_of(const Named<E> (&names)[N], std::string_view what, std::string_view given) {
  return row_named(names, what, given).value;
}
