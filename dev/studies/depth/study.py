#!/usr/bin/env python3
"""Depth (Wang et al. 2022, DeepNet, arXiv 2203.00555, figs. 4-6): how far the model moves in its first 100 updates.

64 channels, 128 in the feed-forward layer, 2 heads, as the paper's tiny models; 6, 24 and 100 layers. Model update: the mean over tokens of
‖h(x,θ) - h(x,θ₀)‖ on a fixed batch, h what the classifier reads. All with the same Xavier initialisation but for DeepNorm's gain, which is part of it;
then each placement with its own.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOUR, Study, outcome, plt, shown, table  # noqa: E402

DEPTHS = [6, 24, 100]
PLACEMENTS = ["post", "pre", "sandwich", "deepnorm"]

study = Study(__doc__)
steps = 400 if study.long else 100
shared = f"""--channels 64 --hidden 128 --heads 2 --context 128 --batch 4 --steps {steps} --warmup 0 --schedule constant --lr 1e-3 --clip 0 --weight-decay 0
    --beta2 0.98 --eval-every {steps} --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics 5"""
depths = "layers=" + ",".join(map(str, DEPTHS))
PANELS = {
    "own": ("each placement's own initialisation", f"--grid placement={','.join(PLACEMENTS)} {depths} seed=1,2,3"),
    "xavier": ("the same Xavier for all (DeepNorm with its gain)",
               f"--grid placement=post,pre,sandwich init=xavier residual-gain=false {depths} seed=1,2,3 + placement=deepnorm {depths}"),
}
figure, axes = plt.subplots(4, 3, figsize=(12, 13), sharex=True)
rows = []
for panel, (label, (init, grid)) in enumerate(PANELS.items()):
    tables = study.compare(label, f"{shared} {grid}")
    d = tables.diagnostics
    update = d[(d.part == "model") & (d.what == "update")]
    for column, layers in enumerate(DEPTHS):
        top, bottom = axes[2 * panel, column], axes[2 * panel + 1, column]
        for placement in PLACEMENTS:
            moved = update[(update.placement == placement) & (update.layers == layers)].groupby("step").value
            top.plot(moved.mean().index, moved.mean(), color=COLOUR[placement], label=placement)
            top.fill_between(moved.mean().index, moved.min(), moved.max(), color=COLOUR[placement], alpha=0.2, linewidth=0)
            losses = tables.curves[(tables.curves.placement == placement) & (tables.curves.layers == layers)].groupby("step").train_loss.mean()
            bottom.plot(losses.index, losses, color=COLOUR[placement])
            at_ten = update[(update.placement == placement) & (update.layers == layers) & (update.step == 10)]
            cell = tables.runs[(tables.runs.placement == placement) & (tables.runs.layers == layers)]
            rows.append([init, layers, placement, shown(at_ten.value, 2) if len(at_ten) else "", outcome(cell)])
        top.set(title=f"{layers} layers\n{init}" if column == 1 else f"{layers} layers\n", yscale="log")
        bottom.axhline(tables.runs.unigram.iloc[0], color="0.5", linestyle=":", linewidth=1)
        bottom.set(ylim=(2, 7))
        if column == 0:
            top.set_ylabel("model update")
            bottom.set_ylabel("training loss")
for axis in axes[-1]:
    axis.set_xlabel("step")
axes[0, 0].legend()
study.publish(figure, table(rows, ["initialisation", "layers", "placement", "model update at step 10", f"loss after {steps} steps"]))
