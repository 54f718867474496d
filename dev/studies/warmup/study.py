#!/usr/bin/env python3
"""Warm-up (Xiong et al. 2020, fig. 2): does Post-LN need it, and can Pre-LN do without?

6 layers x 64 channels, in two settings: the paper's (the same Xavier initialization for both, Adam (0.9, 0.98), no
clipping, no weight decay), and the program's defaults (each placement's own initialization, AdamW, clipping at 1).
Every warm-up is crossed with every learning rate.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, draw_warmups, outcome, plt, stored, table  # noqa: E402

RATES = ["3e-4", "1e-3", "3e-3", "1e-2"]
SETTINGS = {"xavier": ("Xavier, no clipping", "--init xavier --clip 0 --weight-decay 0 --beta2 0.98"),
            "defaults": ("own initialization, clipping", "")}


def published():
    """The table in README.md, from the stored runs."""
    rows = [[title, placement, warmup] + [outcome(at) for _, at in cell.groupby("peak_lr")]
            for name, (title, _) in SETTINGS.items()
            for (placement, warmup), cell in stored(__file__, f"{name}-runs").groupby(["placement", "warmup"])]
    return table(rows, ["setting", "placement", "warm-up"] + [f"lr {rate}" for rate in RATES])


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 800
    warmups = [0, steps // 20, steps // 5, steps // 2]
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.4), sharex=True, sharey=True)
    for row, (name, (title, options)) in zip(axes, SETTINGS.items()):
        runs = study.compare(name, f"""{options} --layers 6 --channels 64 --heads 4 --context 128 --batch 4
            --steps {steps} --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0
            --grid placement=post,pre warmup={",".join(map(str, warmups))} lr={",".join(RATES)} seed=1,2,3""").runs
        draw_warmups(row, runs)
        for axis, name in zip(row, ("Post-LN", "Pre-LN")):
            axis.set_title(f"{name}: {title}")
        row[0].set_ylabel(f"validation loss after {steps} steps")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
