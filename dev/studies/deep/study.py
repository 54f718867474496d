#!/usr/bin/env python3
"""Depth of an encoder and a decoder (Liu et al. 2020, Admin; Wang et al. 2022, DeepNet; Takase et al. 2022, B2T).

Encoder and decoder of 6, 18 and 60 blocks each, 32 channels, translate. Each placement has its own initialization.
Post-LN and Pre-LN have N(0, .02) and, as in the papers, Xavier's as well. DeepNorm has its constants for an encoder and
a decoder. Each cell tunes its learning rate and its warm-up on a seed of its own; three other seeds count.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, capped, draw_means, look_of, outcome, plt, stored, table, tuned_to, unigram_line  # noqa: E402

DEPTHS = [6, 18, 60]
PLACEMENTS = ["post", "pre", "deepnorm", "b2t"]
STEPS = 400


def published():
    """The table in README.md, from the stored runs."""
    rows = []
    for depth in DEPTHS:
        for name in "cells", "xavier-post", "xavier-pre":
            runs, summary = stored(__file__, f"{name}-runs"), stored(__file__, f"{name}-summary")
            for _, cell in summary[summary.layers == depth].iterrows():
                final = runs[(runs.stage == "final") & (runs.cell == cell.cell)]
                rows.append([depth, cell.placement + (", Xavier" if "xavier" in name else ""), *tuned_to(cell),
                             outcome(final)])
    return table(rows, ["blocks of each", "placement", "learning rate", "warm-up", f"loss after {STEPS} steps"])


def grid(*placements):
    """Each placement at each depth."""
    return "--grid " + " + ".join(f"placement={','.join(placements)} layers={depth} encoder-layers={depth} seed=1,2,3"
                                  for depth in DEPTHS)


def main():
    study = Study(__doc__)
    shared = f"""--clip 1 --channels 32 --heads 2 --context 64 --batch 4 --steps {STEPS}
        --eval-every {STEPS // 10} --eval-batches 20 --save-every 0 --tune lr=1e-3,3e-3 warmup=10%,40%
        --tune-runs 4"""
    runs = study.compare("cells", f"{shared} {grid(*PLACEMENTS)}", text=study.translations()).runs
    figure, axis = plt.subplots(figsize=(6.4, 4))
    lines = [(placement, runs[runs.placement == placement], look_of(placement)) for placement in PLACEMENTS]
    for placement in "post", "pre":
        some = study.compare(f"xavier-{placement}", f"{shared} --init xavier --no-residual-gain {grid(placement)}",
                             text=study.translations()).runs
        lines.append((f"{placement}, Xavier", some, {**look_of(placement), "linestyle": ":", "fillstyle": "none"}))
    for number, (label, some, look) in enumerate(lines):
        some = some[some.stage == "final"]
        draw_means(axis, capped(some).groupby(some.layers), shift=1 + 0.04 * (number - 2.5), label=label, **look)
    unigram_line(axis, runs, name_at=3)
    axis.set(xscale="log", xticks=DEPTHS, xticklabels=DEPTHS, xlabel="blocks of the encoder and of the decoder",
             ylabel=f"validation loss after {STEPS} steps")
    axis.minorticks_off()
    axis.legend()
    study.publish(figure, published())


if __name__ == "__main__":
    main()
