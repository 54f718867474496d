#!/usr/bin/env python3
"""Residual paths of 2019 to 2026 against Pre-LN, with as many FLOPs: what remains of their claims in small models?

A Llama of 6 layers x 64 channels, with AdamW and with Muon, on generated stories and on a dictionary of English. Each
path tunes its rate and its warm-up together on a separate seed, then trains on five others, for as many steps as take
the FLOPs of Pre-LN's. Paths that end close to Pre-LN train on five more. A part is one text with one optimizer. --keep
trains only what is not stored yet, --only the parts that it names, --stored none. --dry-run prints the steps of each
path.
"""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from cells import SEEDS, TUNE_RUNS, Cells  # noqa: E402
from common import BINARY, Study, part_options, table  # noqa: E402

MODEL = "--preset llama --layers 6 --channels 64 --heads 4 --context 64 --batch 4"
STEPS = 800  # of Pre-LN
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


GRID = Cells(Path(__file__).parent, PATHS, BASELINE, {"stories": "stories", "english": "English"})


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


def published():
    """The picture and the tables in README.md, from the parts that are stored."""
    return GRID.published("Differences to Pre-LN on two texts with two optimizers, of five seeds")


def plan():
    """Steps and FLOPs of each path, and the number of runs of a part."""
    steps = steps_of_paths()
    rows = [[name, taken, f"{flops_of_step(PATHS[name]) * taken / 1e9:.1f}"] for name, taken in steps.items()]
    total = f"\nUp to {len(PATHS) * (TUNE_RUNS + SEEDS)} runs in each of {len(GRID.parts())} parts.\n"
    return table(rows, ["path", "steps", "GFLOPs of a run"]) + total


def main():
    def add_options(parser):
        part_options(list(GRID.parts()))(parser)
        parser.add_argument("--dry-run", action="store_true", help="print the steps of each path, and train nothing")

    study = Study(__doc__, add_options)
    if study.args.dry_run:
        print(plan())
        return
    steps = {name: f"steps={taken}" for name, taken in steps_of_paths().items()}.get
    own = {part: {part: GRID.options(part, MODEL, steps)} for part in GRID.parts()}
    further = {part: {f"{part}-more": GRID.more_options(part, MODEL, steps)} for part in GRID.stored()}
    for part in study.parts_to_train({part: words | further.get(part, {}) for part, words in own.items()}):
        text = study.text_named(GRID.parts()[part][0])
        study.compare(part, own[part][part], text=text)
        if more := GRID.more_options(part, MODEL, steps):
            study.compare(f"{part}-more", more, text=text)
        study.publish(GRID.picture(), published())
    study.publish(GRID.picture(), published())


if __name__ == "__main__":
    main()
