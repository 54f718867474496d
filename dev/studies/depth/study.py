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
import pandas  # noqa: E402
from common import Study, capped, draw_means, look_of, outcome, plt, shown, stored, table  # noqa: E402

DEPTHS = [6, 24, 100]
PLACEMENTS = ["post", "pre", "sandwich", "deepnorm"]

SEED = "seed=1,2,3"
PANELS = {
    "own": ("each placement's own initialization", f"placement={','.join(PLACEMENTS)} {{}} {SEED}"),
    "xavier": ("the same Xavier for all (DeepNorm with its gain)",
               f"placement=post,pre,sandwich init=xavier residual-gain=false {{}} {SEED} + placement=deepnorm {{}}"),
}


def of(rows, placement, layers):
    return rows[(rows.placement == placement) & (rows.layers == layers)]


def updates(tables, label):
    """The model update at step 20 of each run."""
    d = tables.read("diagnostics")
    early = d[(d.part == "model") & (d.what == "update") & (d.step == 20)]
    return early[["layers", "placement", "seed", "value"]].assign(init=label)


def published():
    """The table in README.md, from the stored runs and updates."""
    moved, rows = stored(__file__, "updates"), []
    for label, (init, _) in PANELS.items():
        runs = stored(__file__, f"{label}-runs")
        rows += [[init, layers, placement, shown(of(moved[moved.init == label], placement, layers).value, 2),
                  outcome(of(runs, placement, layers))] for layers in DEPTHS for placement in PLACEMENTS]
    return table(rows, ["initialization", "layers", "placement", "model update at step 20",
                        f"loss after {runs.steps.iloc[0]} steps"])


def draw(by_update, by_loss, moved, runs):
    for number, placement in enumerate(PLACEMENTS):
        look = {"shift": 1 + 0.05 * (number - 1.5), "label": placement, **look_of(placement)}
        moves, losses = (rows[rows.placement == placement] for rows in (moved, runs))
        draw_means(by_update, moves.value.groupby(moves.layers), **look)
        draw_means(by_loss, capped(losses).groupby(losses.layers), **look)
    by_update.set(ylabel="model update at step 20", yscale="log")
    by_loss.set(ylabel=f"validation loss after {runs.steps.iloc[0]} steps")
    for axis in by_update, by_loss:
        axis.title.set_fontsize(10)
        axis.set(xscale="log", xticks=DEPTHS, xticklabels=DEPTHS)
        axis.minorticks_off()


def main():
    study = Study(__doc__)
    steps = 400 if study.long else 100
    shared = f"""--channels 64 --hidden 128 --heads 2 --context 128 --batch 4 --steps {steps} --warmup {steps}
        --schedule constant --lr {1e-6 * steps:g} --clip 0 --weight-decay 0 --beta2 0.98 --eval-every {steps}
        --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics 5"""
    depths = "layers=" + ",".join(map(str, DEPTHS))
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.6), sharex=True, sharey="col")
    moved = []
    for row, (label, (init, grid)) in zip(axes, PANELS.items()):
        tables = study.compare(label, f"{shared} --grid {grid.format(depths, depths)}")
        moved.append(updates(tables, label))
        draw(*row, moved[-1], tables.runs)
        row[0].set_title(init)
    pandas.concat(moved).to_csv(study.folder / "updates.csv", index=False)
    for axis in axes[-1]:
        axis.set_xlabel("layers")
    axes[0, 0].legend(fontsize=9)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
