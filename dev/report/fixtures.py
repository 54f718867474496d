#!/usr/bin/env python3
"""Synthetic comparisons with plausible curves, in the files that `train_gpt compare` writes. For tests and demos:

    python dev/report/fixtures.py DIRECTORY     writes DIRECTORY/full and DIRECTORY/plain
"""

import csv
import json
import math
import random
import sys
from itertools import product
from pathlib import Path
from statistics import mean, stdev

INITIAL, FLOOR, UNIGRAM, LAYERS = 5.54, 0.0894, 3.0569, 6
METRICS = ("step", "tokens", "elapsed_s", "train_loss", "val_loss", "val_bpb", "lr", "grad_norm", "clipped", "step_ms",
           "tokens_per_second")
RUN = ("initial_loss", "final_val", "best_val", "best_step", "final_train", "steps", "tokens", "seconds",
       "tokens_per_second", "loss_spikes", "grad_spikes", "clipped", "steps_to_target", "seconds_to_target",
       "parameters", "unigram", "floor", "directory", "command")
SUMMARY = ("at_edge", "n", "finished", "diverged", "stuck", "failed", "mean", "sd", "ci", "best", "difference",
           "difference_ci", "verdict", "p", "p_holm", "verdict_holm", "p_unequal", "target", "steps_to_target",
           "seconds_to_target", "seconds", "tokens_per_second", "loss_spikes", "grad_spikes", "clipped", "parameters",
           "lr_sensitivity")
# Names of runs: markup, bytes that are not UTF-8, TeX, words of Plotly's labels.
STRANGE = (b"<!--<script>", b"<script>hacked=1", b"not \xff utf8", b"$\\frac{$", b"%{x} <b>&amp;", b'"><img src=x>')
# Contents of a run's files.
DAMAGED = {
    "outcome.json": (b"[" * 100000, b'{"a":' * 100000, b'{"state": "diverged", "step": [1], "floor": 1e999}', b"\xff",
                     b'{"parameters": %b, "step": %b}' % (b"9" * 400, b"9" * 400), b'{"tensor": "\\ud800"}'),
    "config.toml": (b"a = " + b"[" * 100000, b'data = ["\xff.txt"]\n', b"steps = %b\n" % (b"9" * 400), b"\xff\xfe"),
    "samples.txt": (b"\xff", b"==== step %b ====\n" % (b"9" * 5000)),
    "metrics.csv": (b"step,tokens\n%b,1\n" % (b"9" * 200000), b"step,train_loss,val_loss\nnan,1,inf\n2,1e999,1\n",
                    b"\xff\xfe\0\1" * 9),
}
T_975 = {2: 12.7062, 3: 4.3027, 5: 2.7764}

BEST_WARMUP = "40%"

# The distance from the floor at which each cell ends.
QUALITY = {"pre": 0.030, "sandwich": 0.036, "deepnorm": 0.055, "post": 0.090, "layernorm": 1.0, "rmsnorm": 1.02,
           "2": 1.5, "4": 1.2, "8": 1.0, **{f"d{depth}": 1.0 for depth in range(1, 9)}}


def curve(noise, excess, steps, every, lr, fate, batch_tokens=512, times=True):
    """The rows of a metrics.csv. fate: finished, stuck, or the step at which it diverges."""
    rows, elapsed, smooth = [], 0.0, 0.0
    for step in range(1, steps + 1):
        rate = lr * min(step / (0.1 * steps), 0.55 + 0.45 * math.cos(math.pi * step / steps))
        progress = (step / steps) ** 0.7
        above = math.exp(math.log(INITIAL - FLOOR) * (1 - progress) + math.log(excess) * progress)
        smooth = 0.8 * smooth + 0.2 * noise.gauss(0, 0.03)
        loss = FLOOR + above * math.exp(smooth + noise.gauss(0, 0.03))
        if fate == "stuck":
            loss = INITIAL - 0.9 * min(1, 5 * step / steps) + noise.gauss(0, 0.02)
        elif isinstance(fate, int) and step > 0.8 * fate:
            loss *= math.exp(5 * (step / fate - 0.8) / 0.2)
        elapsed += 0.0045 + noise.uniform(0, 0.001)
        val = FLOOR + above * math.exp(noise.gauss(0, 0.01)) if fate == "finished" else loss
        last = fate == step
        evaluated = step % every == 0 and not last
        rows.append([step, step * batch_tokens, round(elapsed, 3) if times else "", "nan" if last else f"{loss:.9g}",
                     f"{val:.9g}" if evaluated else "", f"{val / math.log(2):.9g}" if evaluated else "", f"{rate:.9g}",
                     "" if last else f"{0.3 + 2 / step:.9g}", int(step < 10), 4.7 if times else "",
                     110000 if times else ""])
        if last:
            break
    return rows


CONFIG = """# Every option in force; train_gpt train --config reads them back. What is behind a # was worked out
# from the placement, the preset and the sizes, and will be again.
preset = "gpt2"
placement = "{placement}"
norm = "{norm}"
# final-norm = {final_norm}
layers = {layers}
channels = 32
context = 64
# vocab-size = 256
bias = true
init = "placement"
# skip-scale = {skip}
data = ["build/stories.txt"]
batch = 8
steps = {steps}
lr = {lr}
# min-lr = {min_lr}
schedule = "cosine"
clip = 1
seed = {seed}
threads = 0
"""


class Maker:
    """One comparison: its runs first, then the four tables."""

    def __init__(self, out, grid, seeds=3, rates=(), warmups=(), floor=True, diagnostics=True, times=True, steps=400,
                 fates=None):
        self.out, self.keys, self.floor, self.times, self.steps = Path(out), list(grid), floor, times, steps
        self.fates, self.rates, self.warmups = fates or {}, rates, warmups
        self.tuned = (["peak_lr"] if rates else []) + (["warmup"] if warmups else [])
        self.curves, self.runs, self.diagnostics = [], [], []
        cells = [dict(zip(grid, values)) for values in product(*grid.values())]
        for cell in cells:
            self.excess = 1.0
            for value in cell.values():
                self.excess *= QUALITY[value]
            for rate, warmup in product(rates, warmups or [None]):
                self.run(cell, "tune", 1, rate, warmup)
            for seed in range(1, seeds + 1):
                self.run(cell, "final", seed, rates[len(rates) // 2] if rates else 3e-3, BEST_WARMUP)
        keys = [*self.keys, "seed", *self.tuned]
        self.write("curves.csv", ["cell", "stage", *keys, *METRICS], self.curves)
        self.write("runs.csv", ["cell", "stage", *keys, "state", "stopped_at", "first_tensor", *RUN], self.runs)
        more = ["warmup_sensitivity"] if warmups else []
        self.write("summary.csv", ["cell", *self.keys, *self.tuned, *SUMMARY, *more], self.summary(cells))
        if diagnostics:
            self.write("diagnostics.csv", ["cell", "stage", *keys, "step", "layer", "part", "what", "value"],
                       self.diagnostics)

    def write(self, name, header, rows):
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])

    @staticmethod
    def name(cell):
        return ",".join(f"{key}={value}" for key, value in cell.items())

    def run(self, cell, stage, seed, rate, warmup=None):
        name = self.name(cell)
        noise = random.Random(f"{name} {stage} {seed} {rate}")
        places = ((name, stage, rate, warmup), (name, stage, seed), (name, stage, rate), name)
        fate = next((self.fates[place] for place in places if place in self.fates), None)
        fate = fate or "finished"
        away = abs(math.log(rate / 3e-3)) + (warmup not in (None, BEST_WARMUP))  # from the best rate and warm-up
        excess = self.excess * math.exp(0.25 * away + (random.Random(seed).gauss(0, 0.04) + noise.gauss(0, 0.006)))
        rows = curve(noise, excess, self.steps, self.steps // 10, rate, fate, times=self.times)
        tuned = f"tune,lr={rate:g}" + (f",warmup={warmup}" if self.warmups else "")
        place = f"{name}/" + (tuned if stage == "tune" else f"seed={seed}")
        front = [name, stage, *cell.values(), seed, *[rate, warmup][:len(self.tuned)]]
        self.curves += [[*front, *row] for row in rows]
        self.folder(self.out / place, cell, seed, rate, rows)
        state = "diverged" if isinstance(fate, int) else fate
        vals = [float(row[4]) for row in rows if row[4]]
        ended = fate == "finished" or fate == "stuck"
        words = " ".join(f"--{key}={value}" for key, value in cell.items())
        self.runs.append([
            *front, state, fate if state == "diverged" else self.steps // 5 if state == "stuck" else "",
            "block.3.ffn.y" if state == "diverged" else "", rows[0][3], vals[-1], min(vals),
            (vals.index(min(vals)) + 1) * (self.steps // 10), rows[-1][3] if ended else "", len(rows), len(rows) * 512,
            rows[-1][2], 110000 if self.times else "", 0.01, 0.02, 0.025,
            self.steps * 3 // 4 if state == "finished" else "", "", 59000, UNIGRAM, FLOOR if self.floor else "", place,
            f"train_gpt train --data build/stories.txt {words} --steps {self.steps} --lr {rate:g} --seed {seed} "
            f"--quiet --out {self.out.name}/{place}"])
        if stage == "final":
            layers = int(cell.get("layers", LAYERS))
            for step in (1, self.steps // 2, self.steps):
                if step <= len(rows):
                    self.diagnose(noise, front, step, layers, cell.get("placement", "pre"))

    def folder(self, path, cell, seed, rate, rows):
        path.mkdir(parents=True, exist_ok=True)
        with open(path / "metrics.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([METRICS, *rows])
        placement = cell.get("placement", "pre")
        (path / "config.toml").write_text(CONFIG.format(
            placement=placement, norm=cell.get("norm", "layernorm"), layers=cell.get("layers", LAYERS), lr=rate,
            min_lr=rate / 10, seed=seed, steps=self.steps, skip=1.86 if placement == "deepnorm" else 1,
            final_norm=str(placement in ("pre", "sandwich")).lower()), encoding="utf-8")
        (path / "outcome.json").write_text(json.dumps({"steps": len(rows)}))

    def diagnose(self, noise, front, step, layers, placement):
        slopes = {"pre": (-0.15, 0.30), "post": (0.45, 0.0), "sandwich": (-0.05, 0.15), "deepnorm": (0.1, 0.0)}
        grows = slopes[placement]
        late = step / self.steps

        def row(layer, part, what, value):
            self.diagnostics.append([*front, step, layer, part, what, f"{value * math.exp(noise.gauss(0, 0.04)):.9g}"])

        for layer in range(layers):
            gradient = 0.02 * math.exp(grows[0] * (layer - layers / 2)) * (1 - 0.6 * late)
            row(layer, "ffn.down.weight", "grad_norm", 3 * gradient)
            row(layer, "attention.o.weight", "grad_norm", 2 * gradient)
            row(layer, "stream", "grad_norm", gradient)
            row(layer, "stream", "rms", (1 if placement == "post" else 0.3) * math.exp(grows[1] * layer * (0.5 + late)))
            row(layer, "attention", "branch_ratio", 0.4 / (1 + layer * (1 if placement == "pre" else 0.1)))
            row(layer, "ffn", "branch_ratio", 0.6 / (1 + layer * (1 if placement == "pre" else 0.1)))
            row(layer, "attention", "entropy", 0.95 - 0.4 * late * layer / layers)

    def summary(self, cells):
        rows = []
        columns = ["cell", "stage", *self.keys, "seed", *self.tuned, "state", "stopped_at", "first_tensor", *RUN]
        runs = [dict(zip(columns, run)) for run in self.runs]
        final = [[run for run in runs if run["stage"] == "final" and run["cell"] == self.name(cell)] for cell in cells]
        base = [run["final_val"] for run in final[0]]
        for number, (cell, of_cell) in enumerate(zip(cells, final)):
            states = [run["state"] for run in of_cell]
            n, vals = len(states), [run["final_val"] for run in of_cell]
            stats = [""] * 11
            if set(states) == {"finished"}:
                half = [T_975[n] * stdev(v) / math.sqrt(n) if n > 1 else "" for v in
                        (vals, [a - b for a, b in zip(vals, base)])]
                gap = mean(vals) - mean(base)
                verdict = "baseline" if number == 0 else "" if n == 1 else "not distinguishable" \
                    if abs(gap) <= half[1] else "better" if gap < 0 else "worse"
                stats = [mean(vals), stdev(vals) if n > 1 else "", half[0], min(vals), gap if number else "",
                         half[1] if number else "", verdict, *([0.04, 0.12, "not distinguishable", ""] if number else
                                                               ["", "", "baseline", ""])]
            tune = [run for run in runs if run["stage"] == "tune" and run["cell"] == self.name(cell)]
            ends = [INITIAL if run["state"] == "diverged" else min(run["final_val"], INITIAL) for run in tune]
            sensitivity = mean(ends) - min(ends) if tune else ""
            rows.append([self.name(cell), *cell.values(), *(of_cell[0][option] for option in self.tuned), "", n,
                         *(states.count(state) for state in ("finished", "diverged", "stuck", "failed")), *stats,
                         0.2, "", "", of_cell[0]["seconds"], of_cell[0]["tokens_per_second"], 0.01, 0.02, 0.025, 59000,
                         sensitivity, *([0.5] if self.warmups else [])])
        return rows


def full(out):
    """Has a floor, tuned rates, diagnostics, three seeds, and every kind of failure."""
    fates = {("placement=post,norm=layernorm", "final", 2): 150, "placement=post,norm=rmsnorm": 90,
             "placement=deepnorm,norm=rmsnorm": "stuck", ("placement=pre,norm=layernorm", "tune", 0.03): 60,
             ("placement=sandwich,norm=layernorm", "tune", 0.03): "stuck"}
    Maker(out, {"placement": ["pre", "post", "sandwich", "deepnorm"], "norm": ["layernorm", "rmsnorm"]},
          rates=(3e-4, 1e-3, 3e-3, 1e-2, 3e-2), fates=fates)


def tuned(out):
    """Each cell tuned its learning rate and its warm-up; one tuning run got stuck."""
    Maker(out, {"placement": ["pre", "post", "sandwich"]}, rates=(1e-3, 3e-3, 1e-2), warmups=("10%", "40%", "2.5%"),
          fates={("placement=post", "tune", 1e-2, "10%"): "stuck"})


def plain(out):
    """Has one seed and no floor, tuning, diagnostics, times (runs in parallel) or placement among the keys."""
    Maker(out, {"layers": ["2", "4", "8"]}, seeds=1, floor=False, diagnostics=False, times=False)


# Laws of scaling(): A and alpha of each placement, in parameters.
LAWS = {"pre": (40, 0.45), "post": (60, 0.45)}


def scaling(out, sizes=5, seeds=5, floor=True):
    """Two placements and sizes whose final losses follow LAWS, with noise of the seeds."""
    Maker(out, {"placement": list(LAWS), "size": [f"d{depth}" for depth in range(1, sizes + 1)]}, seeds=seeds,
          floor=floor, diagnostics=False)
    baselines = {}

    def planted(row):
        parameters = 3e4 * int(row["size"][1:]) ** 2.5
        A, alpha = LAWS[row["placement"]]
        noise = random.Random(f"{row['seed']} {row['size']}").gauss(0, 0.02) + random.Random(str(row)).gauss(0, 0.005)
        return {**row, "parameters": parameters, "flops": 120 * parameters ** 2,
                "final_val": FLOOR + A * parameters ** -alpha * math.exp(noise)}

    def against_its_size(row):
        first = baselines.setdefault(row["size"], row["cell"])
        return {**row, "verdict": "baseline" if row["cell"] == first else "worse"}

    for name, change in (("runs.csv", planted), ("summary.csv", against_its_size)):
        path = Path(out) / name
        with open(path, newline="", encoding="utf-8") as file:
            rows = [change(row) for row in csv.DictReader(file)]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    full(Path(sys.argv[1]) / "full")
    plain(Path(sys.argv[1]) / "plain")
