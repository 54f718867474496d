"""The paper's numbers and the archive of the runs. Run by `make test-report`."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]
import archive  # noqa: E402
import pandas  # noqa: E402
import paper  # noqa: E402
from paper import Complaint  # noqa: E402

TEXT = (HERE / "paper.md").read_text(encoding="utf-8")
HEAD, BODY = TEXT.split("\n---\n", 1)
SECTIONS = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
            "AI usage disclosure", "Acknowledgements", "References"]  # JOSS asks for them, in 2026
WORDS = 750, 1750  # JOSS's limits
FREE = re.compile(r"`[^`]*`|@\w+|\b(95|5) %|(Figure|Table) \d|width=\d+%")  # may hold numbers
NUMBER = re.compile(r"(?<![\w.-])\d[\d.,]*\d|(?<![\w.-])\d")


def with_program(test):
    """Without build/train_gpt, its lists of names are taken from elsewhere."""
    return test if paper.BINARY.exists() else mock.patch.object(paper, "choices", lambda option: 1)(test)


class Paper(unittest.TestCase):
    @with_program
    def test_every_number_is_there(self):
        filled = paper.fill(BODY)
        self.assertNotIn("{{", filled)
        self.assertNotIn("nan", filled.split())
        prose = re.sub(r"^\|.*\n|`[^`]*`|\[@[^]]*\]|^#.*\n", "", filled, flags=re.MULTILINE).split()
        self.assertTrue(WORDS[0] <= len(prose) <= WORDS[1], f"{len(prose)} words")

    def test_numbers_that_are_not_there(self):
        for place in ("nothing; a; b", "warmup; Xavier, no clipping; post; 41; lr 3e-3", "longer; pre; p (Holm)",
                      "warmup; Xavier, no clipping; post; lr 3e-3", "longer/cell; --steps", "longer/cells; --step",
                      "longer/cells; loss", "longer/cells; final_val", "longer/cells; floor", "steps"):
            with self.subTest(place), self.assertRaises(Complaint) as caught:
                paper.fill(f"{{{{{place}}}}}")
            self.assertIn(place, str(caught.exception))

    def test_numbers_are_those_of_their_sources(self):
        readme, options = ((paper.STUDIES / name).read_text() for name in ("README.md", "longer/cells.json"))
        row = [paper.number(f"longer; lns; {column}") for column in ("rate", "warm-up", "final loss")]
        self.assertIn(f"| lns | {' | '.join(row)} |", readme)  # which test_studies.py recomputes
        self.assertIn(f"--steps {paper.number('longer/cells; --steps')} ", options)
        self.assertEqual(paper.number("longer/cells; seeds"), "3")
        with mock.patch.object(paper, "number", lambda place: "-0.5 ± 0.1*"):
            self.assertEqual(paper.fill("{{a}}"), "−0.5\u00a0±\u00a00.1\\*")

    def test_what_is_counted(self):
        """In two made-up comparisons, which share one model."""
        rows = [("tune", 0, "t train --lr 1 --seed=0", 3, 1e-3), ("final", 1, "t train --lr 1 --seed=1", 1, 1e-3),
                ("final", 2, "t train --lr 1 --seed=2", 3, 1e-3), ("final", 1, "t train --lr 3 --seed=1", 1.5, 3e-3)]
        runs = pandas.DataFrame(rows, columns=["stage", "seed", "command", "final_val", "peak_lr"])
        runs = runs.assign(version="1", state="finished", initial_loss=9, floor=0.12345)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(paper, "STUDIES", Path(folder)):
            (study := Path(folder) / "made").mkdir()
            runs.to_csv(study / "one-runs.csv")
            again = runs.tail(1).assign(command="t train --tokenizer byte --seed 1 --lr=3")
            again.to_csv(study / "two-runs.csv")
            for name, processor in ("one", "AMD EPYC"), ("two", "Intel(R) Xeon(R)"):
                (study / f"{name}.json").write_text(json.dumps({"machine": ["AVX2", processor], "options": ""}))
            self.assertEqual(paper.number("commands repeated, two makers"), "1")
            options = "--layers 6 --grid layers=4,24 channels=8"
            (study / "one.json").write_text(json.dumps({"machine": ["AMD"], "options": options}))
            want = {"runs": "5", "comparisons": "2", "studies": "1", "commands repeated": "1", "most layers": "24",
                    "commands repeated, same loss": "1", "made/one; --layers": "6", "made/one; seeds": "2",
                    "made/one; floor": "0.123"}
            self.assertEqual({place: paper.number(place) for place in want}, want)
            again.assign(final_val=2).to_csv(study / "two-runs.csv")
            self.assertEqual(paper.number("commands repeated, same loss"), "0")
        self.assertEqual(list(paper.at_best_rate(runs[runs.stage == "final"])), [1.5])

    def test_no_number_is_typed_by_hand(self):
        """A number beside the places is a part of a name in one of the places of its paragraph or row."""
        for part in re.split(r"\n\n|\n(?=\|)", BODY):
            names = " ".join(paper.PLACE.findall(part))
            for number in NUMBER.findall(FREE.sub("", paper.PLACE.sub("", part))):
                self.assertIn(number, re.findall(r"[\w.]+", names), part)

    def test_form(self):
        self.assertEqual(re.findall(r"^# (.*)$", BODY, re.MULTILINE), SECTIONS)
        self.assertEqual(set(re.findall(r"\]\((\w+\.png)\)", BODY)), set(paper.FIGURES))
        self.assertIn("bibliography: paper.bib", HEAD)
        self.assertEqual(re.findall(r"- name: (.*)", HEAD),
                         re.findall(r"- name: (.*)", (HERE.parent / "release/CITATION.cff").read_text()))

    def test_references(self):
        bib = (HERE / "paper.bib").read_text(encoding="utf-8")
        self.assertEqual(sorted(set(re.findall(r"@(\w+)", BODY))), re.findall(r"^@\w+\{(\w+),$", bib, re.MULTILINE))
        for entry in bib.split("\n\n"):
            self.assertRegex(entry, r"(?s)\btitle = .*\byear = .*\b(doi|url) = ")

    def test_without_pandoc(self):
        with mock.patch.dict(sys.modules, pypandoc=None), self.assertRaises(Complaint) as caught:
            paper.write_pdf(HERE)
        self.assertIn("pip install -r dev/paper/requirements.txt", str(caught.exception))


@unittest.skipUnless((paper.ROOT / ".git").exists(), "this is not a clone")
class Archive(unittest.TestCase):
    def setUp(self):
        self.files = archive.contents("1.2.3")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "runs.tar.gz"

    def write(self, files):
        self.path.write_bytes(archive.pack(files, "runs"))

    def test_same_bytes(self):
        first = archive.pack(self.files, "runs")
        with mock.patch("time.time", lambda: 1e9):
            self.assertEqual(archive.pack(dict(reversed(archive.contents("1.2.3").items())), "runs"), first)
        self.path.write_bytes(first)
        with archive.tarfile.open(self.path) as tar:
            entries = tar.getmembers()
        self.assertEqual([entry.name for entry in entries], sorted(entry.name for entry in entries))
        self.assertEqual({(entry.mtime, entry.uid, entry.gid, entry.uname, entry.mode) for entry in entries},
                         {(0, 0, 0, "", 0o644)})

    def test_what_is_in_it(self):
        for path in paper.STUDIES.glob("*/*-summary.csv"):
            self.assertEqual(self.files[f"studies/{path.parent.name}/{path.name}"], path.read_bytes())
        self.assertLess({"track/pre.csv", "track/pre.toml", "recipes/compare-runs.csv", "studies/longer/cells.json",
                         "LICENSE"}, set(self.files))
        self.assertIn("version 1.2.3", self.files["README.md"].decode())

    def test_manifest(self):
        self.write(self.files)
        self.assertEqual(archive.check(self.path), len(self.files) - 1)
        name = "studies/longer/cells-runs.csv"
        lost = {key: data for key, data in self.files.items() if key != name}
        for files in {**self.files, name: self.files[name] + b"\n"}, lost, {**self.files, name + "2": b""}:
            self.write(files)
            with self.assertRaises(SystemExit) as caught:
                archive.check(self.path)
            self.assertIn(name, str(caught.exception))

    def test_every_column_is_explained(self):
        """By README.md, or as an option in a note."""
        texts = re.findall(r"`([^`]+)`", self.files["README.md"].decode())
        texts += [data.decode() for name, data in self.files.items() if name.endswith((".json", ".toml"))]
        known = {word.lstrip("-") for word in re.findall(r"[\w-]+", " ".join(texts))}
        for name, data in self.files.items():
            if name.endswith(".csv"):
                columns = re.sub("_(min|max|sensitivity)", "", data.decode().split("\n")[0]).split(",")
                self.assertEqual(set(columns) - known, set(), name)


if __name__ == "__main__":
    unittest.main()
