#!/usr/bin/env python3
"""Growth of the residual stream with depth (Kim et al. 2025, Peri-LN, arXiv 2502.02732; Sun et al. 2025, Curse of
Depth, arXiv 2502.05795).

The mean square of the residual stream after each block: before training, half-way and at the end. 24 layers x 64
channels. Each placement has its own initialization first, then all have the same Xavier initialization.
"""

import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, outcome, plt, table  # noqa: E402

INITS = {"each placement's own initialization": "", "the same Xavier for all": "--init xavier --no-residual-gain"}
PLACEMENTS = ["post", "pre", "sandwich", "reordered"]
LAYERS = 24

study = Study(__doc__)
steps = 3000 if study.long else 600
WHEN = {1: "before training", steps // 2: f"step {steps // 2}", steps: f"step {steps}"}
figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), sharex=True, sharey="row")
rows = []
for line, (init, words) in zip(axes, INITS.items()):
    tables = study.compare("xavier" if words else "own", f"""{words} --layers {LAYERS} --channels 64 --heads 4
        --context 128 --batch 4 --steps {steps} --warmup {steps // 10} --lr 1e-3 --eval-every {steps // 4}
        --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics {steps // 2}
        --grid placement={",".join(PLACEMENTS)} seed=1,2,3""")
    d = tables.read("diagnostics")
    stream = d[(d.part == "stream") & (d.what == "rms")].assign(square=lambda x: x.value**2)
    for axis, (step, when) in zip(line, WHEN.items()):
        for placement in PLACEMENTS:
            by_layer = stream[(stream.step == step) & (stream.placement == placement)].groupby("layer").square
            draw_band(axis, by_layer, "o-", first=1, markersize=3, color=COLOR[placement], label=placement)
        axis.set(yscale="log", title=when, xlabel="block")
    line[0].set_ylabel(f"mean square of the stream\n{init}")
    for placement in PLACEMENTS:
        row = [init, placement]
        for step in WHEN:
            mean = stream[(stream.step == step) & (stream.placement == placement)].groupby("layer").square.mean()
            x, y = mean.index + 1, mean.values
            growth = y[-1] / y[0]
            straight = numpy.corrcoef(x, y)[0, 1] ** 2, numpy.corrcoef(x, numpy.log(y))[0, 1] ** 2
            shape = "" if growth < 2 else f" (R² linear {straight[0]:.2f}, exponential {straight[1]:.2f})"
            row.append(f"{y[0]:.3g} → {y[-1]:.3g}{shape}")
        rows.append(row + [outcome(tables.runs[tables.runs.placement == placement])])
axes[0, 0].legend(loc="center right", bbox_to_anchor=(1, 0.3))
study.publish(figure, table(rows, ["initialization", "placement", "before training: first → last block",
                                   f"step {steps // 2}", f"step {steps}", "final loss"]))
