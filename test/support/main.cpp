// Runs the tests and prints the number of test cases last: "N passed, N failed" (", N skipped").

#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

#include <cstdio>
#include <cstdlib>

#include "program.hpp"

#ifndef CATCH_VERSION_MAJOR
#include <catch2/catch_version_macros.hpp>
#endif

std::string tests_as_typed;

namespace {

struct Counts {
  size_t passed = 0, failed = 0, skipped = 0;
  bool case_skipped = false;  // skip_test was called in the case that is running
  bool run = false;
} counts;

#if CATCH_VERSION_MAJOR >= 3
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

struct Counter : Listener {
  using Listener::Listener;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    Listener::testCaseStarting(info);
    counts.case_skipped = false;
  }

  // A failure counts even if the rest of the case was skipped.
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    Listener::testCaseEnded(stats);
    const Catch::Counts& cases = stats.totals.testCases;
    if (cases.failed > 0) {
      counts.failed++;
    } else if (counts.case_skipped) {
      counts.skipped++;
    } else {
      counts.passed++;
    }
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    Listener::testRunEnded(stats);
    counts.run = true;
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Counter)

void skip_test(const std::string& reason) {
  counts.case_skipped = true;
  std::printf("skipped: %s: %s\n", Catch::getResultCapture().getCurrentTestName().c_str(), reason.c_str());
}

int main(int argc, char** argv) {
  tests_as_typed = argv[0];
  setenv("SOURCE_DATE_EPOCH", kEpochOfTests, 1);
  Catch::Session session;
  int status = session.applyCommandLine(argc, argv);
  if (status != 0) return EXIT_FAILURE;
  status = session.run();
  const auto& options = session.configData();
  if (options.listTests || options.listTags) return EXIT_SUCCESS;  // version 2 returns how many it listed
  if (counts.run) {
    std::printf("%zu passed, %zu failed", counts.passed, counts.failed);
    if (counts.skipped > 0) std::printf(", %zu skipped", counts.skipped);
    std::printf("\n");
    const bool nothing_ran = counts.passed + counts.failed + counts.skipped == 0;
    if (status == 0 && (counts.failed > 0 || nothing_ran)) status = EXIT_FAILURE;
  }
  return status > 255 ? 255 : status;
}
