"""Shared code of the studies: runs train_gpt, reads its tables, draws pictures in one style, fills in README.md.

A study is a script that contains

    study = Study(__doc__)                       parses --long, --out, --jobs and --data
    tables = study.compare("rates", "--grid placement=post,pre lr=1e-3,3e-3 seed=1,2,3 --layers 6 ...")
    study.publish(figure, markdown)              writes picture.png next to the script, and the table into README.md

Running a study again resumes it: runs that have ended are not repeated. runs.csv and summary.csv of each comparison are
stored next to the script, with what they ran on, so that every number can be computed again. A script whose published()
makes the tables from these files alone has them recomputed by test_studies.py.
"""

import argparse
import hashlib
import importlib.util
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
import texts  # noqa: E402
from style import COLORS, PLACEMENTS  # noqa: E402

ROOT = HERE.parent.parent
BINARY = ROOT / "build" / "train_gpt"
STORIES = ROOT / "build" / "stories.txt"
VALIDATED = {"english": 0.005, "german": 0.01, "tinyshakespeare": 0.05}  # shares of texts: 56 to 160 kB
TRANSLATIONS = ROOT / "build" / "translations.tsv"

COLOR = {placement: COLORS[number][0] for placement, number in PLACEMENTS.items()}  # the same as in reports
LINES, MARKERS = ("-", "--", "-.", ":"), "osD^vpX"

plt.rcParams.update({
    "figure.dpi": 150, "figure.constrained_layout.use": True, "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True, "legend.frameon": False,
    "lines.linewidth": 1.6, "lines.markersize": 5,
})


def look_of(placement):
    """Color, line and marker of a placement, which differ from those of the others without the color, too."""
    number = PLACEMENTS[placement]
    return {"color": COLOR[placement], "linestyle": LINES[number % len(LINES)],
            "marker": MARKERS[number % len(MARKERS)]}


class Tables:
    """The CSV files of a comparison as data frames; see data/compare/README.md."""

    def __init__(self, folder, before="", names=("summary", "runs", "curves")):
        self.folder = folder
        for name in names:
            setattr(self, name, pandas.read_csv(folder / f"{before}{name}.csv", dtype={"version": str}))


def stored(script, name):
    """A CSV file next to a study's script."""
    return pandas.read_csv(Path(script).parent / f"{name}.csv")


def load_study(name):
    """The module of a study. Its published() makes the tables of README.md from the stored files."""
    spec = importlib.util.spec_from_file_location(name, HERE / name / "study.py")
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    return study


def part_options(labels):
    """Options of a study whose parts train one after the other, for Study(add_options=...)."""
    def add(parser):
        parser.add_argument("--stored", action="store_true", help="train nothing; publish the parts that are stored")
        parser.add_argument("--only", nargs="+", metavar="PART", choices=labels, default=labels,
                            help=f"train these parts alone: {', '.join(labels)}")
    return add


def note_of(folder, label, options):
    """What is noted of a comparison with these options whose tables are stored in the folder. {} if there is none."""
    note = folder / f"{label}.json"
    stored = json.loads(note.read_text()) if note.exists() else {}
    return stored if stored.get("options") == " ".join(shlex.split(options)) and stored["done"] else {}


class Study:
    def __init__(self, doc, add_options=None):
        """`add_options` is called with the parser, to add options of this study alone."""
        script = Path(sys.argv[0]).resolve()
        self.name = script.parent.name
        self.folder = script.parent
        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--long", action="store_true", help="the longer setting")
        parser.add_argument("--keep", action="store_true",
                            help="leave out comparisons whose tables are stored next to the script")
        parser.add_argument("--out", type=Path, help="directory of the runs (default: build/studies/NAME)")
        parser.add_argument("--jobs", type=int, default=2, help="runs at a time, unless times are measured")
        parser.add_argument("--data", type=Path, default=STORIES, help="training text (default: generated stories)")
        if add_options:
            add_options(parser)
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
        self.text = ["--data", str(self.args.data), "--documents", "file"]  # one stream of stories
        self.seconds = self.processor = 0

    def translations(self):
        """Words that train on 40,000 sentences and their translations, with a tokenizer of 1024 tokens made of them."""
        tokenizer = TRANSLATIONS.with_suffix(".json")
        if not TRANSLATIONS.exists():
            self.run("corpus", "--pairs-of", "translation", "--count", "40000", "--out", str(TRANSLATIONS))
        if not tokenizer.exists():
            self.run("tokenizer", str(TRANSLATIONS), "--vocab", "1024", "--out", str(tokenizer))
        return ["--data", str(TRANSLATIONS), "--objective", "pairs", "--tokenizer", str(tokenizer)]

    def text_named(self, name):
        """Words that train on "stories", on "english" or "german" of texts.py, which are downloaded if they are
        missing, or on "tinyshakespeare", which is not."""
        if name == "stories":
            return [*self.text, "--val-fraction", "0.02"]
        path = texts.SHAKESPEARE.with_name(f"{name}.txt")
        if path == texts.SHAKESPEARE:
            if not path.exists():
                sys.exit(f"{self.name}: {path} is missing: put data/tinyshakespeare/input.txt of "
                         "github.com/karpathy/char-rnn there")
            if hashlib.sha256(path.read_bytes()).hexdigest() != texts.SHAKESPEARE_SHA256:
                sys.exit(f"{self.name}: {path} is another text")
        elif not path.exists() and subprocess.run([sys.executable, str(HERE / "texts.py"), name]).returncode:
            sys.exit(f"{self.name}: texts.py could not write {path}")
        return ["--data", str(path), "--documents", "file", "--val-fraction", str(VALIDATED[name])]

    def run(self, *words):
        run_program(self.name, *words)

    def timed(self, place, words, run, resumes=False):
        """Calls run() unless it succeeded with these options before. Returns the note of it, with the seconds of all
        attempts and what the first one ran on. If run() `resumes`, it is called with changed options, too, and has to
        refuse those that its earlier runs do not fit."""
        options = " ".join(words if self.own_text else ["--data", str(self.args.data.resolve()), *words])
        notes = place.parent / f"{place.name}.json"
        note = {"options": options, "seconds": 0, "processor": 0, "done": False, "machine": machine()}
        if notes.exists():
            note = json.loads(notes.read_text())
        if note["options"] != options and not resumes:
            sys.exit(f"{self.name}: {place} was made with other options: remove it, or choose another --out")
        if note["options"] != options or not note["done"]:
            note["done"] = False
            print(f"== {self.name}: {place.name}", flush=True)
            began, worked = time.monotonic(), processor_seconds()
            try:
                run()
                note.update(options=options, done=True)
            finally:
                note["seconds"] += round(time.monotonic() - began)
                note["processor"] += round(processor_seconds() - worked)
                notes.write_text(json.dumps(note) + "\n")
        self.seconds += note["seconds"]
        self.processor += note["processor"]
        return note

    def compare(self, label, options, jobs=None, text=None):
        """The tables of a comparison with these options. Pass jobs=1 if times matter. `text` are words that name
        another text than the study's."""
        if self.args.keep and (kept := self.kept(label, options)):
            return kept
        tables, note = self.tables_of(label, options, jobs, text)
        self.store(label, [tables], note)
        return tables

    def kept(self, label, options):
        """The tables of a comparison with these options that are stored next to the script. None if there are none."""
        return Tables(self.folder, f"{label}-", ("summary", "runs")) if self.has_stored(label, options) else None

    def has_stored(self, label, options):
        """True if the tables of a comparison with these options are stored next to the script. Counts their time."""
        stored = note_of(self.folder, label, options)
        if stored:
            self.seconds += stored["seconds"]
            self.processor += stored["processor"]
        return bool(stored)

    def parts_to_train(self, comparisons):
        """The parts that --only names, of {part: {label: options}}; none with --stored. Counts the time of the others
        that are stored."""
        for part, labels in comparisons.items():
            if part in self.args.only and not self.args.stored:
                yield part
            else:
                for label, options in labels.items():
                    self.has_stored(label, options)

    def compare_on(self, bases, label, options, text=None):
        """Runs and curves of a comparison on top of each trained model of `bases`, {seed: directory}. One file next to
        the script has the runs of all."""
        found = [self.tables_of(f"{label}-{seed}", f"--init-from {base} {options} seed={seed}", text=text)
                 for seed, base in bases.items()]
        each, notes = zip(*found, strict=True)
        total = {key: sum(note[key] for note in notes) for key in ("seconds", "processor")}
        self.store(label, each, {**notes[0], **total}, ["runs"])
        return [pandas.concat([getattr(tables, kind) for tables in each], ignore_index=True)
                for kind in ("runs", "curves")]

    def trained(self, label, options, text=None):
        """The directory of a model trained with these options."""
        place, words = self.out / label, shlex.split(options)
        run = ["train", *(text or self.text), *words, "--quiet", "--force", "--out", str(place)]
        self.timed(place, words, lambda: self.run(*run))
        return place

    def tables_of(self, label, options, jobs=None, text=None):
        folder, words = self.out / label, shlex.split(options)

        def run():
            resume = ["--resume"] if (folder / "comparison.toml").exists() else []
            at_once = ["--jobs", str(jobs or self.args.jobs)]
            self.run("compare", *(text or self.text), *words, *at_once, "--out", str(folder), *resume)

        note = self.timed(folder, words, run, resumes=True)
        return Tables(folder), note

    def init_report(self, label, options, text=None):
        """The table of init-report with these options. It is large: a study stores the rows that it needs. The note of
        what it ran on is stored next to the script."""
        path, words = self.out / f"{label}.csv", shlex.split(options)
        command = ["init-report", *(text or self.text), *words, "--force", "--out", str(path)]
        self.store_note(label, self.timed(path, words, lambda: self.run(*command)))
        return pandas.read_csv(path)

    def store(self, label, parts, note, names=("summary", "runs")):
        """Writes the small tables of a comparison, in one or more parts, next to the script, with the note of what it
        ran on and how many runs each version of the program made. Their paths begin at the project's folder."""
        for name in names:
            texts = [self.csv_of(tables, name, skip=tables is not parts[0]) for tables in parts]
            (self.folder / f"{label}-{name}.csv").write_text("".join(texts), encoding="utf-8")
        versions = pandas.concat([tables.runs.version for tables in parts])
        self.store_note(label, {**note, "runs": versions.value_counts().to_dict()})

    @staticmethod
    def csv_of(tables, name, skip):
        """The text of a table, without its head if `skip`."""
        text = (tables.folder / f"{name}.csv").read_text(encoding="utf-8").replace(f"{ROOT}/", "")
        return text.split("\n", 1)[1] if skip else text

    def store_note(self, label, note):
        text = json.dumps(note, indent=1).replace(f"{ROOT}/", "")
        (self.folder / f"{label}.json").write_text(text + "\n")

    def publish(self, figure, markdown):
        """Writes the picture, if there is one, next to the script, and the table between its marks in README.md."""
        if figure:
            figure.savefig(self.folder / "picture.png")
        took = f"\nTook {span(self.seconds)}, {span(self.processor)} of processor time.\n" if self.seconds else ""
        replace_between(HERE / "README.md", self.name, f"{markdown.strip()}\n{took}")
        print(*([self.folder / "picture.png"] if figure else []), markdown, sep="\n")


def run_program(name, *words):
    """Runs train_gpt. Exits if that fails or is interrupted; the runs are saved by then."""
    process = subprocess.Popen([str(BINARY), *words], stdin=subprocess.DEVNULL)
    try:
        failed = process.wait()
    except KeyboardInterrupt:
        failed = process.wait()
    if failed:
        sys.exit(f"{name}: stopped. The same command continues.")


def machine():
    """What the runs of a study are from: the program's commit, compiler and vectors, and the processor."""
    words = subprocess.run([str(BINARY), "--version"], capture_output=True, text=True, check=True).stdout.split("\n")
    models = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else []
    return [line for line in words if line] + models[:1]


def processor_seconds():
    """CPU time of all programs that have ended. Unlike elapsed time, it does not grow on a shared machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def span(seconds):
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def rate_axis(axis, rates, **more):
    """A log axis of learning rates, with a tick for each rate tried."""
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
    """Mean and half-width of the 95 % t interval."""
    values = list(values)
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, float("nan")
    return mean, stats.t.ppf(0.975, n - 1) * (sum((v - mean) ** 2 for v in values) / (n - 1)) ** 0.5 / n**0.5


def shown(values, digits=3):
    mean, half = interval(values)
    mean = round(mean, digits) + 0.0  # never -0.00
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if half == half else f"{mean:.{digits}f}"


def signed(values, digits=3):
    """Mean difference and half-width of its 95 % t interval, with a sign."""
    mean, half = interval(values)
    return f"{round(mean, digits) + 0.0:+.{digits}f} ± {half:.{digits}f}"


def not_trained(names):
    """What README.md says of the parts that are missing: a list of at most one paragraph."""
    return [f"Not trained yet: {'; '.join(names)}.\n"] if names else []


def table(rows, columns):
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def capped(runs):
    """Final losses for a picture, or to find the lowest: the initial loss for a run that diverged or failed."""
    return runs.final_val.where(runs.state.isin(["finished", "stuck"]), runs.initial_loss)


def tuned_to(cell):
    """[learning rate, warm-up] of a row of the summary, with an asterisk if a neighbor was not tried."""
    untried = cell.at_edge if isinstance(cell.at_edge, str) else ""
    return [value + ("*" if f"{key}=" in untried else "")
            for key, value in (("peak_lr", f"{cell.peak_lr:g}"), ("warmup", str(cell.warmup)))]


def mean_by(runs, key):
    """The mean final loss of each value of `key`, in ascending order."""
    return capped(runs).groupby(runs[key]).mean()


def draw_rates(axis, runs, style, label, color, **look):
    """Mean final loss against learning rate as a line, and each run as a point that shows its outcome."""
    mean = mean_by(runs, "peak_lr")
    axis.plot(mean.index, mean, style, color=color, label=label)
    for state, marker in ("finished", "o"), ("stuck", "s"), ("diverged", "x"):
        some = runs[runs.state == state]
        axis.plot(some.peak_lr, capped(some), marker, color=color, **look)


def draw_means(axis, groups, shift=1, **look):
    """The mean of each group and its 95 % t interval against the group's key, moved aside by the factor `shift`."""
    keys, means, halves = zip(*((key * shift, *interval(values)) for key, values in groups))
    axis.errorbar(keys, means, yerr=halves, capsize=2, elinewidth=1, **look)


def draw_band(axis, groups, style="-", first=0, **look):
    """The mean of each group against its key plus `first`, in a band from minimum to maximum."""
    mean = groups.mean()
    axis.plot(mean.index + first, mean, style, **look)
    axis.fill_between(mean.index + first, groups.min(), groups.max(), color=look["color"], alpha=0.2, linewidth=0)


def draw_warmups(axes, runs, placements=("post", "pre")):
    """Final loss against learning rate on an axis for each placement, with a line for each warm-up."""
    warmups = sorted(runs.warmup.unique())
    for axis, placement in zip(axes, placements):
        for warmup, style in zip(warmups, (":", "--", "-.", "-")):
            cell = runs[(runs.placement == placement) & (runs.warmup == warmup)]
            label = f"{warmup} steps" if warmup else "none"
            draw_rates(axis, cell, style, label, color=COLOR[placement], fillstyle="full" if warmup else "none")
        unigram_line(axis, runs)
        rate_axis(axis, runs.peak_lr.unique())
        axis.legend(title="warm-up", fontsize=8)


def unigram_line(axis, runs, name_at=None):
    """The loss of a model that knows only token frequencies. The label stands `name_at` points above the line."""
    level = runs.unigram.iloc[0]
    axis.axhline(level, color="0.5", linestyle=":", linewidth=1)
    if name_at is not None:
        axis.annotate("unigram entropy", (0.02, level), xycoords=("axes fraction", "data"), xytext=(0, name_at),
                      textcoords="offset points", color="0.4", fontsize=8)


def draw_by_time(by_step, by_second, curves, colors, top=None):
    """Validation loss by step and by second: the median over the seeds of each name, and thin lines for the seeds.

    `top` cuts the axis off. A label names each curve that rises above it.
    """
    said = 0
    for number, (name, color) in enumerate(colors.items()):
        some = curves[curves.name == name].dropna(subset="val_loss")
        at, line = some.groupby("step"), LINES[number % len(LINES)]
        median, high = at.val_loss.median(), at.val_loss.max()
        for axis, x in (by_step, median.index), (by_second, at.elapsed_s.mean()):
            axis.plot(x, median, line, color=color, label=name)
            for _, seed in some.groupby("seed"):
                axis.plot(x[:len(seed)], seed.val_loss, line, color=color, linewidth=0.5)
        if top and high.max() > top and high.idxmax() > high.index[0]:
            by_step.annotate(f"{name}: one seed up to {high.max():.0f}", (high.idxmax(), top),
                             xytext=(22, -2 - 11 * said), textcoords="offset points", va="top", color=color, fontsize=8)
            said += 1
    for axis, unit in (by_step, "step"), (by_second, "seconds"):
        axis.set(xlabel=unit, ylabel="validation loss", ylim=(0.9 * curves.val_loss.min(), top))
    by_step.legend(fontsize=8, loc="upper right")


def not_finished(runs):
    """The number of runs of a cell in each state but "finished": "2/3 stuck", or "" if all finished."""
    bad = runs[runs.state != "finished"].state.value_counts()
    return ", ".join(f"{n}/{len(runs)} {state}" for state, n in bad.items())


def outcome(runs):
    """Mean final loss of the runs of a cell, or the number of runs in each state unless all finished."""
    return not_finished(runs) or shown(runs.final_val)
