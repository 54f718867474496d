"""Reads the files of `train_gpt compare` and `train_gpt train` as tables, and checks them."""

import csv
import io
import json
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

METRICS = ("step", "tokens", "elapsed_s", "train_loss", "val_loss", "val_bpb", "lr", "grad_norm", "clipped",
           "step_ms", "tokens_per_second")
COLUMNS = {
    "metrics.csv": METRICS,
    "curves.csv": ("cell", "stage", "seed", *METRICS),
    "runs.csv": ("cell", "stage", "seed", "state", "stopped_at", "first_tensor", "initial_loss", "final_val",
                 "best_val", "best_step", "final_train", "steps", "tokens", "seconds", "tokens_per_second",
                 "loss_spikes", "grad_spikes", "clipped", "steps_to_target", "seconds_to_target", "parameters",
                 "unigram", "floor", "directory", "command"),
    "summary.csv": ("cell", "at_edge", "n", "finished", "diverged", "stuck", "failed", "mean", "sd", "ci", "best",
                    "difference", "difference_ci", "verdict", "target", "steps_to_target", "seconds_to_target",
                    "seconds", "tokens_per_second", "loss_spikes", "grad_spikes", "clipped", "parameters"),
    "diagnostics.csv": ("step", "layer", "part", "what", "value"),
}
# Numbers that not every file has.
OPTIONAL = {"peak_lr", "flops", "val_loss_full", "lr_sensitivity", "warmup_sensitivity", "p", "p_holm", "p_unequal"}
PROGRAM = ("date", "version", "compiler", "simd")  # in a run's history.jsonl; earlier tables lack them
TEXT = {"cell", "at_edge", "stage", "seed", "state", "first_tensor", "directory", "command", "verdict", "part", "what",
        *PROGRAM}
STATES = {"finished", "diverged", "stuck", "failed"}


class Complaint(Exception):
    """An error that the user can fix, in one line."""


@dataclass
class Comparison:
    name: str
    keys: list  # the grid's keys, in the order of its columns, without seed
    curves: pd.DataFrame
    runs: pd.DataFrame
    summary: pd.DataFrame = None      # None for plain runs
    diagnostics: pd.DataFrame = None  # None without --diagnostics
    configs: dict = None              # (stage, cell, directory) -> the options of the run
    unit: str = "nats per token"      # the losses' unit
    tuned: list = field(default_factory=list)  # columns of the options that each cell tuned
    groups: list = None               # of cells that differ in size alone, once scaling.py has fitted their laws


def read_text(path):
    """The text of a file. Names of files in it need not be UTF-8: what is not becomes �."""
    return Path(path).read_bytes().decode("utf-8", "replace")


def shown_name(path):
    """The last part of a path as text for a page or a picture."""
    return os.fsencode(Path(path).resolve().name).decode("utf-8", "replace")


def read_table(path):
    """A CSV file whose columns are numbers, except TEXT and the grid's keys."""
    needed = COLUMNS[path.name]
    try:
        text = read_text(path)
        if "\0" in text:
            raise Complaint(f"{path} is not a CSV file")
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    except OSError as error:
        raise Complaint(f"cannot read {path}: {error.strerror}") from None
    except pd.errors.EmptyDataError:
        raise Complaint(f"{path} is empty") from None
    except pd.errors.ParserError:
        raise Complaint(f"{path} is not a CSV file") from None
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise Complaint(f"{path} has no column {missing[0]}")
    if table.empty:
        raise Complaint(f"{path} has no rows")
    for name in (set(needed) | OPTIONAL) & set(table.columns) - TEXT:
        table[name] = numbers(table[name], path)
    return table


def numbers(column, path):
    """A column of numbers. Empty fields, which were not measured, become NaN."""
    result = pd.to_numeric(column.where(column != "", "nan"), errors="coerce")
    wrong = column[result.isna() & ~column.str.lower().isin(["", "nan", "-nan"])]
    if len(wrong):
        raise Complaint(f"{path}: column {column.name} holds {wrong.iloc[0]!r}, which is not a number")
    return result


def grid_keys(columns):
    """The keys are the columns between `stage` and `seed`."""
    columns = list(columns)
    return columns[columns.index("stage") + 1:columns.index("seed")]


def tuned_options(columns):
    """The options that each cell tuned are the columns between `seed` and `state`."""
    columns = list(columns)
    return columns[columns.index("seed") + 1:columns.index("state")]


def read_comparison(directory):
    directory = Path(directory)
    if not directory.is_dir():
        raise Complaint(f"{directory} is no directory")
    if not (directory / "summary.csv").exists():
        raise Complaint(f"{directory} holds neither a comparison (summary.csv) nor a run (metrics.csv)")
    curves, runs, summary = (read_table(directory / name) for name in ("curves.csv", "runs.csv", "summary.csv"))
    if runs.floor.nunique() == 1:  # all have the data's floor, or none if they failed at once
        runs.floor = runs.floor.where(runs.state != "failed", runs.floor.dropna().iloc[0])
    unknown = set(runs.state) - STATES
    if unknown:
        raise Complaint(f"{directory / 'runs.csv'}: state {min(unknown)!r} is none of {', '.join(sorted(STATES))}")
    strange = [cell for cell in summary.cell if cell not in set(runs.cell)]
    if strange:
        raise Complaint(f"{directory / 'summary.csv'} has a cell {strange[0]!r} that runs.csv does not have")
    tuned = tuned_options(runs.columns)
    # An option that was not tuned has no sensitivity, and earlier tables have neither p values nor corrected verdicts.
    for name in (OPTIONAL - {"peak_lr", "flops", "val_loss_full"}) - set(summary.columns):
        summary[name] = float("nan")
    if "verdict_holm" not in summary.columns:
        summary["verdict_holm"] = ""
    path = directory / "diagnostics.csv"
    diagnostics = read_table(path) if path.exists() else None
    if diagnostics is not None and not {"cell", "seed"} <= set(diagnostics.columns):
        raise Complaint(f"{path} has no column cell or seed")
    configs = {}
    for run in runs.itertuples():
        config = directory / run.directory / "config.toml"
        if config.exists():
            configs[run.stage, run.cell, run.directory] = read_config(config)
    return Comparison(shown_name(directory), grid_keys(curves.columns), curves, runs, summary, diagnostics, configs,
                      tuned=tuned)


# In config.toml, options derived from others are commented out with #.
WORKED_OUT = re.compile(r"^# (?=[a-z0-9-]+ = )", re.MULTILINE)


@dataclass
class Config:
    given: dict
    worked_out: dict


def read_config(path):
    try:
        text = read_text(path)
        given, everything = tomllib.loads(text), tomllib.loads(WORKED_OUT.sub("", text))
    except (OSError, ValueError, RecursionError) as error:
        raise Complaint(f"cannot read {path}: {error}") from None
    return Config(given, {key: value for key, value in everything.items() if key not in given})


# ---- Runs outside a comparison -------------------------------------------------------------------

def runs_below(path):
    """The run directories in `path`, which may be one itself: those with a metrics.csv or a config.toml."""
    path = Path(path)
    if not path.is_dir():
        raise Complaint(f"{path} is no directory")
    return sorted({file.parent for name in ("metrics.csv", "config.toml") for file in path.rglob(name)})


def root_of(paths):
    """The directory below which runs are named: the only one, or the one that all share."""
    paths = [os.path.abspath(path) for path in paths]
    return Path(paths[0] if len(paths) == 1 else os.path.commonpath(paths))


def run_name(run, root):
    """A run's name below `root`."""
    name = os.fsencode(os.path.relpath(run, root)).decode("utf-8", "replace")
    return shown_name(run) if name == "." else name


def newest(*files, below="runs"):
    """The directory below runs/ with the newest of `files`."""
    found = [path for file in files for path in Path(below).rglob(file)]
    if not found:
        raise Complaint(f"nothing below {below}/ has a {' or '.join(files)}: name a directory")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def read_metrics_so_far(path):
    """{column: [numbers]} of a metrics.csv that is being written; ignores an incomplete last line."""
    try:
        text = read_text(path)
        rows = list(csv.reader(text[:text.rfind("\n") + 1].splitlines()))
    except (OSError, csv.Error):
        return {}
    if not rows or "step" not in rows[0]:
        return {}
    header, result = rows[0], []
    for row in rows[1:]:
        try:
            fields = [float(field) if field else None for field in row]
        except ValueError:
            continue
        if len(fields) == len(header):
            result.append(fields)
    return {name: [row[i] for row in result] for i, name in enumerate(header)}


def state_of(metrics):
    """(state, step at which it stopped) of a run, judged by metrics.csv alone."""
    loss = metrics.train_loss
    finite = loss.map(lambda x: abs(x) < float("inf"))
    if not finite.all():
        return "diverged", metrics.step[~finite].iloc[0]
    if loss.iloc[-1] > 1.5 * loss.iloc[0]:  # the margin is for noise of single batches, as in fine-tuning
        return "diverged", metrics.step.iloc[-1]
    return "finished", float("nan")


def read_outcome(run):
    """outcome.json of a run that ended; {} if it is missing or unreadable."""
    try:
        outcome = json.loads(read_text(run / "outcome.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return outcome if isinstance(outcome, dict) else {}


def read_program(run):
    """PROGRAM as texts, of the last call in history.jsonl; "" if they are missing."""
    try:
        lines = (run / "history.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    found = {}
    for line in lines:
        try:
            call = json.loads(line)
        except (ValueError, RecursionError):
            continue
        found = call if isinstance(call, dict) else found
    return {key: str(found.get(key, "")) for key in PROGRAM}


def positive(outcome, key):
    """A number of the outcome; NaN if it is missing."""
    value = outcome.get(key)
    try:
        return float(value) if isinstance(value, (int, float)) and value > 0 else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        return math.nan


def last_of(column):
    known = column.dropna()
    return known.iloc[-1] if len(known) else float("nan")


def summary_of(run, name, metrics):
    """The row of a single run, as in runs.csv."""
    outcome = read_outcome(run)
    state, stopped_at = state_of(metrics)
    if outcome.get("state") == "diverged":
        state, stopped_at = "diverged", positive(outcome, "step")
    elif outcome:
        state, stopped_at = "finished", float("nan")
    val = metrics.val_loss.dropna()
    full = positive(outcome, "val_loss_full")
    if full != full and "val_loss_full" in metrics:
        full = metrics.val_loss_full.iloc[-1]  # an earlier one is of a run that was resumed since
    return {"cell": name, "stage": "final", "seed": "", "state": state, "stopped_at": stopped_at,
            "first_tensor": str(outcome.get("tensor", "")), "initial_loss": metrics.train_loss.iloc[0],
            "final_val": full if full == full else last_of(val), "best_val": val.min(),
            "best_step": metrics.step[val.idxmin()] if len(val) else float("nan"),
            "final_train": last_of(metrics.train_loss), "steps": metrics.step.iloc[-1],
            "tokens": metrics.tokens.iloc[-1], "seconds": last_of(metrics.elapsed_s),
            "parameters": positive(outcome, "parameters"), "unigram": positive(outcome, "unigram"),
            "floor": positive(outcome, "floor"), "directory": str(run), "ended": bool(outcome), **read_program(run)}


BITS = "bits per byte"


def bits_of_nats(metrics):
    """Bits per byte of one nat per token; NaN before the first validation."""
    return last_of(metrics.val_bpb / metrics.val_loss)


def several_tokenizers(tokenizers, bits):
    """Whether runs count in different tokens, by the option and by bytes per token. Their nats cannot be compared.

    A run that has just begun has neither."""
    bits = [value for value in bits if value is not None and math.isfinite(value)]
    names = {str(name) for name in tokenizers if name is not None}
    return len(names) > 1 or bool(bits) and max(bits) > 1.001 * min(bits)


def to_bits(runs, curves):
    """Losses in bits per byte. A training loss has no such number, and no floor."""
    for run, curve in zip(runs, curves):
        bits = bits_of_nats(curve)
        for column in ("final_val", "best_val"):
            run[column] *= bits
        run["final_train"] = run["floor"] = math.nan
        curve["val_loss"], curve["train_loss"] = curve.val_bpb, math.nan
        if "val_loss_full" in curve:
            curve["val_loss_full"] *= bits


def read_runs(paths):
    """Plain run directories as a comparison with one cell per run."""
    curves, runs, diagnostics, configs = [], [], [], {}
    paths = [Path(path) for path in paths]
    root = root_of(paths)
    for path in paths:
        if not path.is_dir():
            raise Complaint(f"{path} is no directory")
        metrics = read_table(path / "metrics.csv")
        metrics = metrics[metrics.step > 0] if (metrics.step > 0).any() else metrics
        run = summary_of(path, run_name(path, root), metrics)
        runs.append(run)
        curves.append(metrics.assign(cell=run["cell"], stage="final", seed=""))
        if (path / "diagnostics.csv").exists():
            diagnostics.append(read_table(path / "diagnostics.csv").assign(cell=run["cell"], seed=""))
        if (path / "config.toml").exists():
            configs["final", run["cell"], str(path)] = read_config(path / "config.toml")
    tokenizers = [config.given.get("tokenizer") for config in configs.values()]
    unit = BITS if several_tokenizers(tokenizers, map(bits_of_nats, curves)) else Comparison.unit
    if unit == BITS:
        to_bits(runs, curves)
    names = [run["cell"] for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise Complaint(f"two runs are called {name}")
    return Comparison(names[0] if len(names) == 1 else shown_name(root), [], pd.concat(curves), pd.DataFrame(runs),
                      diagnostics=pd.concat(diagnostics) if diagnostics else None, configs=configs, unit=unit)


SAMPLE = re.compile(r"^==== step (\d{1,18}) ====$\n?", re.MULTILINE)


def read_samples(run):
    """[(step, text)] of samples.txt; [] without one."""
    try:
        text = read_text(Path(run) / "samples.txt")
    except OSError:
        return []
    _, *parts = SAMPLE.split(text)
    # A resumed run may have written a step twice.
    return sorted({int(step): sample.strip("\n") for step, sample in zip(parts[::2], parts[1::2])}.items())
