#!/usr/bin/env python3
"""Fills in paper.md from the stored runs. Writes build/paper/: paper.md, paper.bib, two figures and paper.pdf.

paper.md names a number by its place, in one of these forms:

    {{study; fields at the start of a row; column}}    a field of the study's tables in dev/studies/README.md
    {{study/label; --option}}                          an option of a comparison, from LABEL.json
    {{study/label; column}}                            the one value that a column of LABEL-runs.csv has
    {{study/label; seeds}}                             how many seeds count in LABEL-runs.csv
    {{--option}}                                       how many values `train_gpt train --help-all` lists
    {{name}}                                           a row of FACTS below
"""

import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "studies")]
import pandas  # noqa: E402
from common import BINARY, COLOR, ROOT, capped, interval, load_study, mean_by, plt, stored  # noqa: E402
from common import HERE as STUDIES  # noqa: E402
from read import Complaint  # noqa: E402

OUT = ROOT / "build" / "paper"
ENTRIES = ROOT / "dev" / "track" / "entries"
NAMES = {"post": "Post-LN", "pre": "Pre-LN"}
PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)

# ---- numbers -------------------------------------------------------------------------------------


def fill(text):
    """The text with the number of each place, as a reader writes it: − before negative ones."""
    numbers = {place: number(place) for place in PLACE.findall(text)}
    shown = {place: re.sub(r"(?<![\w.])-(?=\d)", "−", value).replace("*", r"\*").replace(" ± ", "\u00a0±\u00a0")
             for place, value in numbers.items()}
    return PLACE.sub(lambda match: shown[match[1]], text)


def number(place):
    words = [" ".join(word.split()) for word in place.split(";")]
    try:
        if len(words) == 1:
            return str(choices(words[0]) if words[0].startswith("--") else FACTS[words[0]]())
        return of_comparison(*words) if "/" in words[0] else of_table(*words)
    except (KeyError, ValueError, OSError, StopIteration) as error:
        raise Complaint(f"paper.md: {{{{{'; '.join(words)}}}}} is not there: {error}") from error


@functools.cache
def tables_of(study):
    """The tables that a study publishes, as rows of fields."""
    return [[[field.strip() for field in line.strip("|").split("|")] for line in part.splitlines()]
            for part in re.findall(r"(?:^\|.*\n)+", load_study(study).published(), re.MULTILINE)]


def of_table(study, *words):
    """The field of a study's tables in a row that begins with these fields."""
    *keys, column = words
    found = [row[head.index(column)] for head, _, *rows in tables_of(study) if column in head
             for row in rows if row[:len(keys)] == keys]
    if len(found) != 1 or not found[0]:
        raise ValueError(f"{len(found)} fields found")
    return found[0]


def of_comparison(label, name):
    """An option of a comparison, or what its final runs have in common."""
    if name.startswith("--"):
        words = shlex.split(json.loads((STUDIES / f"{label}.json").read_text())["options"])
        return words[words.index(name) + 1]
    runs = pandas.read_csv(STUDIES / f"{label}-runs.csv").query("stage == 'final'")
    if name == "seeds":
        return str(runs.seed.nunique())
    value, = runs[name].dropna().unique()
    return f"{value:.3g}"


def choices(option):
    """How many values the program lists for an option."""
    if not BINARY.exists():
        raise OSError("build/train_gpt is missing: run `make` first")
    text = subprocess.run([BINARY, "train", "--help-all"], capture_output=True, text=True, check=True).stdout
    values = re.search(rf"^  {option} NAME [^:]*:([^(]*)\(default", text, re.MULTILINE)
    if not values:
        raise ValueError("no such option with names")
    return len(values[1].split(","))


def all_runs():
    return pandas.concat([pandas.read_csv(path, dtype={"version": str}).assign(file=str(path))
                          for path in sorted(STUDIES.glob("*/*-runs.csv"))])


UNTOLD = {("tokenizer", "byte")}  # a default


def options_of(command):
    """What a command says to train, whatever the order of its options."""
    found = {}
    for word in shlex.split(command)[2:]:
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            found[name] = [value] if given else []
        else:
            found[name].append(word)
    return frozenset((name, " ".join(values)) for name, values in found.items()) - UNTOLD


def repeated():
    """The runs of each training that several comparisons have."""
    runs = all_runs().dropna(subset=["command", "final_val"])
    return [some for _, some in runs.groupby(runs.command.map(options_of)) if some.file.nunique() > 1]


def makers(runs):
    """The makers of the processors that the runs' comparisons name."""
    machines = (json.loads(Path(file.replace("-runs.csv", ".json")).read_text())["machine"] for file in set(runs.file))
    return {maker for machine in machines for maker in ("AMD", "Intel") if maker in machine[-1]}


def worst_gradient():
    """The worst error of a gradient of a whole model, which `make test` prints."""
    return re.search(r"^\| whole model, every gradient.*\| ([^|]*) \| [^|]* \|$",
                     (ROOT / "test/README.md").read_text(encoding="utf-8"), re.MULTILINE)[1]


def largest(option):
    """The largest number that a comparison gives an option, on its own or in its grid."""
    options = [json.loads(path.read_text())["options"] for path in STUDIES.glob("*/*.json")]
    values = re.findall(rf"(?:--{option} |\b{option}=)([\d,]+)", "\n".join(options))
    return max(int(value) for text in values for value in text.strip(",").split(","))


def taken_back():
    """How many sentences dev/studies/README.md takes back."""
    text = (STUDIES / "README.md").read_text(encoding="utf-8").split("\n## What was taken back\n")[1]
    return len(re.findall(r"^\| ", text, re.MULTILINE)) - 1


FACTS = {
    "runs": lambda: f"{len(all_runs()):,}",
    "comparisons": lambda: len(list(STUDIES.glob("*/*-runs.csv"))),
    "studies": lambda: len({path.parent for path in STUDIES.glob("*/*-runs.csv")}),
    "most layers": lambda: largest("layers"),
    "most channels": lambda: largest("channels"),
    "commands repeated": lambda: len(repeated()),
    "commands repeated, same loss": lambda: sum(runs.final_val.nunique() == 1 for runs in repeated()),
    "commands repeated, two makers": lambda: sum(len(makers(runs)) > 1 for runs in repeated()),
    "compilers": lambda: ", ".join(all_runs().compiler.dropna().unique()),
    "entries": lambda: len(list(ENTRIES.glob("*.toml"))),
    "entries trained": lambda: len(list(ENTRIES.glob("*.csv"))),
    "worst gradient": worst_gradient,
    "taken back": taken_back,
}

# ---- figures -------------------------------------------------------------------------------------


def draw_warmup():
    """The loss at the best rate against the warm-up: the mean of the seeds with its interval."""
    study = load_study("warmup")
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3), sharey=True)
    for axis, (name, (title, _)) in zip(axes, study.SETTINGS.items()):
        runs = stored(study.__file__, f"{name}-runs")
        for placement, shift, marker in ("post", -0.05, "s"), ("pre", 0.05, "o"):
            cells = runs[runs.placement == placement].groupby("warmup")
            means, halves = zip(*(interval(at_best_rate(cell)) for _, cell in cells))
            axis.errorbar([at + shift for at in range(len(means))], means, yerr=halves, fmt=f"{marker}-", capsize=3,
                          color=COLOR[placement], label=NAMES[placement])
        axis.set(title=title, xlabel="warm-up, steps", xticks=range(len(cells)), xticklabels=list(cells.groups))
    axes[0].set_ylabel("validation loss, nats per byte")
    axes[0].legend()
    return figure


def at_best_rate(cell):
    """Final losses at the rate with the lowest mean."""
    return capped(cell[cell.peak_lr == mean_by(cell, "peak_lr").idxmin()])


def draw_seeds():
    """The smallest difference that a paired t test finds four times in five."""
    study = load_study("seeds")
    rows, seeds = study.deviations(), range(3, 31)
    figure, axis = plt.subplots(figsize=(5.5, 3))
    for quantile, line, label in (0.5, "-", "median comparison"), (0.25, "--", "quietest quarter"):
        deviation = study.typical(rows, "paired", quantile)
        axis.plot(seeds, [study.found(deviation, n, True) for n in seeds], line, color="C0", label=label)
    axis.set(xscale="log", yscale="log", xlabel="seeds", ylabel="difference found, nats")
    axis.set_xticks(ticks := [3, 5, 10, 20, 30], ticks)
    axis.set_yticks(ticks := [0.01, 0.02, 0.05, 0.1, 0.2], ticks)
    axis.minorticks_off()
    axis.legend()
    return figure


FIGURES = {"warmup.png": draw_warmup, "seeds.png": draw_seeds}

# ---- files ---------------------------------------------------------------------------------------


def write_pdf(folder):
    try:
        import pypandoc
        import typst
    except ImportError as error:
        raise Complaint("paper.pdf is missing, the rest is complete: .venv/bin/pip install -r "
                        "dev/paper/requirements.txt") from error
    authors = re.findall(r"^  - name: (.*)$", (folder / "paper.md").read_text(encoding="utf-8"), re.MULTILINE)
    variables = {"papersize": "a4", "fontsize": "10pt",
                 "header-includes": "#show table: set par(justify: false)\n#show figure: set block(breakable: true)"}
    arguments = [f"--variable={key}={value}" for key, value in variables.items()]
    arguments += [f"--metadata=author={author}" for author in authors]
    pypandoc.convert_file("paper.md", "typst", outputfile="paper.typ", cworkdir=folder,
                          extra_args=["--standalone", "--citeproc", *arguments])
    typst.compile(folder / "paper.typ", output=folder / "paper.pdf")


def main():
    text = fill((HERE / "paper.md").read_text(encoding="utf-8"))
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "paper.md").write_text(text, encoding="utf-8")
    shutil.copy(HERE / "paper.bib", OUT)
    for name, draw in FIGURES.items():
        draw().savefig(OUT / name, dpi=200)
    write_pdf(OUT)
    print(*sorted(OUT.iterdir()), sep="\n")


if __name__ == "__main__":
    try:
        main()
    except Complaint as complaint:
        sys.exit(f"paper: {complaint}")
