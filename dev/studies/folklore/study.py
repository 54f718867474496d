#!/usr/bin/env python3
"""What practitioners repeat: BLOOM's embedding norm is steadier at some cost in loss; Pre-LN ends slightly worse than Post-LN once both converge;
Sandwich-LN is unstable.

Each as small as it can be asked: 6 layers x 64 channels (the second: 4 layers, longer).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, mean_by, outcome, plt, rate_axis, table  # noqa: E402

study = Study(__doc__)
steps = 3000 if study.long else 600
shared = """--channels 64 --heads 4 --context 128 --batch 4 --eval-batches 20 --val-fraction 0.02 --save-every 0"""
RATES = ["1e-3", "3e-3", "1e-2", "3e-2"]
figure, axes = plt.subplots(1, 3, figsize=(13, 4))
rows = []

# 1. A norm behind the embedding, under Pre-LN.
embedding = study.compare("embedding", f"""{shared} --layers 6 --steps {steps} --warmup {steps // 10} --eval-every {steps // 4}
    --grid embedding-norm=false,true lr={",".join(RATES)} seed=1,2,3""").runs
for present, color in (False, "#0072B2"), (True, "#D55E00"):
    cells = embedding[embedding["embedding-norm"] == present]
    mean = mean_by(cells, "peak_lr")
    axes[0].plot(mean.index, mean, "o-", color=color, label="with an embedding norm" if present else "without")
    name = f"Pre-LN {'with' if present else 'without'} embedding norm"
    for rate, cell in cells.groupby("peak_lr"):
        rows.append([name, f"lr {rate:g}", outcome(cell), f"{100 * cell.grad_spikes.mean():.2f} %", f"{100 * cell.clipped.mean():.0f} %"])
rate_axis(axes[0], RATES, ylabel=f"validation loss after {steps} steps", title="embedding norm, Pre-LN")

# 2. Post against Pre, each at its own rate, long enough to flatten.
far = 12000 if study.long else 3000
converged = study.compare("converged", f"""{shared} --layers 4 --steps {far} --warmup {far // 10} --eval-every {far // 20}
    --grid placement=post,pre norm=layernorm --tune lr=3e-4,1e-3,3e-3,1e-2""")
for placement in "post", "pre":
    curves = converged.curves[(converged.curves.placement == placement) & (converged.curves.stage == "final")].dropna(subset="val_loss").groupby("step").val_loss
    draw_band(axes[1], curves, color=COLOR[placement], label=f"{placement.capitalize()}-LN")
    cell = converged.runs[(converged.runs.placement == placement) & (converged.runs.stage == "final")]
    rows.append([f"{placement.capitalize()}-LN, 4 layers, {far} steps", f"lr {cell.peak_lr.iloc[0]:g}", outcome(cell), f"{100 * cell.grad_spikes.mean():.2f} %",
                 f"{100 * cell.clipped.mean():.0f} %"])
pre = converged.summary[converged.summary.placement == "pre"].iloc[0]
rows.append(["Pre-LN − Post-LN", "", f"{pre.difference:+.4f} ± {pre.difference_ci:.4f}, {pre.verdict}", "", ""])
axes[1].set(xlabel="step", title="Post-LN and Pre-LN, each at its best rate", yscale="log")

# 3. Sandwich against Pre, without clipping, at high rates.
HIGH = ["1e-2", "3e-2", "1e-1"]
sandwich = study.compare("sandwich", f"""{shared} --layers 6 --steps {steps} --warmup {steps // 10} --eval-every {steps // 4} --clip 0
    --grid placement=pre,sandwich lr={",".join(HIGH)} seed=1,2,3""").runs
for placement in "pre", "sandwich":
    cells = sandwich[sandwich.placement == placement]
    mean = mean_by(cells, "peak_lr")
    axes[2].plot(mean.index, mean, "o-", color=COLOR[placement], label=placement)
    for rate, cell in cells.groupby("peak_lr"):
        rows.append([f"{placement}, no clipping", f"lr {rate:g}", outcome(cell), f"{100 * cell.grad_spikes.mean():.2f} %", ""])
rate_axis(axes[2], HIGH, title="Sandwich-LN and Pre-LN, no clipping")
for axis in axes:
    axis.legend()
study.publish(figure, table(rows, ["model", "rate", "final loss", "gradient spikes", "clipped steps"]))
