"""Unusual but valid comparisons. Each makes a report without an error, and the report describes the case."""

import os
import shutil
import unittest

import browser
import fixtures
import read
import report
from testing import Scratch, rewrite, run

TWO = {"placement": ["pre", "post"], "norm": ["layernorm"]}
RESULTS = ("mean", "sd", "ci", "best", "difference", "difference_ci", "verdict")


def change(directory, files, of_row):
    """Replaces each row of some files by of_row(row); None drops it."""
    for name in files:
        rewrite(directory / f"{name}.csv", lambda rows: [row for row in map(of_row, rows) if row is not None])


def nothing_finished(out):
    fixtures.Maker(out, TWO, rates=(1e-3, 3e-3), fates={"placement=pre,norm=layernorm": 50,
                                                       "placement=post,norm=layernorm": "stuck"})


def no_validation(out):
    fixtures.plain(out)
    change(out, ["curves"], lambda row: {**row, "val_loss": "", "val_bpb": ""})
    change(out, ["runs"], lambda row: {**row, "final_val": "", "best_val": ""})
    change(out, ["summary"], lambda row: {**row, **dict.fromkeys(RESULTS, "")})


def one_failed(out):
    """A run that failed at once has no curve, no config.toml and no numbers."""
    fixtures.Maker(out, TWO)

    def failed(row):
        return row["cell"].startswith("placement=post") and row["seed"] == "2"

    nothing = dict.fromkeys(("initial_loss", "final_val", "steps", "floor", "unigram", "parameters"), "")
    change(out, ["curves", "diagnostics"], lambda row: None if failed(row) else row)
    change(out, ["runs"], lambda row: {**row, **nothing, "state": "failed"} if failed(row) else row)
    change(out, ["summary"], lambda row: row if row["placement"] == "pre" else
           {**row, **dict.fromkeys(RESULTS, ""), "finished": 2, "failed": 1})
    shutil.rmtree(out / "placement=post,norm=layernorm/seed=2")


def below_the_floor(out):
    fixtures.Maker(out, TWO)
    change(out, ["curves"], lambda row: {**row, "val_loss": "0.05"} if row["step"] == "400" else row)


def no_keys(out):
    fixtures.Maker(out, {"placement": ["pre"], "norm": ["layernorm"]})

    def bare(row):
        return {key: "" if key == "cell" else value for key, value in row.items() if key not in ("placement", "norm")}

    change(out, ["curves", "runs", "summary", "diagnostics"], bare)


def rates_as_a_key(out):
    fixtures.plain(out)
    rate = {"2": "0.001", "4": "0.003", "8": "0.01"}

    def keyed(row):
        lr = rate[row["layers"]]
        return {("peak_lr" if key == "layers" else key): (lr if key == "layers" else value)
                for key, value in row.items()} | {"cell": f"lr={lr}"}

    change(out, ["curves", "runs", "summary"], keyed)
    order = ("cell", "stage", "peak_lr", "seed")  # the order of the columns
    change(out, ["curves", "runs"], lambda row: {key: row[key] for key in dict.fromkeys((*order, *row))})


SAYS = {
    nothing_finished: ("No cell finished all its runs.", "3 of 3 diverged: pre; 3 of 3 stuck: post",
                       "no rate worked"),
    no_validation: ("No validation loss was measured.",),
    one_failed: ("Only pre finished all its runs: final loss 0.12", "1 of 3 failed: post", "starts at the floor"),
    below_the_floor: ("pre has the lowest final loss", "floor 0.0894"),
    no_keys: ("the model: final loss 0.1",),
    rates_as_a_key: ("Lowest final loss: lr 0.01", "lr 0.001"),
}


@unittest.skipUnless(browser.find(), "no Chromium or Chrome here")
class Odd(Scratch):
    make = {make.__name__: make for make in SAYS}

    def test_each(self):
        with browser.Browser() as chrome:
            for make, words in SAYS.items():
                with self.subTest(make.__name__):
                    directory = self.scratch / make.__name__
                    result = run("report.py", directory)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    chrome.open((directory / "report.html").as_uri())
                    chrome.wait("document.querySelectorAll('#loss .scatterlayer .trace').length > 0")
                    text = chrome.evaluate("document.querySelector('main').textContent")
                    for word in words:
                        self.assertIn(word, text)
                    self.assertEqual(chrome.errors(), [])

    def test_strange_names(self):
        of_run = self.scratch / "one_failed/placement=pre,norm=layernorm/seed=1"
        with browser.Browser() as chrome:
            for i, source in enumerate((of_run, self.scratch / "no_keys")):
                for name in fixtures.STRANGE:
                    with self.subTest(name, source=source.name):
                        directory = shutil.copytree(source, self.scratch / f"names-{i}" / os.fsdecode(name))
                        report.report(directory)
                        chrome.open((directory / "report.html").as_uri())
                        chrome.wait("document.querySelectorAll('#loss .scatterlayer .trace').length > 0")
                        strangers = "document.querySelectorAll('main img, main script').length"
                        self.assertEqual(chrome.evaluate(f"['hacked' in globalThis, {strangers}]"), [False, 0])
                        self.assertEqual(chrome.errors(), [])
        runs = sorted((self.scratch / "names-0").iterdir())
        for program, *args in (["report.py", runs[-1]], ["picture.py", *runs], ["events.py", *runs]):
            result = run(program, *args)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_damaged_files(self):
        """A report, or one line that says what is wrong."""
        for file, some in fixtures.DAMAGED.items():
            for i, bad in enumerate(some):
                with self.subTest(file, i=i):
                    directory = shutil.copytree(self.scratch / "one_failed/placement=pre,norm=layernorm/seed=1",
                                                self.scratch / f"damaged-{file}-{i}")
                    (directory / file).write_bytes(bad)
                    try:
                        report.report(directory)
                    except read.Complaint as complaint:
                        self.assertEqual(len(str(complaint).splitlines()), 1)
