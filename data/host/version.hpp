#pragma once
// Which program this is, for --version and for the records of runs, which are compared months later.

#include <string>

struct ProgramRecord {
  std::string version;   // the commit, or the release
  std::string compiler;  // "g++ 12.2.0"
  std::string simd;      // "AVX-512"
};
const ProgramRecord& this_program();

// The text of --version: commit, compiler, OpenMP, SIMD.
std::string version_text();

// The time now as "2026-11-26T09:30:00Z". SOURCE_DATE_EPOCH sets it, in seconds since 1970, for files that must be
// equal.
std::string date_now();
