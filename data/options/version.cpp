#include "version.hpp"

#include "data/host/machine.hpp"

#ifndef COMMIT
#define COMMIT ""  // not built from a clone
#endif

std::string version_text() {
#ifdef __clang__
  const std::string compiler = std::string("clang ") + __clang_version__;
#else
  const std::string compiler = std::string("g++ ") + __VERSION__;
#endif
  const Machine machine = detect_machine();
  const std::string commit = COMMIT;
  return "train_gpt " + (commit.empty() ? "(commit unknown)" : commit) + "\ncompiler  " + compiler + "\nOpenMP    " +
         (machine.openmp ? "yes" : "no") + "\nSIMD      " + machine.simd + "\n";
}
