#include "version.hpp"

#include <cstdlib>
#include <ctime>

#include "machine.hpp"

#ifndef COMMIT
#define COMMIT "(commit unknown)"  // not built from a clone
#endif

const ProgramRecord& this_program() {
#ifdef __clang__
  static const ProgramRecord record = {COMMIT, "clang " __clang_version__, detect_machine().simd};
#else
  static const ProgramRecord record = {COMMIT, "g++ " __VERSION__, detect_machine().simd};
#endif
  return record;
}

std::string version_text() {
  const ProgramRecord& p = this_program();
  return "train_gpt " + p.version + "\ncompiler  " + p.compiler + "\nOpenMP    " +
         (detect_machine().openmp ? "yes" : "no") + "\nSIMD      " + p.simd + "\n";
}

std::string date_now() {
  const char* given = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = given ? static_cast<std::time_t>(std::atoll(given)) : std::time(nullptr);
  std::tm utc{};
  char text[32] = "";
  if (::gmtime_r(&now, &utc)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}
