#!/usr/bin/env python3
"""Swap the norm of a trained model: the loss right after it, and after fine-tuning all weights or the norms alone.

A Pre-LN model with LayerNorm is trained on stories, once per seed. Each norm then takes LayerNorm's place, keeping what
fits of its gains and biases. For each of the two ways of fine-tuning, the best of three learning rates counts.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import LINES, MARKERS, Study, interval, outcome, plt, shown, table  # noqa: E402

COLORS = {"layernorm": "#0072B2", "rmsnorm": "#D55E00", "scalenorm": "#009E73", "batchnorm": "#CC79A7",
          "dyt": "#E69F00", "derf": "#56B4E9", "none": "#000000"}
NAMES = {"layernorm": "LayerNorm (kept)", "rmsnorm": "RMSNorm", "scalenorm": "ScaleNorm", "batchnorm": "BatchNorm",
         "dyt": "DyT", "derf": "Derf", "none": "none"}
SEEDS, RATES = (1, 2, 3), "3e-4,1e-3,3e-3"
HIGHEST = float(RATES.split(",")[-1])

study = Study(__doc__)
base_steps, steps = (6000, 2000) if study.long else (1500, 300)
sizes = "--layers 6 --channels 64 --heads 4 --context 128"
shared = "--batch 8 --val-fraction 0.02 --eval-batches 20 --save-every 0"
norms = "norm=layernorm,rmsnorm,scalenorm,batchnorm,dyt,derf"


def name_of(row):
    return "none" if row.get("placement") == "none" else row.norm


def runs_of(label, options, cells):
    """Runs and curves of all seeds, each on top of its own base."""
    return [rows.assign(name=rows.apply(name_of, axis=1))
            for rows in study.compare_on(bases, label, f"{shared} {options} --grid {cells}")]


bases = {seed: study.trained(f"base-{seed}", f"--steps {base_steps} --lr 3e-3 --warmup 100 --eval-every 100 {sizes} "
                             f"{shared} --seed {seed}") for seed in SEEDS}

after, _ = runs_of("after", "--steps 1 --lr 1e-9", f"{norms} + placement=none")
tune = f"--steps {steps} --warmup {steps // 10} --eval-every {steps // 15}"
whole, curves = runs_of("whole", tune, f"{norms} lr={RATES} + placement=none lr={RATES}")
alone, _ = runs_of("alone", f"{tune} --train-only norm", f"{norms} lr={RATES}")


def best(runs, name):
    """The runs at the rate with the lowest mean loss, if there are any."""
    some = runs[runs.name == name]
    if some.empty:
        return None
    return min((cell for _, cell in some.groupby("peak_lr")),
               key=lambda cell: ((cell.state != "finished").sum(), cell.final_val.mean()))


def rated(cell):
    """The outcome of a cell, and its rate, with an asterisk at the edge."""
    if cell is None:
        return ["-", "-"]
    rate = cell.peak_lr.iloc[0]
    return [outcome(cell), f"{rate:g}" + ("*" if rate == HIGHEST else "")]


figure, (by_step, by_norm) = plt.subplots(1, 2, figsize=(10, 4))
rows = []
for place, (name, color) in enumerate(COLORS.items()):
    look = {"color": color, "marker": MARKERS[place], "markersize": 4}
    first, tuned, norms_alone = after[after.name == name], best(whole, name), best(alone, name)
    rate = tuned.peak_lr.iloc[0]
    rows.append([NAMES[name], shown(first.final_val), *rated(tuned), *rated(norms_alone)])
    shown_curves = curves[(curves.name == name) & (curves.peak_lr == tuned.peak_lr.iloc[0])]
    curve = shown_curves.dropna(subset="val_loss").groupby("step").val_loss
    by_step.plot([0, *curve.mean().index], [first.final_val.mean(), *curve.mean()],
                 linestyle=LINES[place % len(LINES)], label=NAMES[name], markevery=3, **look)
    for x, cell in enumerate((first, tuned, norms_alone)):
        if cell is not None:
            mean, half = interval(cell.final_val)
            by_norm.errorbar(x + (place - 3) * 0.1, mean, yerr=half, capsize=2, **look)
kept = after[after.name == "layernorm"].final_val.mean()
losses = [0.3, 0.4, 0.6, 1, 2, 4]
for axis in by_step, by_norm:
    axis.axhline(kept, color="0.5", linestyle=":", linewidth=1)
    axis.set(yscale="log", ylabel="validation loss", yticks=losses, yticklabels=losses)
    axis.minorticks_off()
by_step.set(xlabel="step of fine-tuning", title="all weights tuned, each at its best rate")
by_step.legend(fontsize=8)
by_norm.set(title="mean and 95 % interval (dotted: before the swap)", xticks=range(3),
            xticklabels=["right after", "all weights\ntuned", "norms alone\ntuned"])
for axis in by_step, by_norm:
    axis.title.set_fontsize(10)
study.publish(figure, table(rows, ["norm", "right after the swap", "all weights tuned", "rate", "norms alone tuned",
                                   "rate"]))
