"""Reads and checks entries, and asks the program what an entry costs."""

import datetime
import functools
import hashlib
import json
import re
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import rules
from common import BINARY
from read import Complaint

ENTRIES = Path(__file__).parent / "entries"
NEEDED = {"claim": str, "source": str, "date": datetime.date, "lr": float}
MORE = {"against": str, "tried": int, "options": dict}
KINDS = {str: "a text in quotes", datetime.date: "a date, such as 2026-01-31", float: "a number", int: "a whole number",
         dict: "a table"}
OPTION = re.compile(r"^  --(\[no-\])?([a-z0-9-]+)")
UPDATE = re.compile(r"^\w+ takes ([\d,]+) flops", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    name: str
    path: Path
    claim: str
    source: str
    date: datetime.date
    lr: float
    against: str = rules.BASELINE
    tried: int = 1
    options: dict = field(default_factory=dict)

    @property
    def results(self):
        return self.path.with_suffix(".csv")

    def digest(self, text):
        """Stands for everything that decides the bits of the entry's runs on a text, but for the program."""
        parts = [rules.BUDGET, rules.DEFAULTS, rules.FIXED, rules.RATE_STEP, rules.WARMUPS, rules.TUNE_RUNS,
                 text.sha256, text.options, self.lr, self.options]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Cost:
    """What an entry costs on a text."""
    parameters: int
    flops: float  # of a step

    @property
    def steps(self):
        return int(rules.BUDGET // self.flops)


def names_in(folder):
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_entry(name, folder=ENTRIES):
    path = folder / f"{name}.toml"
    if not path.exists():
        raise Complaint(f"there is no entry {name}: {path.name} is missing in {folder}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise Complaint(f"{path.name}: {error}") from None
    check_fields(path, data)
    if BINARY.exists():  # a list of the entries needs no program
        check_options(path, data.get("options", {}))
    entry = Entry(name, path, **{key: data[key] for key in data})
    if entry.against not in names_in(folder):
        raise Complaint(f"{path.name}: against = {entry.against!r} is not an entry")
    return entry


def check_fields(path, data):
    for key, kind in NEEDED.items():
        if key not in data:
            raise Complaint(f"{path.name}: the field {key} is missing")
        check_kind(path, key, data[key], kind)
    for key in data.keys() - NEEDED.keys():
        if key not in MORE:
            raise Complaint(f"{path.name}: there is no field {key}; options of train are below [options]")
        check_kind(path, key, data[key], MORE[key])
    if not 0 < data["lr"] < float("inf"):
        raise Complaint(f"{path.name}: lr = {data['lr']:g} is not positive")
    if data.get("tried", 1) < 1:
        raise Complaint(f"{path.name}: tried = {data['tried']} is less than 1")


def check_kind(path, key, value, kind):
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise Complaint(f"{path.name}: {key} = {value!r} is not {KINDS[kind]}")


def check_options(path, options):
    for key, value in options.items():
        if key in rules.TUNED:
            raise Complaint(f"{path.name}: the track tunes {key}, so no entry sets it: write where the search begins "
                            "into the field lr, above [options]")
        if key not in options_of_train():
            raise Complaint(f"{path.name}: train has no option {key}")
        if key in rules.LOCKED or options_of_train()[key] not in rules.OPEN:
            raise Complaint(f"{path.name}: the rules do not let an entry change {key}")
        if not isinstance(value, (bool, int, float, str)):
            raise Complaint(f"{path.name}: {key} = {value!r} is not one value")


@functools.cache
def options_of_train():
    """{option of train: the heading below which `train --help-all` lists it}."""
    heading, found = "", {}
    for line in asked("train", "--help-all").splitlines():
        if re.match(r"^[A-Z].*:$", line):
            heading = line[:-1]
        elif option := OPTION.match(line):
            found[option[2]] = heading
    return found


def asked(*words):
    """What train_gpt prints. Its last line becomes the error if it fails."""
    done = subprocess.run([str(BINARY), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Complaint(said[-1].removeprefix("train_gpt: ") if said else f"train_gpt {words[0]} failed")
    return done.stdout


def words_of(options):
    words = []
    for key, value in options.items():
        words += [f"--{key}" if value else f"--no-{key}"] if isinstance(value, bool) else [f"--{key}", f"{value}"]
    return words


def words_for(entry, text):
    """The words that name the text and the model, without steps and seed."""
    return ["--data", str(text.path), *words_of({**text.options, **rules.DEFAULTS, **entry.options, **rules.FIXED})]


@functools.cache
def probed(words):
    with tempfile.TemporaryDirectory() as folder:
        asked("train", *words, "--steps", "1", "--warmup", "0", "--quiet", "--force", "--out", folder)
        outcome = json.loads((Path(folder) / "outcome.json").read_text())
        updates = UPDATE.findall(asked("info", folder, "--cost"))
    return Cost(outcome["parameters"], outcome["flops"] + sum(float(flops.replace(",", "")) for flops in updates))


def cost_of(entry, text, folder=ENTRIES):
    """The cost of an entry. Complains if it is not within the rules."""
    try:
        cost = probed(tuple(words_for(entry, text)))
    except Complaint as error:
        raise Complaint(f"{entry.path.name}: {error}") from None
    if cost.steps < rules.FEWEST_STEPS:
        raise Complaint(f"{entry.path.name}: a step takes {cost.flops:.3g} FLOPs, so {rules.BUDGET:g} pay for "
                        f"{cost.steps} steps; the rules ask for {rules.FEWEST_STEPS}")
    if entry.name != rules.BASELINE:
        base = cost_of(read_entry(rules.BASELINE, folder), text).parameters
        if abs(cost.parameters / base - 1) > rules.PARAMETERS:
            raise Complaint(f"{entry.path.name}: {cost.parameters:,} parameters are {cost.parameters / base - 1:+.1%} "
                            f"from the baseline's {base:,}; the rules allow {rules.PARAMETERS:.0%}")
    return cost
