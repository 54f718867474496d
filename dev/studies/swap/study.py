#!/usr/bin/env python3
"""Swap the norm of a trained model: the loss right after it, and after fine-tuning all weights or the norms alone.

A Pre-LN model with LayerNorm is trained on stories, once per seed. Each norm then takes LayerNorm's place, keeping what
fits of its gains and biases. For each of the two ways of fine-tuning, the best of three learning rates counts.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import LINES, MARKERS, Study, interval, outcome, plt, shown, stored, table  # noqa: E402

COLORS = {"layernorm": "#0072B2", "rmsnorm": "#D55E00", "scalenorm": "#009E73", "batchnorm": "#CC79A7",
          "dyt": "#E69F00", "derf": "#56B4E9", "none": "#000000"}
NAMES = {"layernorm": "LayerNorm (kept)", "rmsnorm": "RMSNorm", "scalenorm": "ScaleNorm", "batchnorm": "BatchNorm",
         "dyt": "DyT", "derf": "Derf", "none": "none"}
NORMS = "norm=layernorm,rmsnorm,scalenorm,batchnorm,dyt,derf"
SEEDS, RATES = (1, 2, 3), "3e-4,1e-3,3e-3"
EDGES = [float(RATES.split(",")[at]) for at in (0, -1)]


def named(rows):
    """The rows of a table, with a column that names the norm, or "none"."""
    return rows.assign(name=rows.norm.where(rows.get("placement", rows.norm) != "none", "none"))


def best(runs):
    """The runs of one norm, at the rate with the lowest mean loss if there are several."""
    if "peak_lr" not in runs:
        return runs
    return min((cell for _, cell in runs.groupby("peak_lr")),
               key=lambda cell: ((cell.state != "finished").sum(), cell.final_val.mean()))


def cells_of(label):
    """{norm: its best runs}, from the stored runs."""
    return {name: best(runs) for name, runs in named(stored(__file__, f"{label}-runs")).groupby("name")}


def rated(cell):
    """The outcome of a cell, and its rate, with an asterisk at the edge."""
    if cell is None:
        return ["-", "-"]
    rate = cell.peak_lr.iloc[0]
    return [outcome(cell), f"{rate:g}" + ("*" if rate in EDGES else "")]


def published():
    """The table in README.md, from the stored runs."""
    after, whole, alone = map(cells_of, ("after", "whole", "alone"))
    rows = [[words, shown(after[name].final_val), *rated(whole[name]), *rated(alone.get(name))]
            for name, words in NAMES.items()]
    return table(rows, ["norm", "right after the swap", "all weights tuned", "rate", "norms alone tuned", "rate"])


def draw_steps(axis, curves):
    """Validation loss by step of the fine-tuning of all weights, each norm at its best rate."""
    after, whole = map(cells_of, ("after", "whole"))
    for place, (name, color) in enumerate(COLORS.items()):
        some = curves[(curves.name == name) & (curves.peak_lr == whole[name].peak_lr.iloc[0])]
        mean = some.dropna(subset="val_loss").groupby("step").val_loss.mean()
        axis.plot([0, *mean.index], [after[name].final_val.mean(), *mean], linestyle=LINES[place % len(LINES)],
                  label=NAMES[name], markevery=3, color=color, marker=MARKERS[place], markersize=4)
    axis.set(xlabel="step of fine-tuning")
    axis.set_title("all weights tuned, each at its best rate", fontsize=10)
    axis.legend(fontsize=8)


def draw_norms(axis):
    """The loss right after the swap, and after either fine-tuning."""
    for x, cells in enumerate(map(cells_of, ("after", "whole", "alone"))):
        for place, (name, color) in enumerate(COLORS.items()):
            if name in cells:
                mean, half = interval(cells[name].final_val)
                axis.errorbar(x + (place - 3) * 0.1, mean, yerr=half, capsize=2, color=color, marker=MARKERS[place],
                              markersize=4)
    axis.set(xticks=range(3), xticklabels=["right after", "all weights\ntuned", "norms alone\ntuned"])
    axis.set_title("mean and 95 % interval (dotted: before the swap)", fontsize=10)


def main():
    study = Study(__doc__)
    base_steps, steps = (6000, 2000) if study.long else (1500, 300)
    shared = "--batch 8 --val-fraction 0.02 --eval-batches 20 --save-every 0"
    sizes = "--layers 6 --channels 64 --heads 4 --context 128"
    bases = {seed: study.trained(f"base-{seed}", f"--steps {base_steps} --lr 3e-3 --warmup 100 --eval-every 100 "
                                 f"{sizes} {shared} --seed {seed}") for seed in SEEDS}
    tune = f"{shared} --steps {steps} --warmup {steps // 10} --eval-every {steps // 15}"
    study.compare_on(bases, "after", f"{shared} --steps 1 --lr 1e-9 --grid {NORMS} + placement=none")
    _, curves = study.compare_on(bases, "whole", f"{tune} --grid {NORMS} lr={RATES} + placement=none lr={RATES}")
    study.compare_on(bases, "alone", f"{tune} --train-only norm --grid {NORMS} lr={RATES}")

    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    draw_steps(axes[0], named(curves))
    draw_norms(axes[1])
    losses = [0.3, 0.4, 0.6, 1, 2, 4]
    for axis in axes:
        axis.axhline(cells_of("after")["layernorm"].final_val.mean(), color="0.5", linestyle=":", linewidth=1)
        axis.set(yscale="log", ylabel="validation loss", yticks=losses, yticklabels=losses)
        axis.minorticks_off()
    study.publish(figure, published())


if __name__ == "__main__":
    main()
