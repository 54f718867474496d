"""Entries, verdicts and the check of bits. Run by `make test-report`; trains a few steps if there is a program."""

import contextlib
import dataclasses
import io
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "studies")]
import entry as entries  # noqa: E402
import pages  # noqa: E402
import results  # noqa: E402
import rules  # noqa: E402
import track  # noqa: E402
from read import Complaint  # noqa: E402

README = (HERE / "README.md").read_text(encoding="utf-8")
GOOD = 'claim = "it is lower"\nsource = "nobody"\ndate = 2026-01-01\nlr = 3e-3\n'
OPTIONS = {"placement": "Norms", "qk-norm": "Norms", "cautious-decay": "Training", "batch": "Training",
           "lr": "Training", "threads": "Run"}
NEEDS_PROGRAM = unittest.skipUnless(entries.BINARY.exists(), "no build/train_gpt")


class Folder(unittest.TestCase):
    """A test with a folder of entries."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.put("pre", GOOD)

    def put(self, name, text):
        (self.folder / f"{name}.toml").write_text(text)
        return name

    def read(self, name):
        return entries.read_entry(name, self.folder)

    def assertComplains(self, words, call, *args):
        with self.assertRaises(Complaint) as caught:
            call(*args)
        self.assertIn(words, str(caught.exception))
        self.assertEqual(str(caught.exception).count("\n"), 0)

    def filled(self, name, text, losses, **changes):
        """An entry with stored runs of these final losses."""
        entry = self.read(name)
        row = dict(text=text.name, peak_lr="0.003", warmup="10%", at_edge="", state="finished", initial_loss="5",
                   floor="0.1", steps="9", parameters="99", flops="1e9", metrics="m", weights="w", version="v",
                   compiler="c", simd="AVX2", entry=entry.digest(text), **changes)
        stored = results.read(entry)
        stored[text.name] = [results.sealed({**row, "stage": stage, "seed": seed, "final_val": f"{loss:.6f}"})
                             for stage, seeds in (("tune", [0]), ("final", rules.SEEDS))
                             for seed, loss in zip(seeds, losses)]
        results.write(entry, [row for rows in stored.values() for row in rows])
        return entry


class Entries(Folder):
    def setUp(self):
        super().setUp()
        known = mock.patch.object(entries, "options_of_train", lambda: OPTIONS)
        known.start()
        self.addCleanup(known.stop)

    def test_a_good_entry(self):
        entry = self.read(self.put("post", GOOD + '[options]\nplacement = "post"\ncautious-decay = true\n'))
        self.assertEqual(entry.against, "pre")
        self.assertEqual(entries.words_of(entry.options), ["--placement", "post", "--cautious-decay"])
        self.assertEqual(entries.words_of({"bias": False}), ["--no-bias"])

    def test_wrong_entries(self):
        for text, words in (
                (GOOD.replace("lr = 3e-3\n", ""), "bad.toml: the field lr is missing"),
                (GOOD.replace("3e-3", "0.0"), "lr = 0 is not positive"),
                (GOOD.replace("3e-3", '"high"'), "is not a number"),
                (GOOD.replace("2026-01-01", '"now"'), "date = 'now' is not a date"),
                (GOOD + "steps = 9\n", "there is no field steps"),
                (GOOD + "tried = 0\n", "tried = 0 is less than 1"),
                (GOOD + 'against = "sun"\n', "against = 'sun' is not an entry"),
                (GOOD + "[options]\nplacment = 1\n", "train has no option placment"),
                (GOOD + "[options]\nbatch = 9\n", "the rules do not let an entry change batch"),
                (GOOD + "[options]\nthreads = 9\n", "the rules do not let an entry change threads"),
                (GOOD + "[options]\nlr = 1\n", "the track tunes lr"),
                (GOOD + "[options]\nqk-norm = [1]\n", "is not one value"),
                ("claim = ", "bad.toml: ")):
            with self.subTest(words):
                self.put("bad", text)
                self.assertComplains(words, self.read, "bad")
        self.assertComplains("there is no entry sun", self.read, "sun")

    def test_costs(self):
        text, entry = rules.TEXTS[0], self.read(self.put("post", GOOD + '[options]\nplacement = "post"\n'))
        costs = {"post": entries.Cost(1000, 1e9), "pre": entries.Cost(1000, 1e9)}
        with mock.patch.object(entries, "probed", lambda words: costs["post" if "post" in words else "pre"]):
            self.assertEqual(entries.cost_of(entry, text, self.folder).steps, 300)
            costs["post"] = entries.Cost(1101, 1e9)
            self.assertComplains("1,101 parameters are +10.1%", entries.cost_of, entry, text, self.folder)
            costs["post"] = entries.Cost(1000, 1e10)
            self.assertComplains("pay for 30 steps", entries.cost_of, entry, text, self.folder)


class Results(Folder):
    LOW = [1.0 + seed / 100 for seed in range(10)]

    def test_changed_files(self):
        text = rules.TEXTS[0]
        path = self.filled("pre", text, self.LOW).results
        lines = path.read_text().splitlines(keepends=True)
        for changed, words in (
                (lines[:3] + [lines[3].replace("1.0", "0.9", 1)] + lines[4:], "line 4 was changed"),
                (lines[:5] + lines[6:], "not complete"),
                ([lines[0].replace("flops", "flop"), *lines[1:]], "other columns")):
            with self.subTest(words):
                path.write_text("".join(changed))
                self.assertComplains(words, results.read, self.read("pre"))
        path.unlink()
        self.filled("pre", text, self.LOW)
        self.assertEqual(len(results.current(self.read("pre"), text)), 11)

    def test_spent_too_much(self):
        entry = self.filled("pre", rules.TEXTS[0], self.LOW)
        rows = results.read(entry)["tales"]
        results.write(entry, [results.sealed({**row, "flops": "3.1e11"}) for row in rows])
        self.assertComplains("spent more than 3e+11", results.read, entry)
        results.write(entry, [results.sealed({**row, "peak_lr": "1" if row["stage"] == "final" else "2"})
                              for row in rows])
        self.assertComplains("not at a rate", results.read, entry)

    def test_a_changed_entry_is_to_be_run_again(self):
        text = rules.TEXTS[0]
        self.filled("pre", text, self.LOW)
        self.put("pre", GOOD.replace("lower", "much lower"))
        self.assertTrue(results.current(self.read("pre"), text))
        self.put("pre", GOOD.replace("3e-3", "1e-3"))
        self.assertFalse(results.current(self.read("pre"), text))

    def test_verdicts(self):
        text = rules.TEXTS[0]
        for name in "low", "same", "high", "lost":
            self.put(name, GOOD + ("tried = 40\n" if name == "high" else ""))
        self.filled("pre", text, self.LOW)
        self.filled("low", text, [loss - 0.1 + 0.001 * (i % 2) for i, loss in enumerate(self.LOW)])
        self.filled("same", text, [loss + 0.02 * (-1) ** i for i, loss in enumerate(self.LOW)])
        self.filled("high", text, [loss + 0.01 + 0.012 * (-1) ** i for i, loss in enumerate(self.LOW)])
        lost = self.filled("lost", text, self.LOW)
        rows = results.read(lost)["tales"]
        results.write(lost, [results.sealed({**row, "state": "diverged" if row["seed"] == "4" else "finished"})
                             for row in rows])
        known = [self.read(name) for name in entries.names_in(self.folder)]
        runs = results.final_runs(known, text)
        found = results.verdicts(known, runs, lambda entry: "pre")
        self.assertEqual({name: verdict for name, (_, _, verdict) in found.items()},
                         {"low": "better", "same": "not distinguishable", "high": "not distinguishable"})
        # alone p is 0.03, but 43 variants were compared: one of each entry, 40 of one
        self.assertGreater(found["high"][1], 0.5)
        table = pages.ranking(known, runs)
        self.assertLess(table.index("[low]"), table.index("[pre]"))
        self.assertIn("1/10 diverged |  |  |  |", table)

    def test_pages(self):
        self.put("low", GOOD)
        page = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("claims", "tales", "shakespeare"))
        (self.folder / "README.md").write_text(page)
        self.filled("pre", rules.TEXTS[0], self.LOW)
        self.filled("low", rules.TEXTS[0], [loss - 0.1 + 0.01 * (i % 2) for i, loss in enumerate(self.LOW)])
        known = [self.read(name) for name in ("pre", "low")]
        with contextlib.redirect_stdout(io.StringIO()):
            pages.publish(known, self.folder)
        page = (self.folder / "README.md").read_text()
        self.assertIn("| [low](entries/low.toml) | 0.003, 10% | 9 | 0.950 ± 0.023 | -0.095 ± 0.004 | 7.9e-13 | better |"
                      "\n", page)
        self.assertTrue((self.folder / "picture.png").exists())

    def test_no_author_picks_the_runs_of_a_check(self):
        rows = results.read(self.filled("pre", rules.TEXTS[0], self.LOW))["tales"]
        self.assertEqual(len(track.picked(rows, "a")), 3)
        self.assertEqual(track.picked(rows, "a"), track.picked(rows[::-1], "a"))
        self.assertGreater(len({tuple(row["row"] for row in track.picked(rows, word)) for word in "abcd"}), 1)


class Stored(unittest.TestCase):
    """The entries of this folder."""

    def test_tables_are_those_of_the_stored_runs(self):
        with mock.patch.object(entries, "options_of_train", self.any_option):
            known = [entries.read_entry(name) for name in entries.names_in(entries.ENTRIES)]
        self.assertGreater(len(known), 60)
        runs_of = {text: results.final_runs(known, text) for text in rules.TEXTS}
        for name, text in pages.sections(known, runs_of).items():
            with self.subTest(name):
                self.assertIn(f"<!-- {name} -->\n{text}<!-- end", README)

    @staticmethod
    def any_option():
        names = "".join(path.read_text() for path in entries.ENTRIES.glob("*.toml"))
        return {name: rules.OPEN[0] for name in re.findall(r"^([a-z-]+) = ", names, re.MULTILINE)}

    def test_the_page_quotes_the_rules(self):
        text = " ".join(README.split())
        for words in ("3·10¹¹ FLOPs", "ten seeds", "at most 9 runs", "10 % and 30 %", "batch of 4", "10 %",
                      *(text.sha256 for text in rules.TEXTS)):
            self.assertIn(words, text)
        self.assertEqual((rules.BUDGET, len(rules.SEEDS), rules.TUNE_RUNS, rules.WARMUPS, rules.FIXED["batch"],
                          rules.PARAMETERS, rules.FEWEST_STEPS), (3e11, 10, 9, "10%,30%", 4, 0.1, 150))


@NEEDS_PROGRAM
class WithTheProgram(Folder):
    """Runs of a few steps. Any kind of vectors will do."""

    def setUp(self):
        super().setUp()
        story = self.folder / "tales.txt"
        entries.asked("corpus", "--grammar", "tales", "--bytes", "60k", "--out", str(story))
        self.text = dataclasses.replace(rules.TEXTS[0], path=story, options={"context": 32, "val-fraction": 0.05})
        small = {"TEXTS": (self.text,), "BUDGET": 2.5e8, "FEWEST_STEPS": 2, "SEEDS": (1, 2), "TUNE_RUNS": 4,
                 "DEFAULTS": {"layers": 1, "channels": 16, "heads": 2}}
        for patch in mock.patch.multiple(rules, **small), mock.patch.object(track, "WORK", self.folder / "work"):
            patch.start()
            self.addCleanup(patch.stop)
        self.put("pre", GOOD)
        self.put("muon", GOOD + '[options]\noptimizer = "muon"\n')

    def quietly(self, call, *args):
        run = mock.patch.object(track.common, "run_program", lambda name, *words: entries.asked(*words))
        with contextlib.redirect_stdout(io.StringIO()) as said, run:
            call(*args)
        return said.getvalue()

    def test_run_and_check(self):
        entry = self.read("pre")
        self.quietly(track.run, entry, self.text, 2)
        rows = results.current(entry, self.text)
        self.assertEqual([row["stage"] for row in rows].count("final"), 2)
        self.assertTrue(all(row["metrics"] and row["weights"] for row in rows))
        self.assertFalse(list((self.folder / "work").glob("*/*/*/*.safetensors")))
        for threads in 1, 2:
            said = self.quietly(track.check, entry, [self.text], "word", threads)
            self.assertEqual(said.count("the same bits"), 3)
        # a row that was written by hand, with its hash
        for key, value in ("final_val", "1.5"), ("metrics", "0123"), ("weights", "0123"):
            results.write(entry, [results.sealed({**row, key: value}) for row in rows])
            with self.subTest(key):
                self.assertComplains(f"differs: {key} is ", self.quietly, track.check, entry, [self.text], "word", 1)

    def test_muon_pays_for_its_products(self):
        steps = [entries.cost_of(self.read(name), self.text, self.folder).steps for name in ("pre", "muon")]
        self.assertGreater(*steps)

    def test_wrong_values(self):
        self.put("bad", GOOD + '[options]\nplacement = "sideways"\n')
        self.assertComplains("bad.toml: ", entries.cost_of, self.read("bad"), self.text, self.folder)
        self.put("bad", GOOD + "[options]\nhidden = 640\n")
        self.assertComplains("the rules allow 10%", entries.cost_of, self.read("bad"), self.text, self.folder)

    def test_every_entry_names_options_that_it_may_change(self):
        for name in entries.names_in(entries.ENTRIES):
            with self.subTest(name):
                entries.read_entry(name)


if __name__ == "__main__":
    unittest.main()
