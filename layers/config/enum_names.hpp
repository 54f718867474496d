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

template <class E, size_t N>
E value_of(const Named<E> (&names)[N], std::string_view what, std::string_view given) {
  std::vector<std::string> known;
  for (const auto& entry : names) {
    if (given == entry.name) return entry.value;
    known.emplace_back(entry.name);
  }
  throw std::invalid_argument(unknown_name(what, given, known));
}
