#pragma once
// Catch2 version 2 (one header) or 3, whichever is installed. Tests use only what both have.

#if __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
using Catch::Approx;  // global, as in version 2
#endif

#include <nlohmann/json_fwd.hpp>
#include <string>

// Prints JSON that a CHECK compares. Without it, each file with such a CHECK compiles JSON's writer.
template <>
struct Catch::StringMaker<nlohmann::json> {
  static std::string convert(const nlohmann::json& value);
};

// Counts the running test case as skipped, not as passed. For a test that lacks a file, for example:
//   return skip_test("no tinyshakespeare.txt");
void skip_test(const std::string& reason);
