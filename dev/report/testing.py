"""Shared code of the tests."""

import csv
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent


def run(program, *args):
    return subprocess.run([sys.executable, HERE / program, *map(str, args)], capture_output=True, text=True,
                          errors="surrogateescape")


class Scratch(unittest.TestCase):
    """A test class with a directory that contains the comparisons."""

    make = {}

    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        for name, make in cls.make.items():
            make(cls.scratch / name)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rewrite(path, change):
    """Replaces the rows of a CSV file by change(rows)."""
    rows = change(rows_of(path))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
