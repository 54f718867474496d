#!/usr/bin/env python3
"""Sensitivity to the learning rate (Wortsman et al. 2023, arXiv 2309.14322) of six placements and two norms.

Draws final loss against learning rate. The sensitivity is one number: the mean over the rates of min(loss, initial
loss) - lowest loss. 6 layers x 64 channels, each placement with its own initialization; the warm-up takes a tenth of
the steps, and gradients are clipped at 1.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, DASH, Study, capped, mean_by, outcome, plt  # noqa: E402
from common import rate_axis, shown, table, unigram_line  # noqa: E402

study = Study(__doc__)
steps = 3000 if study.long else 600
RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]
tables = study.compare("rates", f"""--layers 6 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
    --warmup {steps // 10} --eval-every {steps // 4} --eval-batches 20 --val-fraction 0.02 --save-every 0
    --grid placement=post,pre,sandwich,deepnorm,reordered norm=layernorm,rmsnorm lr={",".join(RATES)} seed=1,2,3
    + placement=none lr={",".join(RATES)}""")
runs = tables.runs.assign(norm=tables.runs.norm.fillna("none"))
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
rows = []
for (placement, norm), cell in runs.groupby(["placement", "norm"], sort=False):
    by_rate = mean_by(cell, "peak_lr")
    numbers = [(capped(seed) - capped(seed).min()).mean() for _, seed in cell.groupby("seed")]
    rows.append([placement, norm, shown(numbers)] + [outcome(at) for _, at in cell.groupby("peak_lr")])
    for axis, kind in zip(axes, ("layernorm", "rmsnorm")):
        if norm not in (kind, "none"):
            continue
        label = f"{placement}  {sum(numbers) / len(numbers):.2f}"
        axis.plot(by_rate.index, by_rate, DASH.get(norm, ":") + "o", color=COLOR[placement], label=label)
        rate_axis(axis, RATES, title=kind)
for axis in axes:
    unigram_line(axis, runs)
    axis.legend(title="sensitivity", fontsize=8)
axes[0].set_ylabel(f"validation loss after {steps} steps")
rows.sort(key=lambda row: float(row[2].split()[0]))
study.publish(figure, table(rows, ["placement", "norm", "sensitivity"] + [f"lr {rate}" for rate in RATES]))
