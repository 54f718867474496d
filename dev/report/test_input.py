"""Bad input gives one clear line and exit code 1, and writes nothing."""

import shutil
import tempfile
from pathlib import Path

import fixtures
from testing import Scratch, rewrite, run


class BadInput(Scratch):
    make = {"good": fixtures.plain}

    def complains(self, words, change=None, program="report.py"):
        directory = Path(tempfile.mkdtemp(dir=self.scratch)) / "bad"
        shutil.copytree(self.scratch / "good", directory)
        if change:
            change(directory)
        result = run(program, directory)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(words, result.stderr)
        self.assertEqual([p.name for p in directory.glob("*.html*")] + list(directory.glob("*.png")), [])

    def test_no_such_directory(self):
        self.complains("is no directory", shutil.rmtree)

    def test_not_a_comparison(self):
        self.complains("holds neither a comparison (summary.csv) nor a run", lambda d: (d / "summary.csv").unlink())

    def test_missing_file(self):
        for name in ("curves.csv", "runs.csv"):
            self.complains(f"{name}: No such file", lambda d: (d / name).unlink())

    def test_empty_file(self):
        for name in ("curves.csv", "runs.csv", "summary.csv"):
            self.complains(f"{name} is empty", lambda d: (d / name).write_text(""))

    def test_header_alone(self):
        def cut(directory):
            path = directory / "runs.csv"
            path.write_text(path.read_text().splitlines()[0] + "\n")
        self.complains("runs.csv has no rows", cut)

    def test_missing_column(self):
        for name, column in (("curves.csv", "val_loss"), ("runs.csv", "state"), ("summary.csv", "verdict")):
            def drop(directory):
                rewrite(directory / name, lambda rows: [{k: v for k, v in r.items() if k != column} for r in rows])
            self.complains(f"{name} has no column {column}", drop)

    def test_not_a_number(self):
        def spoil(directory):
            rewrite(directory / "curves.csv", lambda rows: [{**rows[0], "val_loss": "lots"}, *rows[1:]])
        self.complains("column val_loss holds 'lots', which is not a number", spoil)

    def test_unknown_state(self):
        def spoil(directory):
            rewrite(directory / "runs.csv", lambda rows: [{**rows[0], "state": "tired"}, *rows[1:]])
        self.complains("state 'tired' is none of", spoil)

    def test_not_text(self):
        self.complains("curves.csv is not a CSV file", lambda d: (d / "curves.csv").write_bytes(b"\xff\xfe\0\1" * 9))

    def test_bad_config(self):
        self.complains("config.toml", lambda d: (d / "layers=2/seed=1/config.toml").write_text("steps = = 3\n"))
