#!/usr/bin/env python3
"""Depth (Wang et al. 2022, DeepNet, arXiv 2203.00555, figs. 4-6): how far the model moves in its first 100 updates.

64 channels, 128 in the feed-forward layer and 2 heads, as in the paper's tiny models; 6, 24 and 100 layers. The model
update is the mean over tokens of ‖h(x,θ) - h(x,θ₀)‖ on a fixed batch; h is the input of the classifier. In the upper
panels each placement has its own initialization. In the lower panels all have the same Xavier initialization, and
DeepNorm keeps its gain. Bars are 95 % t intervals. The learning rate rises by 1e-6 a step, as in a warm-up to 1e-3 over
a thousand steps: at 1e-3 from the first step, every model is as far from its start as it can be after five updates.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, capped, draw_means, look_of, outcome, plt, shown, table  # noqa: E402

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


def of(rows, placement, layers):
    return rows[(rows.placement == placement) & (rows.layers == layers)]


figure, axes = plt.subplots(2, 2, figsize=(10, 6.6), sharex=True, sharey="col")
rows = []
for (by_update, by_loss), (label, (init, grid)) in zip(axes, PANELS.items()):
    tables = study.compare(label, f"{shared} {grid}")
    d = tables.read("diagnostics")
    early = d[(d.part == "model") & (d.what == "update") & (d.step == 20)]
    for layers in DEPTHS:
        for placement in PLACEMENTS:
            moved = of(early, placement, layers).value
            rows.append([init, layers, placement, shown(moved, 2) if len(moved) else "",
                         outcome(of(tables.runs, placement, layers))])
    for number, placement in enumerate(PLACEMENTS):
        look = {"shift": 1 + 0.05 * (number - 1.5), "label": placement, **look_of(placement)}
        moved, runs = (table[table.placement == placement] for table in (early, tables.runs))
        draw_means(by_update, moved.value.groupby(moved.layers), **look)
        draw_means(by_loss, capped(runs).groupby(runs.layers), **look)
    by_update.set(title=init, ylabel="model update at step 20", yscale="log")
    by_loss.set(ylabel=f"validation loss after {steps} steps")
    for axis in by_update, by_loss:
        axis.title.set_fontsize(10)
        axis.set(xscale="log", xticks=DEPTHS, xticklabels=DEPTHS)
        axis.minorticks_off()
for axis in axes[-1]:
    axis.set_xlabel("layers")
axes[0, 0].legend(fontsize=9)
study.publish(figure, table(rows, ["initialization", "layers", "placement", "model update at step 20",
                                   f"loss after {steps} steps"]))
