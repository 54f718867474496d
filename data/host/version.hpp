#pragma once
// Identifies this program, for --version and for the records of runs, which may be compared months later.

#include <string>

struct ProgramRecord {
  std::string version;   // the commit, or the release
  std::string compiler;  // "g++ 12.2.0"
  std::string simd;      // "AVX-512"
};
const ProgramRecord& this_program();

// The text of --version: commit, compiler, OpenMP, SIMD.
std::string version_text();

// Returns the current time as "2026-11-26T09:30:00Z". If SOURCE_DATE_EPOCH is set (seconds since 1970), returns that
// time instead, so that files can be reproduced.
std::string date_now();
