#!/usr/bin/env python3
"""Sensitivity to the learning rate (Wortsman et al. 2023, arXiv 2309.14322) of six placements and two norms.

Draws final loss against learning rate, with a short and a long warm-up. The sensitivity is one number: the mean over
the rates of min(loss, initial loss) - lowest loss. 6 layers x 64 channels, each placement with its own initialization;
gradients are clipped at 1.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, capped, look_of, mean_by, outcome, plt  # noqa: E402
from common import rate_axis, shown, table, unigram_line  # noqa: E402

study = Study(__doc__)
steps = 3000 if study.long else 600
RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]
WARMUPS = [steps // 10, steps // 3]
TOP = 3.6  # nats, above the unigram entropy; a run that diverged counts as its initial loss
tables = study.compare("rates", f"""--layers 6 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
    --eval-every {steps // 4} --eval-batches 20 --val-fraction 0.02 --save-every 0
    --grid placement=post,pre,sandwich,deepnorm,reordered norm=layernorm,rmsnorm warmup={",".join(map(str, WARMUPS))}
    lr={",".join(RATES)} seed=1,2,3 + placement=none warmup={",".join(map(str, WARMUPS))} lr={",".join(RATES)}""")
runs = tables.runs.assign(norm=tables.runs.norm.fillna("none"))
figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), sharex=True, sharey=True)
rows = []
for (placement, norm, warmup), cell in runs.groupby(["placement", "norm", "warmup"], sort=False):
    by_rate = mean_by(cell, "peak_lr")
    numbers = [(capped(seed) - capped(seed).min()).mean() for _, seed in cell.groupby("seed")]
    rows.append([placement, norm, warmup, shown(numbers)] + [outcome(at) for _, at in cell.groupby("peak_lr")])
    for axis, kind in zip(axes[WARMUPS.index(warmup)], ("layernorm", "rmsnorm")):
        if norm not in (kind, "none"):
            continue
        label = f"{placement}  {sum(numbers) / len(numbers):.2f}"
        axis.plot(by_rate.index, by_rate.clip(upper=TOP), label=label, **look_of(placement))
        rate_axis(axis, RATES, title=f"{kind}, {warmup} of {steps} steps of warm-up")
for axis in axes.flat:
    unigram_line(axis, runs)
    axis.title.set_fontsize(10)
    axis.set(ylim=(None, TOP))
    axis.annotate("at this edge: diverged", (0, 1), xycoords="axes fraction", xytext=(4, -4),
                  textcoords="offset points", ha="left", va="top", fontsize=8, color="0.4")
    axis.legend(title="sensitivity", fontsize=8, frameon=True, framealpha=0.8, edgecolor="none")
for axis in axes[:, 0]:
    axis.set_ylabel(f"validation loss after {steps} steps")
rows.sort(key=lambda row: (row[2], float(row[3].split()[0])))
columns = ["placement", "norm", "warm-up", "sensitivity"]
study.publish(figure, table(rows, columns + [f"lr {rate}" for rate in RATES]))
