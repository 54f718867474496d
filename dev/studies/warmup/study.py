#!/usr/bin/env python3
"""Warm-up (Xiong et al. 2020, fig. 2): Post-LN needs it, Pre-LN does not.

6 layers x 64 channels, the same Xavier initialization for both, Adam (0.9, 0.98), no clipping, no weight decay.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_rates, outcome, plt, rate_axis, table, unigram_line  # noqa: E402

study = Study(__doc__)
steps = 3000 if study.long else 800
RATES = ["3e-4", "1e-3", "3e-3", "1e-2"]
warmup = steps // 5
tables = study.compare("rates", f"""--init xavier --layers 6 --channels 64 --heads 4 --context 128 --batch 4
    --steps {steps} --clip 0 --weight-decay 0 --beta2 0.98 --eval-every {steps // 20} --eval-batches 20
    --val-fraction 0.02 --save-every 0 --grid placement=post,pre warmup=0,{warmup} lr={",".join(RATES)} seed=1,2,3""")
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
rows = []
for axis, placement in zip(axes, ("post", "pre")):
    for steps_of, style in (0, "--"), (warmup, "-"):
        cell = tables.runs[(tables.runs.placement == placement) & (tables.runs.warmup == steps_of)]
        label = f"warm-up of {steps_of} steps" if steps_of else "no warm-up"
        draw_rates(axis, cell, style, label, color=COLOR[placement], fillstyle="full" if steps_of else "none")
        rows.append([placement, steps_of] + [outcome(at) for _, at in cell.groupby("peak_lr")])
    unigram_line(axis, tables.runs)
    rate_axis(axis, RATES, title=f"{placement.capitalize()}-LN")
    axis.legend()
axes[0].set_ylabel(f"validation loss after {steps} steps")
study.publish(figure, table(rows, ["placement", "warm-up"] + [f"lr {rate}" for rate in RATES]))
