"""What the studies share: running train_gpt, reading its tables, one style for the pictures, the tables in README.md.

A study is a script that says

    study = Study(__doc__)                       --long, --out, --jobs and --data on its command line
    tables = study.compare("rates", "--grid placement=post,pre lr=1e-3,3e-3 seed=1,2,3 --layers 6 ...")
    study.publish(figure, markdown)              picture.png beside the script, the table into README.md

A comparison that was made before, or that was stopped, is gone on with: what is done is not done again.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import pandas
from scipy import stats

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "report"))
from style import COLORS, PLACEMENTS  # noqa: E402

ROOT = HERE.parent.parent
BINARY = ROOT / "build" / "train_gpt"
STORIES = ROOT / "build" / "stories.txt"

COLOR = {placement: COLORS[number][0] for placement, number in PLACEMENTS.items()}  # the same as in reports
DASH = {"layernorm": "-", "rmsnorm": "--"}

plt.rcParams.update({
    "figure.dpi": 150, "figure.constrained_layout.use": True, "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True, "legend.frameon": False,
    "lines.linewidth": 1.6, "lines.markersize": 5,
})


class Tables:
    """The CSV files of a comparison as data frames; see data/compare/README.md."""

    def __init__(self, folder):
        self.folder = folder
        self.summary, self.runs, self.curves = (pandas.read_csv(folder / f"{name}.csv") for name in ("summary", "runs", "curves"))

    @property
    def diagnostics(self):
        return pandas.read_csv(self.folder / "diagnostics.csv")


class Study:
    def __init__(self, doc):
        script = Path(sys.argv[0]).resolve()
        self.name = script.parent.name
        self.folder = script.parent
        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--long", action="store_true", help="the longer setting")
        parser.add_argument("--out", type=Path, help="where the runs go (default: build/studies/NAME)")
        parser.add_argument("--jobs", type=int, default=2, help="runs at a time, where no times are measured")
        parser.add_argument("--data", type=Path, default=STORIES, help="the text (default: stories the program writes itself)")
        self.args = parser.parse_args()
        self.long = self.args.long
        self.out = self.args.out or ROOT / "build" / "studies" / (self.name + ("-long" if self.long else ""))
        self.out.mkdir(parents=True, exist_ok=True)
        if not BINARY.exists():
            sys.exit("build/train_gpt is missing: run `make` first")
        self.own_text = self.args.data.resolve() == STORIES.resolve()
        if not self.args.data.exists():
            if not self.own_text:
                sys.exit(f"{self.name}: there is no {self.args.data}")
            self.run("corpus", "--bytes", "4M", "--seed", "1", "--out", str(self.args.data))
        self.seconds = self.processor = 0

    def run(self, *words):
        """Runs train_gpt; the study ends where that fails, and where a person stops it, once its runs are saved."""
        process = subprocess.Popen([str(BINARY), *words], stdin=subprocess.DEVNULL)
        try:
            failed = process.wait()
        except KeyboardInterrupt:
            failed = process.wait()
        if failed:
            sys.exit(f"{self.name}: stopped; the same command goes on where it was")

    def timed(self, place, words, run):
        """Runs run() unless this was done with the same options before; its seconds, all attempts together, are remembered."""
        options = " ".join(words if self.own_text else ["--data", str(self.args.data.resolve()), *words])
        notes = place.parent / f"{place.name}.json"
        note = json.loads(notes.read_text()) if notes.exists() else {"options": options, "seconds": 0, "processor": 0, "done": False}
        if note["options"] != options:
            sys.exit(f"{self.name}: {place} was made with other options: remove it, or choose another --out")
        if not note["done"]:
            print(f"== {self.name}: {place.name}", flush=True)
            began, worked = time.monotonic(), processor_seconds()
            try:
                run()
                note["done"] = True
            finally:
                note["seconds"] += round(time.monotonic() - began)
                note["processor"] += round(processor_seconds() - worked)
                notes.write_text(json.dumps(note) + "\n")
        self.seconds += note["seconds"]
        self.processor += note["processor"]

    def compare(self, label, options, jobs=None):
        """A comparison by its options; jobs=1 where times matter."""
        folder, words = self.out / label, shlex.split(options)

        def run():
            go_on = ["--resume"] if (folder / "comparison.toml").exists() else []
            self.run("compare", "--data", str(self.args.data), *words, "--jobs", str(jobs or self.args.jobs), "--out", str(folder), *go_on)

        self.timed(folder, words, run)
        return Tables(folder)

    def init_report(self, label, options):
        """init-report's tidy table."""
        path, words = self.out / f"{label}.csv", shlex.split(options)
        self.timed(path, words,
                   lambda: self.run("init-report", "--data", str(self.args.data), *words, "--force", "--out", str(path)))
        return pandas.read_csv(path)

    def publish(self, figure, markdown):
        """The picture beside the script, the table between its marks in README.md."""
        figure.savefig(self.folder / "picture.png")
        took = f"Took {span(self.seconds)}, {span(self.processor)} of processor time."
        replace_between(HERE / "README.md", self.name, f"{markdown.strip()}\n\n{took}\n")
        print(self.folder / "picture.png")
        print(markdown)


def processor_seconds():
    """Of all programs that were run and have ended; unlike the time that passes, it does not grow where the machine is shared."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def span(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def rate_axis(axis, rates, **more):
    """Learning rates on a log axis, with a tick for each that was tried."""
    rates = sorted({float(rate) for rate in rates})
    labels = [f"{rate:.0e}".replace("e-0", "e-") for rate in rates]
    axis.set(xscale="log", xlabel="learning rate", xticks=rates, xticklabels=labels, **more)
    axis.minorticks_off()


def replace_between(path, name, text):
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    old = path.read_text(encoding="utf-8")
    if begin not in old or end not in old:
        sys.exit(f"{path} has no place marked for {name}")
    head, rest = old.split(begin, 1)
    partial = path.with_suffix(".partial")
    partial.write_text(head + begin + text + end + rest.split(end, 1)[1], encoding="utf-8")
    os.replace(partial, path)


def interval(values):
    """Mean and half width of the 95 % t interval."""
    values = list(values)
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, float("nan")
    return mean, stats.t.ppf(0.975, n - 1) * (sum((v - mean) ** 2 for v in values) / (n - 1)) ** 0.5 / n**0.5


def shown(values, digits=3):
    mean, half = interval(values)
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if half == half else f"{mean:.{digits}f}"


def table(rows, columns):
    """A Markdown table of lists of texts."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def capped(runs):
    """Final losses for a picture: a run that diverged or failed stands at its initial loss."""
    return runs.final_val.where(runs.state.isin(["finished", "stuck"]), runs.initial_loss)


def mean_by(runs, key):
    """The mean of these over each value of `key`, in rising order."""
    return capped(runs).groupby(runs[key]).mean()


def draw_band(axis, groups, style="-", first=0, **look):
    """The mean of each group over its key, counted from `first`, in a band from the lowest to the highest."""
    mean = groups.mean()
    axis.plot(mean.index + first, mean, style, **look)
    axis.fill_between(mean.index + first, groups.min(), groups.max(), color=look["color"], alpha=0.2, linewidth=0)


def unigram_line(axis, runs, name_at=None):
    """The loss of a model that knows only how often each token occurs; its name so many points above the line, where that is said."""
    level = runs.unigram.iloc[0]
    axis.axhline(level, color="0.5", linestyle=":", linewidth=1)
    if name_at is not None:
        axis.annotate("unigram entropy", (0.02, level), xycoords=("axes fraction", "data"), xytext=(0, name_at), textcoords="offset points", color="0.4", fontsize=8)


def draw_by_time(by_step, by_second, curves, colors, top=None):
    """Validation losses by steps and by seconds: of each name the mean over its seeds, and from the lowest to the highest.

    What rises above `top` after it began is left out, and said.
    """
    said = 0
    for name, color in colors.items():
        at = curves[curves.name == name].dropna(subset="val_loss").groupby("step")
        mean, low, high = at.val_loss.mean(), at.val_loss.min(), at.val_loss.max()
        for axis, x in (by_step, mean.index), (by_second, at.elapsed_s.mean()):
            axis.plot(x, mean, color=color, label=name)
            axis.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
        if top and high.max() > top and high.idxmax() > high.index[0]:
            by_step.annotate(f"{name}: one seed up to {high.max():.0f}", (high.idxmax(), top), xytext=(22, -2 - 11 * said), textcoords="offset points", va="top",
                             color=color, fontsize=8)
            said += 1
    for axis, unit in (by_step, "step"), (by_second, "seconds"):
        axis.set(xlabel=unit, ylabel="validation loss", ylim=(0.9 * curves.val_loss.min(), top))
    by_step.legend(fontsize=8, loc="upper right")


def outcome(runs):
    """Of the runs of one cell: their mean loss, or how many got anywhere."""
    good = runs[runs.state == "finished"]
    if len(good) == len(runs):
        return shown(good.final_val)
    bad = runs[runs.state != "finished"].state.value_counts()
    return ", ".join(f"{n}/{len(runs)} {state}" for state, n in bad.items())
