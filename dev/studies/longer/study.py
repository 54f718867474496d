#!/usr/bin/env python3
"""The survey's main rows at five times the tokens: who leads at the end of a longer training?

The setting of the survey, 12 layers x 64 channels, for 2000 steps instead of 400: each placement with LayerNorm and
its own initialization, rate and warm-up, Pre-LN also with RMSNorm and with a stream that begins at size 1. Build with
`make MARCH=x86-64-v3`: the runs then have the same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, interval, look_of, outcome, plt, table, tuned_to  # noqa: E402

PLACEMENTS = ["post", "pre", "sandwich", "deepnorm", "glm-deepnorm", "reordered", "pre-post", "mix-ln", "lns",
              "sub-ln", "layerscale"]
WIDE = "tied=off embedding-scale=50"  # the embedding's standard deviation, 0.02, becomes 1


def named(rows):
    """The rows with the name of their cell: the placement, and what differs from LayerNorm and a small stream."""
    norm = rows.norm.map({"rmsnorm": ", RMSNorm"}).fillna("")
    wide = rows.cell.str.contains("embedding-scale").map({True: ", wide", False: ""})
    return rows.assign(name=rows.placement + norm + wide)


def final(rows):
    return named(rows[rows.stage == "final"])


def by_loss(runs):
    """Name and runs of each cell, by ascending mean loss; cells with unfinished runs come last."""
    return sorted(runs.groupby("name"),
                  key=lambda cell: ((cell[1].state != "finished").sum(), cell[1].final_val.mean()))


def look(some):
    """Color and face of a cell's points: Pre-LN with RMSNorm or a wide stream is hollow."""
    color = COLOR[some.placement.iloc[0]]
    return {"color": color, "mfc": "white" if "," in some.name.iloc[0] else color}


def ends(cells):
    """Limits of the losses of finished runs. A wide interval may reach beyond them."""
    done = [loss for _, some in cells for loss in some[some.state == "finished"].final_val]
    return min(done) - 0.05, max(done) + 0.1


def draw_ends(axis, cells):
    for y, (_, some) in enumerate(cells):
        if (some.state == "finished").all():
            mean, half = interval(some.final_val)
            axis.errorbar(mean, y, xerr=half, color=look(some)["color"], capsize=2, linewidth=1)
        done = some[some.state == "finished"].final_val
        axis.plot(done, [y] * len(done), "o", alpha=0.6, markersize=4, **look(some))
        if len(done) < len(some):
            axis.annotate(f"{outcome(some)} →", (1, y), xycoords=axis.get_yaxis_transform(), ha="right", va="center")
    axis.set(yticks=range(len(cells)), yticklabels=[name for name, _ in cells], ylim=(len(cells) - 0.5, -0.5),
             xlim=ends(cells), xlabel=f"validation loss after {steps} steps", title="at the end")


def draw_curves(axis, curves, cells, named):
    """The median of each cell; thin and gray unless it is one of `named`."""
    for name, some in cells:
        median = curves[curves.name == name].dropna(subset="val_loss").groupby("step").val_loss.median()
        of_its_own = {"label": name, "markevery": 5, **look_of(some.placement.iloc[0]), **look(some)}
        axis.plot(median.index, median, **(of_its_own if name in named else {"color": "0.75", "linewidth": 0.8}))
    axis.plot([], [], color="0.75", linewidth=0.8, label="the others")
    axis.set(xlabel="step", ylabel="validation loss", yscale="log", title="median of the seeds")
    ticks = [0.2, 0.3, 0.5, 1, 2, 4]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.legend(fontsize=9)


study = Study(__doc__)
steps = 10000 if study.long else 2000
comparison = study.compare("cells", f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
    --tune lr=1e-3,3e-3 warmup=10%,30% --tune-runs 10 --eval-every {steps // 40} --eval-batches 20
    --val-fraction 0.02 --save-every 0 --baseline placement=pre,norm=layernorm
    --grid placement={",".join(PLACEMENTS)} norm=layernorm + placement=pre norm=rmsnorm
    + placement=pre norm=layernorm {WIDE} + placement=rezero,none""")

cells = by_loss(final(comparison.runs))
verdicts = named(comparison.summary).set_index("name")
finished = [name for name, some in cells if (some.state == "finished").all()]
figure, axes = plt.subplots(1, 2, figsize=(10, 4.8))
draw_curves(axes[0], final(comparison.curves), cells, {"pre", *finished[:2], *finished[-2:]})
draw_ends(axes[1], cells)
rows = []
for name, some in cells:
    cell = verdicts.loc[name]
    known = cell.difference == cell.difference and cell.verdict != "baseline"  # not NaN
    difference = f"{cell.difference:+.3f} ± {cell.difference_ci:.3f}" if known else ""
    rows.append([name, *tuned_to(cell), outcome(some), difference,
                 cell.verdict_holm if (some.state == "finished").all() else ""])
study.publish(figure, table(rows, ["placement", "rate", "warm-up", "final loss", "minus Pre-LN, LayerNorm",
                                  "verdict (Holm)"]))
