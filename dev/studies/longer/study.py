#!/usr/bin/env python3
"""The survey's main rows at five times the steps: who leads at the end of a longer training?

The setting of the survey, 12 layers x 64 channels, for 2000 steps instead of 400: four placements with LayerNorm. Each
has its own initialization, and tunes its rate and warm-up together. --long has all placements, Pre-LN also with RMSNorm
and with a stream that begins at size 1, and a longer search. Build with `make MARCH=x86-64-v3`: the runs then have the
same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, interval, look_of, outcome, plt, stored, table, tuned_to  # noqa: E402

CELLS = "placement=post,pre,deepnorm,lns norm=layernorm"
MORE = """+ placement=sandwich,glm-deepnorm,reordered,pre-post,mix-ln,sub-ln,layerscale norm=layernorm
    + placement=pre norm=rmsnorm + placement=pre norm=layernorm tied=off embedding-scale=50 + placement=rezero,none"""
STEPS = 2000


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
    return min(done) - 0.015, max(done) + 0.015


def draw_ends(axis, cells):
    for y, (_, some) in enumerate(cells):
        done = some[some.state == "finished"].final_val
        if len(done) == len(some):
            mean, half = interval(done)
            axis.errorbar(mean, y, xerr=half, color=look(some)["color"], capsize=3, linewidth=1.2)
        axis.plot(done, [y] * len(done), look_of(some.placement.iloc[0])["marker"], alpha=0.7, **look(some))
        if len(done) < len(some):
            axis.annotate(f"{outcome(some)} →", (1, y), xycoords=axis.get_yaxis_transform(), ha="right", va="center")
    axis.set(yticks=range(len(cells)), yticklabels=[name for name, _ in cells], ylim=(len(cells) - 0.5, -0.5),
             xlim=ends(cells), xlabel=f"validation loss after {STEPS} steps", title="each seed, and 95 % intervals")


def draw_curves(axis, curves, cells):
    for number, (name, some) in enumerate(cells):
        median = curves[curves.name == name].dropna(subset="val_loss").groupby("step").val_loss.median()
        axis.plot(median.index, median, label=name, markevery=(number % 4, 4),
                  **{**look_of(some.placement.iloc[0]), **look(some)})
    ticks = [0.2, 0.3, 0.5, 1, 2, 4]
    axis.set(xlabel="step", ylabel="validation loss", yscale="log", title="median of the seeds")
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.legend(fontsize=9)


def published():
    """The table in README.md, from the stored runs."""
    verdicts = named(stored(__file__, "cells-summary")).set_index("name")
    rows = []
    for name, some in by_loss(final(stored(__file__, "cells-runs"))):
        cell = verdicts.loc[name]
        known = cell.difference == cell.difference and cell.verdict != "baseline"  # not NaN
        difference = f"{cell.difference:+.3f} ± {cell.difference_ci:.3f}" if known else ""
        p = f"{cell.p_holm:.2g}" if known else ""
        rows.append([name, *tuned_to(cell), outcome(some), difference, p,
                     cell.verdict_holm if (some.state == "finished").all() else ""])
    return table(rows, ["placement", "rate", "warm-up", "final loss", "minus Pre-LN, LayerNorm", "p (Holm)",
                        "verdict (Holm)"])


def main():
    study = Study(__doc__)
    tables = study.compare("cells", f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {STEPS}
        --tune lr=3e-3,9e-3 warmup=10%,30% --tune-runs {16 if study.long else 6} --eval-every {STEPS // 20}
        --eval-batches 20 --val-fraction 0.02 --save-every 0 --baseline placement=pre,norm=layernorm
        --grid {CELLS} {MORE if study.long else ""}""")
    cells = by_loss(final(tables.runs))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8))
    draw_curves(axes[0], final(tables.curves), cells)
    draw_ends(axes[1], cells)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
