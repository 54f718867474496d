#pragma once
// Catch2, version 2 (one header) or 3, whichever is installed. Tests include this file, and are written so
// that both understand them.

#if __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where version 2 has it
#endif

#include <string>

// A test that lacks what it needs (real text, another file) leaves with
//   return skip_test("no tinyshakespeare.txt");
// Its case is then counted as skipped, not as passed.
void skip_test(const std::string& reason);
