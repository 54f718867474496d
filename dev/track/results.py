"""The stored runs of the entries, and what they say.

ENTRY.csv has a row for each run, written by the runner. `metrics` and `weights` are hashes of the run's losses and of
its checkpoint, `entry` stands for the entry's options and the rules, and `row` is the hash of the row itself: it finds
a number that changed by accident. `make track-check` finds all others.
"""

import csv
import hashlib
import io
import json
import os

import pandas
import rules
from common import signed, stats
from read import Complaint
from words import holm

TIMES = ["elapsed_s", "step_ms", "tokens_per_second"]
COLUMNS = ["text", "stage", "seed", "peak_lr", "warmup", "at_edge", "state", "initial_loss", "final_val", "floor",
           "steps", "parameters", "flops", "metrics", "weights", "version", "compiler", "simd", "entry", "row"]


def hash_of(data):
    return hashlib.sha256(data).hexdigest()[:16]


def bits_of(folder):
    """Hashes of a run's losses, gradient norms and rates, and of its checkpoint: without times and dates."""
    found = dict(metrics="", weights="")
    if (metrics := folder / "metrics.csv").exists():
        table = pandas.read_csv(metrics, dtype=str, keep_default_na=False)
        found["metrics"] = hash_of(table.drop(columns=TIMES).to_csv(index=False, lineterminator="\n").encode())
    if (weights := folder / "checkpoint.safetensors").exists():
        data = weights.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:end])
        header.pop("__metadata__", None)
        found["weights"] = hash_of(json.dumps(header, sort_keys=True).encode() + data[end:])
    return found


def sealed(row):
    """A row with the hash of its other fields."""
    fields = [str(row[name]) for name in COLUMNS[:-1]]
    return {**dict(zip(COLUMNS, fields)), "row": hash_of("\n".join(fields).encode())}


def rows_of(entry, text, folder, cost):
    """The rows of a comparison's folder."""
    runs, summary = (pandas.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
                     for name in ("runs", "summary"))
    for run in runs.to_dict("records"):
        yield sealed({**run, **bits_of(folder / run["directory"]), "text": text.name, "at_edge": summary.at_edge[0],
                      "parameters": cost.parameters, "flops": f"{cost.steps * cost.flops:.6g}",
                      "entry": entry.digest(text)})


def write(entry, rows):
    """Writes the rows of an entry: whole, or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    partial = entry.results.with_suffix(".partial")
    partial.write_text(text.getvalue(), encoding="utf-8")
    os.replace(partial, entry.results)


def read(entry):
    """{name of a text: rows as texts}. Complains if the file is not as the runner wrote it."""
    path = entry.results
    if not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise Complaint(f"{path.name} has other columns than the runner writes: remove it and run the entry again")
        rows = list(reader)
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or sealed(row) != row:
            raise Complaint(f"{path.name}: line {number} was changed after the run: remove the file and run the entry "
                            "again")
    by_text = {text.name: [row for row in rows if row["text"] == text.name] for text in rules.TEXTS}
    for name, some in by_text.items():
        if some:
            check_complete(path, name, some)
    return {name: some for name, some in by_text.items() if some}


def check_complete(path, name, rows):
    """All seeds at the best values of the search, no run above the budget."""
    seeds = sorted(int(row["seed"]) for row in rows if row["stage"] == "final")
    tuned = [row for row in rows if row["stage"] == "tune"]
    if seeds != list(rules.SEEDS) or not 0 < len(tuned) <= rules.TUNE_RUNS:
        raise Complaint(f"{path.name}: the runs on {name} are not complete (final seeds {seeds}, {len(tuned)} tuning "
                        "runs): remove the file and run the entry again")
    if any(float(row["flops"]) > rules.BUDGET for row in rows):
        raise Complaint(f"{path.name}: a run on {name} spent more than {rules.BUDGET:g} FLOPs")
    chosen = {(row["peak_lr"], row["warmup"]) for row in rows if row["stage"] == "final"}
    if len(chosen) != 1 or not chosen <= {(row["peak_lr"], row["warmup"]) for row in tuned}:
        raise Complaint(f"{path.name}: the final runs on {name} are not at a rate and warm-up that the search tried")


def current(entry, text):
    """The rows of an entry on a text; [] if it was not run, or has changed since."""
    rows = read(entry).get(text.name, [])
    return rows if all(row["entry"] == entry.digest(text) for row in rows) else []


def final_runs(entries, text):
    """The final runs of all entries on a text that have results, with the entry's name as `name`."""
    rows = [{**row, "name": entry.name} for entry in entries for row in current(entry, text) if row["stage"] == "final"]
    runs = pandas.DataFrame(rows, columns=["name", *COLUMNS])
    numbers = ["seed", "peak_lr", "initial_loss", "final_val", "floor", "steps", "parameters", "flops"]
    return runs.assign(**{name: pandas.to_numeric(runs[name]) for name in numbers})


def losses(runs):
    """{entry: final losses by seed}, of the entries all of whose runs finished."""
    return {name: some.set_index("seed").final_val.sort_index() for name, some in runs.groupby("name", sort=False)
            if (some.state == "finished").all()}


def verdicts(entries, runs, against):
    """{entry: (paired differences to the entry that `against` names, corrected p, verdict)}.

    Each variant that an author tried counts as a comparison, and so does an entry whose runs did not finish."""
    final, pairs = losses(runs), {}
    judged = [entry for entry in entries if entry.name in set(runs.name) and against(entry) != entry.name]
    for entry in judged:
        if entry.name in final and against(entry) in final:
            pairs[entry.name] = final[entry.name] - final[against(entry)]
    corrected = holm([p_value(pair) for pair in pairs.values()], sum(entry.tried for entry in judged))
    return {name: (pair, p, said(pair, p)) for (name, pair), p in zip(pairs.items(), corrected, strict=True)}


def p_value(pair):
    """Of the paired t test. Two entries with equal losses are not different."""
    return float(stats.ttest_1samp(pair, 0).pvalue) if pair.any() else 1.0


def said(pair, p):
    if p >= 0.05:
        return "not distinguishable"
    return "better" if pair.mean() < 0 else "worse"


def difference_of(found, name):
    if name not in found:
        return ["", "", ""]
    pair, p, verdict = found[name]
    return [signed(pair), f"{p:.2g}", verdict]
