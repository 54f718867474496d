"""Runs train_gpt and reads what it wrote.

    import train_gpt
    train_gpt.run(["train", "my.txt", "--for", "5m", "--out", "runs/mine"])
    results = train_gpt.load("runs/mine")
    results.metrics.plot(x="step", y="train_loss")  # load() needs more packages: pip install 'train_gpt[tables]'
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    import pandas

__all__ = ["Error", "Results", "load", "program", "run"]


class Error(Exception):
    """The program's error message, or what is wrong with the files of a run, in one line."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status  # the program's exit code, or minus the number of the signal that ended it


def program() -> tuple[str, dict[str, str]]:
    """The program, or the build of it that TRAIN_GPT_PROGRAM names, and its environment."""
    path = os.environ.get("TRAIN_GPT_PROGRAM") or str(Path(__file__).parent / "bin" / "train_gpt")
    if not shutil.which(path):
        raise Error(f"there is no program {path}")
    return path, {**os.environ, "TRAIN_GPT_COMMAND": "train_gpt"}  # commands that it prints begin with this


def run(arguments: Sequence[object], *, quiet: bool = False) -> str:
    """Runs train_gpt with these arguments and returns its output, which is also printed as it comes unless `quiet`.

    Raises Error if the program fails. An interrupt saves the run, as Ctrl-C does in a terminal.
    """
    if isinstance(arguments, (str, bytes)):
        raise TypeError(f"run() takes a list of words, not the text {arguments!r}")
    lines: list[str] = []
    path, environment = program()
    # The program gets a session of its own: Ctrl-C in a terminal must not reach it twice, which stops it unsaved.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors, subprocess.Popen(
            [path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env=environment, encoding="utf-8", errors="replace", start_new_session=True) as process:
        _follow(process, lines, quiet)
        errors.seek(0)
        said = errors.read().strip()
    if process.returncode:
        last = said.split("\n")[-1] or f"train_gpt ended with status {process.returncode} and without a message"
        raise Error(last[last.startswith("train_gpt: ") and len("train_gpt: "):], process.returncode)
    if said and not quiet:
        print(said, file=sys.stderr)
    return "".join(lines)


def _follow(process: subprocess.Popen[str], lines: list[str], quiet: bool) -> None:
    """Collects the output until the process ends. Passes interrupts on, and raises the last one afterwards."""
    interrupt = None
    while True:
        try:
            for line in process.stdout or ():
                lines.append(line)
                if not quiet:
                    print(line, end="", flush=True)
            process.wait()
            break
        except KeyboardInterrupt as caught:
            interrupt = caught
            process.send_signal(signal.SIGINT)
    if interrupt:
        raise interrupt


def load(folder: str | os.PathLike[str]) -> Results:
    """The results in the folder of a run, which may still train, or of a comparison. Raises Error if it has none."""
    path = Path(folder)
    if not path.is_dir():
        raise Error(f"{path} is not a folder" if path.exists() else f"there is no folder {path}")
    if not any((path / name).exists() for name in ("metrics.csv", "summary.csv")):
        raise Error(f"{path} has neither a run (metrics.csv) nor a finished comparison (summary.csv)")
    _needed("pandas")
    return Results(path)


def _table(name: str) -> cached_property[pandas.DataFrame]:
    return cached_property(lambda results: _read_table(results.folder / name))


class Results:
    """What a run or a comparison left in its folder. A file is read when you first ask for what it holds."""

    metrics = _table("metrics.csv")          # of a run: one row per step
    diagnostics = _table("diagnostics.csv")  # of both: one row per number that --diagnostics measured
    summary = _table("summary.csv")          # of a comparison: one row per cell,
    runs = _table("runs.csv")                # per run,
    curves = _table("curves.csv")            # and per step of a run

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def model(self, framework: str = "numpy") -> tuple[dict[str, Any], dict[str, Any]]:
        """A run's options and best weights, by name. Weights are arrays of NumPy or tensors of PyTorch ("pt")."""
        path = self.folder / "best.safetensors"
        path = path if path.exists() else path.with_name("checkpoint.safetensors")
        safetensors = _needed("safetensors")
        try:
            with safetensors.safe_open(path, framework=framework) as file:
                names = [name for name in file.keys() if not name.startswith("optimizer.")]
                settings = json.loads((file.metadata() or {})["train_gpt"])["settings"]
                return settings, {name: file.get_tensor(name) for name in names}
        except (OSError, KeyError, safetensors.SafetensorError) as error:
            raise Error(f"cannot read {path}: {error}") from None
        except TypeError:
            raise Error(f'{path} has weights in bf16, which NumPy lacks: use model("pt")') from None


def _read_table(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror}") from None
    text = text[:text.rfind("\n") + 1]  # a run may still be writing the last line
    rows = list(csv.reader(io.StringIO(text.replace("\0", "\n"))))
    wrong = [number for number, row in enumerate(rows) if len(row) != len(rows[0])]
    if wrong or not rows:
        raise Error(f"{path} is damaged: row {wrong[0]} is not complete" if rows else f"{path} is empty")
    return _needed("pandas").read_csv(io.StringIO(text))


def _needed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}: pip install 'train_gpt[tables]'") from None
