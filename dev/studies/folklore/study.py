#!/usr/bin/env python3
"""Three claims that practitioners repeat:

1. BLOOM's embedding norm is steadier, at some cost in loss.
2. Pre-LN ends slightly worse than Post-LN once both converge.
3. Sandwich-LN is unstable.

Each has a small test: 6 layers x 64 channels (the second claim: 4 layers and more steps).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, capped, draw_band, draw_means, look_of, outcome, plt, rate_axis, table  # noqa: E402

study = Study(__doc__)
steps = 3000 if study.long else 600
shared = """--channels 64 --heads 4 --context 128 --batch 4 --eval-batches 20 --val-fraction 0.02 --save-every 0"""
RATES = ["1e-3", "3e-3", "1e-2", "3e-2"]
TICKS = [0.2, 0.3, 0.5, 1, 2, 4]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.7))
rows = []


def add_row(model, rate, cell, clips=True):
    clipped = f"{100 * cell.clipped.mean():.0f} %" if clips else ""
    rows.append([model, f"lr {rate:g}", outcome(cell), f"{100 * cell.grad_spikes.mean():.2f} %", clipped])


# 1. A norm after the embedding, in Pre-LN.
embedding = study.compare("embedding", f"""{shared} --layers 6 --steps {steps} --warmup {steps // 10}
    --eval-every {steps // 4} --grid embedding-norm=false,true lr={",".join(RATES)} seed=1,2,3""").runs
for present, color, line in (False, "#0072B2", "-o"), (True, "#D55E00", "--s"):
    cells = embedding[embedding["embedding-norm"] == present]
    draw_means(axes[0], capped(cells).groupby(cells.peak_lr), shift=1.04 if present else 0.96, fmt=line, color=color,
               label="with" if present else "without")
    name = f"Pre-LN {'with' if present else 'without'} embedding norm"
    for rate, cell in cells.groupby("peak_lr"):
        add_row(name, rate, cell)
rate_axis(axes[0], RATES, ylabel=f"validation loss after {steps} steps", title="embedding norm, Pre-LN")

# 2. Post-LN against Pre-LN, each at its best rate, until the curves are flat.
far = 12000 if study.long else 3000
converged = study.compare("converged", f"""{shared} --layers 4 --steps {far} --warmup {far // 10}
    --eval-every {far // 20} --grid placement=post,pre norm=layernorm --tune lr=3e-4,1e-3,3e-3,1e-2""")
curves, runs = (frame[frame.stage == "final"] for frame in (converged.curves, converged.runs))
for placement in "post", "pre":
    name = f"{placement.capitalize()}-LN"
    losses = curves[curves.placement == placement].dropna(subset="val_loss").groupby("step").val_loss
    draw_band(axes[1], losses, look_of(placement)["linestyle"], color=COLOR[placement], label=name)
    cell = runs[runs.placement == placement]
    add_row(f"{name}, 4 layers, {far} steps", cell.peak_lr.iloc[0], cell)
pre = converged.summary[converged.summary.placement == "pre"].iloc[0]
difference = f"Pre-LN − Post-LN: {pre.difference:+.4f} ± {pre.difference_ci:.4f} ({pre.verdict})."
axes[1].set(xlabel="step", title="4 layers, each at its best rate", yscale="log")
axes[1].set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
axes[1].minorticks_off()

# 3. Sandwich-LN against Pre-LN, without clipping, at high rates.
HIGH = ["1e-2", "3e-2", "1e-1"]
sandwich = study.compare("sandwich", f"""{shared} --layers 6 --steps {steps} --warmup {steps // 10}
    --eval-every {steps // 4} --clip 0 --grid placement=pre,sandwich lr={",".join(HIGH)} seed=1,2,3""").runs
for placement in "pre", "sandwich":
    cells = sandwich[sandwich.placement == placement]
    draw_means(axes[2], capped(cells).groupby(cells.peak_lr), shift=0.96 if placement == "pre" else 1.04,
               label=placement, **look_of(placement))
    for rate, cell in cells.groupby("peak_lr"):
        add_row(f"{placement}, no clipping", rate, cell, clips=False)
rate_axis(axes[2], HIGH, title="without clipping")
for axis in axes:
    axis.title.set_fontsize(10)
    axis.legend(fontsize=9)
losses = table(rows, ["model", "rate", "final loss", "gradient spikes", "clipped steps"])
study.publish(figure, f"{losses}\n{difference}\n")
