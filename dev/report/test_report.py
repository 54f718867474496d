#!/usr/bin/env python3
"""Runs all tests of the report, of the numbers of the studies and of the paper, and of the track:

    make test-report        or: python dev/report/test_report.py [-k NAME]
"""

import argparse
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = [HERE, *(HERE.parent / name for name in ("studies", "track", "paper"))]


class Counted(unittest.TextTestResult):
    passed = 0  # testsRun does not count a class whose setup failed

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="NAME", help="only tests with NAME in their names")
    args = parser.parse_args()
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{args.k}*"] if args.k else None
    sys.path += map(str, FOLDERS)
    names = sorted(path.stem for folder in FOLDERS for path in folder.glob("test_*.py"))
    names.remove("test_report")
    result = unittest.TextTestRunner(verbosity=2, resultclass=Counted).run(loader.loadTestsFromNames(names))
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    print(f"{result.passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    raise SystemExit(failed > 0 or result.passed == 0)
