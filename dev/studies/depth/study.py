#!/usr/bin/env python3
"""Depth (Wang et al. 2022, DeepNet, arXiv 2203.00555, figs. 4-6): how far the model moves in its first 100 updates.

64 channels, 128 in the feed-forward layer and 2 heads, as in the paper's tiny models; 6, 24 and 100 layers. The model
update is the mean over tokens of ‖h(x,θ) - h(x,θ₀)‖ on a fixed batch; h is the input of the classifier. In the upper
panels each placement has its own initialization. In the lower panels all have the same Xavier initialization, and
DeepNorm keeps its gain. The learning rate rises by 1e-6 a step, as in a warm-up to 1e-3 over a thousand steps: at 1e-3
from the first step, every model is as far from its start as it can be after five updates.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, outcome, plt, shown, table  # noqa: E402

DEPTHS = [6, 24, 100]
PLACEMENTS = ["post", "pre", "sandwich", "deepnorm"]

study = Study(__doc__)
steps = 400 if study.long else 100
shared = f"""--channels 64 --hidden 128 --heads 2 --context 128 --batch 4 --steps {steps} --warmup {steps}
    --schedule constant --lr {1e-6 * steps:g} --clip 0 --weight-decay 0 --beta2 0.98 --eval-every {steps}
    --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics 5"""
depths = "layers=" + ",".join(map(str, DEPTHS))
PANELS = {
    "own": ("each placement's own initialization", f"--grid placement={','.join(PLACEMENTS)} {depths} seed=1,2,3"),
    "xavier": ("the same Xavier for all (DeepNorm with its gain)",
               f"--grid placement=post,pre,sandwich init=xavier residual-gain=false {depths} seed=1,2,3 "
               f"+ placement=deepnorm {depths}"),
}


def cell_of(rows, placement, layers):
    return rows[(rows.placement == placement) & (rows.layers == layers)]


figure, axes = plt.subplots(4, 3, figsize=(12, 13), sharex=True, sharey="row")
rows = []
for panel, (label, (init, grid)) in enumerate(PANELS.items()):
    tables = study.compare(label, f"{shared} {grid}")
    d = tables.read("diagnostics")
    update = d[(d.part == "model") & (d.what == "update")]
    for column, layers in enumerate(DEPTHS):
        top, bottom = axes[2 * panel, column], axes[2 * panel + 1, column]
        for placement in PLACEMENTS:
            moved = cell_of(update, placement, layers)
            draw_band(top, moved.groupby("step").value, color=COLOR[placement], label=placement)
            losses = cell_of(tables.curves, placement, layers).groupby("step").train_loss.mean()
            bottom.plot(losses.index, losses, color=COLOR[placement])
            early = moved[moved.step == 20].value
            final = outcome(cell_of(tables.runs, placement, layers))
            rows.append([init, layers, placement, shown(early, 2) if len(early) else "", final])
        top.set(title=f"{layers} layers\n{init}" if column == 1 else f"{layers} layers\n", yscale="log")
        if column == 0:
            top.set_ylabel("model update")
            bottom.set_ylabel("training loss")
for axis in axes[-1]:
    axis.set_xlabel("step")
axes[0, 0].legend()
study.publish(figure, table(rows, ["initialization", "layers", "placement", "model update at step 20",
                                   f"loss after {steps} steps"]))
