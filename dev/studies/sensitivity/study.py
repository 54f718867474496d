#!/usr/bin/env python3
"""Sensitivity to the learning rate (Wortsman et al. 2023, arXiv 2309.14322) of six placements.

Draws final loss against learning rate, with a short and a long warm-up. The sensitivity is one number: the mean over
the rates of min(loss, initial loss) - lowest loss. 6 layers x 64 channels with LayerNorm, Pre-LN also with RMSNorm.
Each placement has its own initialization; gradients are clipped at 1.
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
crossed = f"warmup={','.join(map(str, WARMUPS))} lr={','.join(RATES)}"
TOP = 3.6  # nats, above the unigram entropy; a run that diverged counts as its initial loss
tables = study.compare("rates", f"""--layers 6 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
    --eval-every {steps // 4} --eval-batches 20 --val-fraction 0.02 --save-every 0
    --grid placement=post,pre,sandwich,deepnorm,reordered norm=layernorm {crossed} seed=1,2,3
    + placement=pre norm=rmsnorm {crossed} + placement=none {crossed}""")
runs = tables.runs.assign(norm=tables.runs.norm.fillna("none"))
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
rows, labels = [], {}
for (placement, norm, warmup), cell in runs.groupby(["placement", "norm", "warmup"], sort=False):
    by_rate = mean_by(cell, "peak_lr")
    numbers = [(capped(seed) - capped(seed).min()).mean() for _, seed in cell.groupby("seed")]
    rows.append([placement, norm, warmup, shown(numbers)] + [outcome(at) for _, at in cell.groupby("peak_lr")])
    name = f"{placement}, RMSNorm" if norm == "rmsnorm" else placement
    look = {**look_of(placement), **({"mfc": "white", "linewidth": 0.8} if norm == "rmsnorm" else {})}
    line, = axes[WARMUPS.index(warmup)].plot(by_rate.index, by_rate.clip(upper=TOP), **look)
    _, both = labels.setdefault(name, (line, []))
    both.append(f"{sum(numbers) / len(numbers):.2f}")
for axis, warmup in zip(axes, WARMUPS):
    rate_axis(axis, RATES, title=f"{warmup} of {steps} steps of warm-up")
    unigram_line(axis, runs)
    axis.set(ylim=(None, TOP))
    axis.annotate("at this edge: diverged", (0, 1), xycoords="axes fraction", xytext=(4, -4),
                  textcoords="offset points", ha="left", va="top", fontsize=8, color="0.4")
axes[0].set_ylabel(f"validation loss after {steps} steps")
texts = [f"{name}  {', '.join(both)}" for name, (_, both) in labels.items()]
figure.legend([line for line, _ in labels.values()], texts,
              title="sensitivity\n(left, right)", fontsize=8, loc="outside right upper")
rows.sort(key=lambda row: (row[2], float(row[3].split()[0])))
columns = ["placement", "norm", "warm-up", "sensitivity"]
study.publish(figure, table(rows, columns + [f"lr {rate}" for rate in RATES]))
