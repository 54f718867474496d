#!/usr/bin/env python3
"""Residual paths of 2019 to 2026 against Pre-LN, with as many FLOPs: what remains of their claims in small models?

A Llama of 6 layers x 64 channels, with AdamW and with Muon, on generated stories and on a dictionary of English. Each
path tunes its rate and its warm-up together on a separate seed, then trains on five others, for as many steps as take
the FLOPs of Pre-LN's. A part is one text with one optimizer. --keep trains only parts that are not stored yet, --only
those that it names, --stored none. --dry-run prints the steps of each path.
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas  # noqa: E402
from common import BINARY, Study, interval, outcome, part_options, plt, stats, table, tuned_to  # noqa: E402
from words import holm  # noqa: E402

HERE = Path(__file__).parent
OPTIMIZERS = {"adamw": ("AdamW", "1e-3,3e-3,9e-3"), "muon": ("Muon", "3e-3,9e-3,2.7e-2")}
TEXTS = {"stories": "stories", "english": "English"}
MODEL = "--preset llama --layers 6 --channels 64 --heads 4 --context 64 --batch 4"
STEPS = 800  # of Pre-LN
TUNE_RUNS, SEEDS = 10, 5
BASELINE = "pre"
PATHS = {
    "pre": "placement=pre",
    "post": "placement=post",
    "sandwich": "placement=sandwich",
    "Admin": "placement=admin",
    "FixNorm": "placement=pre fix-norm=true",
    "ResiDual": "placement=resi-dual",
    "SiameseNorm": "placement=siamese",
    "GPAS": "placement=gpas",
    "ProRes": "placement=pre branch-warmup=prores branch-warmup-steps=20",
    "BranchNorm": "placement=post branch-warmup=branchnorm branch-warmup-steps=120",
    "GatedNorm": "placement=pre norm=gatednorm",
    "hyper": "placement=hyper",
    "mHC": "placement=mhc",
    "mHC of DeepSeek V4": "placement=mhc-read",
    "mHC of GLM-5": "placement=mhc-mean",
    "streams of HY V4": "placement=hyper-independent",
    "gated residual": "placement=gated-residual gated-residual-rank=4",
    "AttnRes": "placement=attnres",
    "AttnRes, normed": "placement=attnres-normed",
    "nGPT": "placement=ngpt qk-norm=unit up-gain=true logit-gain=true normed-weights=true",
}


def parts():
    """(text, optimizer) in the order of training."""
    return [(text, optimizer) for text in TEXTS for optimizer in OPTIMIZERS]


def label_of(part):
    return "-".join(part)


def options_of_path(keys):
    """A cell of --grid as options of the command line."""
    words = [word.split("=") for word in keys.split()]
    return [part for key, value in words for part in ([f"--{key}"] if value == "true" else [f"--{key}", value])]


def flops_of_step(keys):
    """FLOPs of a training step, as `info --cost` counts them."""
    command = [str(BINARY), "info", *MODEL.split(), *options_of_path(keys), "--cost"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"A step takes ([\d,]+) flops", text)[1].replace(",", ""))


def steps_of_paths():
    """Steps of each path that take the FLOPs of Pre-LN's."""
    flops = {name: flops_of_step(keys) for name, keys in PATHS.items()}
    return {name: round(STEPS * flops[BASELINE] / flops[name]) for name in PATHS}


def options_of(part):
    _, optimizer = part
    seeds = f"seed={','.join(str(seed + 1) for seed in range(SEEDS))}"
    cells = " + ".join(f"{PATHS[name]} steps={steps} {seeds}" for name, steps in steps_of_paths().items())
    return f"""{MODEL} --optimizer {optimizer} --eval-every 200 --eval-batches 20 --val-fraction 0.02 --save-every 0
        --grid {cells} --tune lr={OPTIMIZERS[optimizer][1]} warmup=5%,20% --tune-runs {TUNE_RUNS}"""


def tables_of(part):
    """(summary, final runs) of a part that is stored next to the script, with the names of the paths."""
    summary, runs = (pandas.read_csv(HERE / f"{label_of(part)}-{name}.csv") for name in ("summary", "runs"))
    names = dict(zip(summary.cell, PATHS, strict=True))
    return summary.assign(path=list(PATHS)), runs[runs.stage == "final"].assign(path=runs.cell.map(names))


def stored_parts():
    return [part for part in parts() if (HERE / f"{label_of(part)}-runs.csv").exists()]


# ---- tables ----------------------------------------------------------------------------------------------


def losses(runs):
    """Final losses: a row per seed, a column per path whose runs all finished."""
    good = runs.groupby("path").state.apply(lambda states: (states == "finished").all())
    wide = runs.pivot(index="seed", columns="path", values="final_val")
    return wide[[path for path in PATHS if good[path]]]


def differences(part):
    """{path: differences to the losses of Pre-LN, seed by seed}."""
    final = losses(tables_of(part)[1])
    return {path: final[path] - final[BASELINE] for path in final if path != BASELINE and BASELINE in final}


def signed(values):
    mean, half = interval(values)
    return f"{mean:+.3f} ± {half:.3f}"


def part_table(part):
    summary, runs = tables_of(part)
    found = differences(part)
    p = dict(zip(found, holm([stats.ttest_1samp(values, 0).pvalue for values in found.values()],
                             len(PATHS) - 1), strict=True))
    rows = []
    for cell in summary.itertuples():
        row = [cell.path, f"{cell.steps}", ", ".join(tuned_to(cell)), outcome(runs[runs.path == cell.path])]
        rows.append([*row, *((signed(found[cell.path]), f"{p[cell.path]:.2g}") if cell.path in found else ("", ""))])
    return table(rows, [name_of(part), "steps", "rate, warm-up", "final loss", "minus pre", "p (Holm)"])


def name_of(part):
    text, optimizer = part
    return f"{TEXTS[text]} with {OPTIMIZERS[optimizer][0]}"


def published():
    """The picture and the tables in README.md, from the parts that are stored."""
    done = stored_parts()
    missing = [name_of(part) for part in parts() if part not in done]
    lines = [f"Not trained yet: {', '.join(missing)}.\n"] if missing else []
    shown = ["![Differences to Pre-LN on two texts with two optimizers](paths/picture.png)\n"] if done else []
    return "\n".join([*lines, *shown, *map(part_table, done)])


def picture():
    """Differences to Pre-LN on each text, with both optimizers."""
    figure, axes = plt.subplots(1, len(TEXTS), figsize=(11, 5), sharey=True)
    names = [path for path in PATHS if path != BASELINE]
    for axis, (text, title) in zip(axes, TEXTS.items()):
        for optimizer, shift, face, color in ("adamw", -0.15, "white", "C0"), ("muon", 0.15, None, "C1"):
            if (text, optimizer) not in stored_parts():
                continue
            for path, values in differences((text, optimizer)).items():
                mean, half = interval(values)
                axis.errorbar(mean, names.index(path) + shift, xerr=half, fmt="o", color=color, mfc=face, capsize=2)
            axis.plot([], [], "o", color=color, mfc=face, label=OPTIMIZERS[optimizer][0])
        axis.axvline(0, color="0.5", linewidth=1)
        axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), title=title,
                 xlabel="difference to the final loss of Pre-LN")
        axis.legend(fontsize=8)
    return figure


def plan():
    """Steps and FLOPs of each path, and the number of runs of a part."""
    steps = steps_of_paths()
    rows = [[name, taken, f"{flops_of_step(PATHS[name]) * taken / 1e9:.1f}"] for name, taken in steps.items()]
    runs = len(PATHS) * (TUNE_RUNS + SEEDS)
    return table(rows, ["path", "steps", "GFLOPs of a run"]) + f"\nUp to {runs} runs in each of {len(parts())} parts.\n"


def publish(study):
    study.publish(picture() if stored_parts() else None, published())


def main():
    def add_options(parser):
        part_options([label_of(part) for part in parts()])(parser)
        parser.add_argument("--dry-run", action="store_true", help="print the steps of each path, and train nothing")

    study = Study(__doc__, add_options)
    if study.args.dry_run:
        print(plan())
        return
    chosen = [] if study.args.stored else [part for part in parts() if label_of(part) in study.args.only]
    for part in parts():
        if part not in chosen:
            study.has_stored(label_of(part), options_of(part))  # counts its time
    for part in chosen:
        text = study.text if part[0] == "stories" else study.english()
        study.compare(label_of(part), options_of(part), text=text)
        publish(study)
    publish(study)


if __name__ == "__main__":
    main()
