"""Tests the Python module of the wheel, as PYTHONPATH and TRAIN_GPT_PROGRAM name it or as it is installed:

    make test-module        or: python dev/release/test_module.py [-k NAME]
"""

import contextlib
import importlib.util
import io
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import train_gpt

HERE = Path(__file__).resolve().parent
SMALL = ["--layers", 1, "--channels", 8, "--heads", 1, "--context", 16, "--batch", 2, "--threads", 1]


def lacks(*modules):
    return unittest.skipUnless(all(map(importlib.util.find_spec, modules)), f"needs {' and '.join(modules)}")


class InFolder(unittest.TestCase):
    """Each class has a temporary folder with a text, and is in it."""

    @classmethod
    def setUpClass(cls):
        cls.before = Path.cwd()
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        train_gpt.run(["corpus", "--grammar", "tales", "--bytes", "20k", "--out", "tales.txt"], quiet=True)

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        cls.folder.cleanup()

    def assertComplains(self, message, function, *arguments, error=train_gpt.Error, **more):
        with self.assertRaises(error) as caught:
            function(*arguments, **more)
        self.assertIn(message, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
        return caught.exception


class Run(InFolder):
    def script(self, text):
        Path("program").write_text(f"#!/bin/sh\n{text}\n")
        Path("program").chmod(0o755)
        return mock.patch.dict(os.environ, TRAIN_GPT_PROGRAM=os.path.abspath("program"))

    def test_output_is_printed_as_it_comes_and_returned(self):
        shown, notes = io.StringIO(), io.StringIO()
        with self.script("echo out $2; echo note >&2"), contextlib.redirect_stdout(shown), \
                contextlib.redirect_stderr(notes):
            self.assertEqual(train_gpt.run(["--steps", 3], quiet=True), "out 3\n")
            self.assertEqual(shown.getvalue() + notes.getvalue(), "")
            self.assertEqual(train_gpt.run(["--steps", 3]), "out 3\n")
        self.assertEqual((shown.getvalue(), notes.getvalue()), ("out 3\n", "note\n"))

    def test_the_programs_message_and_exit_code_are_raised(self):
        error = self.assertComplains("unknown command 'trane'", train_gpt.run, ["trane"])
        self.assertTrue(str(error).startswith("unknown"))
        self.assertEqual(error.status, 1)
        with self.script("echo note >&2; echo 'train_gpt: diverged' >&2; exit 3"):
            self.assertEqual(self.assertComplains("diverged", train_gpt.run, ["train"]).status, 3)
        with self.script("kill -9 $$"):
            self.assertEqual(self.assertComplains("status -9", train_gpt.run, ["train"]).status, -9)

    def test_a_text_is_no_list_of_words(self):
        for text in "train", b"train":
            self.assertComplains(f"takes a list of words, not the text {text!r}", train_gpt.run, text, error=TypeError)

    def test_a_program_that_is_not_there(self):
        with mock.patch.dict(os.environ, TRAIN_GPT_PROGRAM="missing"):
            self.assertComplains("there is no program missing", train_gpt.run, ["train"])
            failed = subprocess.run([sys.executable, "-m", "train_gpt"], stderr=subprocess.PIPE, text=True)
        self.assertEqual((failed.returncode, failed.stderr), (1, "train_gpt: there is no program missing\n"))

    def test_an_interrupt_saves_the_run(self):
        words = ["train", "tales.txt", *SMALL, "--steps", 10**8, "--out", "stopped"]
        # As in a terminal: Ctrl-C reaches the whole group of processes.
        # A shell starts what it puts into the background with interrupts ignored.
        script = f"import signal, train_gpt; signal.signal(2, signal.default_int_handler); train_gpt.run({words})"
        with subprocess.Popen([sys.executable, "-c", script],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as python:
            output = iter(python.stdout.readline, "")
            next(line for line in output if line.startswith("step"))
            os.killpg(python.pid, signal.SIGINT)
            rest = "".join(output)
            self.assertIn("and saved; to go on:\n  train_gpt train --out stopped --resume\n", rest)
            self.assertIn("KeyboardInterrupt", python.stderr.read())
        self.assertTrue(Path("stopped/checkpoint.safetensors").exists())

    def test_the_command_becomes_the_program(self):
        words = ["train", "tales.txt", *SMALL, "--steps", 1, "--out", "by-command"]
        command = [sys.executable, "-m", "train_gpt", *map(str, words)]
        self.assertIn("\n  train_gpt sample by-command", subprocess.check_output(command, text=True))
        failed = subprocess.run([*command[:3], "trane"], stderr=subprocess.PIPE, text=True)
        self.assertEqual((failed.returncode, failed.stderr[:26]), (1, "train_gpt: unknown command"))


@lacks("pandas", "safetensors", "numpy")
class Load(InFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        train_gpt.run(["train", "tales.txt", *SMALL, "--steps", 12, "--diagnostics", 6, "--out", "run"], quiet=True)

    def damaged(self, name, change):
        """A copy of the run whose file `name` is changed."""
        folder = Path(tempfile.mkdtemp(dir="."))
        for path in Path("run").iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        return train_gpt.load(folder)

    def test_tables_of_a_run(self):
        results = train_gpt.load("run")
        self.assertEqual(list(results.metrics.step), list(range(1, 13)))
        self.assertEqual(results.metrics.train_loss.dtype.kind, "f")
        self.assertEqual(set(results.diagnostics.step), {1, 6, 12})
        self.assertGreater(len(results.diagnostics.value.dropna()), 50)

    def test_the_model(self):
        settings, weights = train_gpt.load("run").model()
        self.assertEqual((settings["channels"], settings["placement"]), (8, "pre"))
        self.assertEqual(weights["block.0.attention.q.weight"].shape, (8, 8))
        self.assertFalse([name for name in weights if name.startswith("optimizer")])
        Path("run/best.safetensors").rename("run/other")
        try:
            last = train_gpt.load("run").model()[1]
        finally:
            Path("run/other").rename("run/best.safetensors")
        self.assertEqual(last.keys(), weights.keys())

    def test_tables_of_a_comparison(self):
        words = ["compare", "tales.txt", *SMALL, "--steps", 5, "--grid", "placement=pre,none", "seed=1,2"]
        train_gpt.run([*words, "--out", "compared"], quiet=True)
        results = train_gpt.load("compared")
        self.assertEqual(list(results.summary.placement), ["pre", "none"])
        self.assertEqual(len(results.runs), 4)
        self.assertEqual(len(results.curves), 4 * 5)
        run = train_gpt.load(Path("compared") / results.runs.directory[0])
        self.assertEqual(len(run.metrics), 5)
        self.assertComplains("metrics.csv: No such file", getattr, results, "metrics")

    def test_folders_that_are_no_runs(self):
        self.assertComplains("there is no folder absent", train_gpt.load, "absent")
        self.assertComplains("tales.txt is not a folder", train_gpt.load, "tales.txt")
        self.assertComplains("neither a run (metrics.csv) nor", train_gpt.load, ".")

    def test_damaged_tables(self):
        def cut(text):
            return text[:-30]
        self.assertEqual(len(self.damaged("metrics.csv", cut).metrics), 11)  # the last line is being written
        for change, message in (
            (lambda text: text.replace(b"\n1,", b"\n1"), "metrics.csv is damaged: row 1 "),
            (lambda text: cut(text) + b"\n", "metrics.csv is damaged: row 12 "),
            (lambda text: text.replace(b"5.", b"5\0"), "metrics.csv is damaged: row 1 "),
            (lambda text: b"", "metrics.csv is empty"),
        ):
            self.assertComplains(message, getattr, self.damaged("metrics.csv", change), "metrics")

    def test_damaged_weights(self):
        self.assertComplains("best.safetensors: ", self.damaged("best.safetensors", lambda data: data[:99]).model)
        header = json.dumps({"__metadata__": {"train_gpt": '{"settings": {}}'},
                             "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        bf16 = struct.pack("<Q", len(header)) + header + bytes(4)
        self.assertComplains('use model("pt")', self.damaged("best.safetensors", lambda data: bf16).model)

    def test_missing_packages_are_named(self):
        for module, function in ("pandas", lambda: train_gpt.load("run")), ("safetensors", train_gpt.load("run").model):
            with mock.patch.dict(sys.modules, {module: None}):
                self.assertComplains("pip install 'train_gpt[tables]'", function, error=ImportError)


class Package(unittest.TestCase):
    @lacks("hatchling", "packaging")
    def test_versions(self):
        from packaging.version import Version
        sys.path.append(str(HERE / "python"))
        from hatch_build import pep440
        versions = [pep440(version) for version in ("0.1.0+0123456", "0.1.0", "0.2.0+ab12cd3", "0.2.0")]
        self.assertEqual([str(Version(version)) for version in versions], versions)
        self.assertEqual(sorted(versions, key=Version), versions)

    @lacks("mypy")
    def test_types(self):
        subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "train_gpt"], cwd=HERE / "python", check=True)


class Counted(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


if __name__ == "__main__":
    result = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=Counted)).result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    raise SystemExit(failed > 0 or result.passed == 0)
