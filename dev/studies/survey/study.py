#!/usr/bin/env python3
"""The survey: every placement with LayerNorm and RMSNorm, and BatchNorm and DyT against LayerNorm and no norm.

12 layers x 64 channels, each placement with its own initialization. The learning rate and the warm-up are tuned
together on a separate seed, then three fresh seeds are run. The kinds of norm, under Pre-LN, run one at a time, so that
seconds can be compared. LayerNorm and DyT also run with the settings of DyT's authors: a stream that begins at size 1,
a larger alpha, and an untied classifier (as in Llama). Where the search found a better pair with LayerNorm than with
RMSNorm, both norms also run at that pair.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, draw_by_time, interval, outcome, plt, shown, table, tuned_to  # noqa: E402

PLACEMENTS = ["post", "pre", "sandwich", "deepnorm", "glm-deepnorm", "reordered", "pre-post", "mix-ln", "lns",
              "sub-ln", "layerscale"]
WITHOUT = ["rezero", "none"]  # placements without norms
COLOR = {"layernorm": "#0072B2", "rmsnorm": "#D55E00", "batchnorm": "#009E73", "dyt": "#CC79A7", "none": "#000000",
         "layernorm, wide": "#56B4E9", "dyt, wide": "#E69F00"}
MARKER, FACE = {"layernorm": "o", "rmsnorm": "s", "none": "D"}, {"rmsnorm": "white"}
WIDE = "tied=off embedding-scale=50 dyt-alpha=1"  # the embedding's standard deviation, 0.02, becomes 1


def named(rows):
    """The rows with the norm's name: "none" if the placement has no norm, "..., wide" if the stream starts at 1."""
    wide = rows.cell.str.contains("embedding-scale").map({True: ", wide", False: ""})
    return rows.assign(norm=rows.norm.fillna("none") + wide)


def final(tables):
    return named(tables.runs[tables.runs.stage == "final"])


def cells(tables):
    """Name and runs of each cell of the final stage, by ascending mean loss; cells with unfinished runs come last."""
    groups = [(key, some) for key, some in final(tables).groupby(["placement", "norm"])]
    return sorted(groups, key=lambda cell: ((cell[1].state != "finished").sum(), cell[1].final_val.mean()))


def mean_of(values, digits):
    """The mean, or "" if a run has no value."""
    return f"{values.mean():.{digits}f}" if values.notna().all() else ""


def draw_placements(axis, tables):
    names = list(dict.fromkeys(placement for (placement, _), _ in cells(tables)))
    for (placement, norm), some in cells(tables):
        y = names.index(placement) + {"layernorm": -0.14, "rmsnorm": 0.14}.get(norm, 0)
        if (some.state == "finished").all():
            mean, half = interval(some.final_val)
            axis.errorbar(mean, y, xerr=half, color=COLOR[norm], capsize=2, linewidth=1)
        axis.plot(some.final_val, [y] * len(some), MARKER[norm], color=COLOR[norm], mfc=FACE.get(norm), markersize=4)
    for norm, marker in MARKER.items():
        name = "no norm" if norm == "none" else norm
        axis.plot([], [], marker, color=COLOR[norm], mfc=FACE.get(norm), label=name)
    unigram = tables.runs.unigram.iloc[0]
    axis.axvline(unigram, color="0.5", linestyle=":", linewidth=1)
    axis.annotate("unigram entropy", (unigram, 1), xycoords=("data", "axes fraction"), xytext=(-4, -8),
                  textcoords="offset points", ha="right", va="top", color="0.4", fontsize=8, rotation=90)
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5),
             xlabel=f"validation loss after {steps} steps", title="placements")
    axis.legend(fontsize=8)


study = Study(__doc__)
steps = 3000 if study.long else 400
sizes = f"--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}"
rest = f"--eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0"
shared = f"{sizes} --tune lr=1e-3,3e-3 warmup=10%,30% --tune-runs 16 {rest}"
kinds = study.compare("kinds", f"""{shared} --grid placement=pre norm=layernorm,batchnorm,dyt
    + placement=pre norm=layernorm,dyt {WIDE} + placement=none""", jobs=1)
placements = study.compare("placements", f"""{shared} --baseline placement=pre,norm=layernorm
    --grid placement={",".join(PLACEMENTS)} norm=layernorm,rmsnorm + placement={",".join(WITHOUT)}""")
same = study.compare("same", f"""{sizes} {rest} --lr 3e-3 --warmup 90%
    --baseline placement=post,norm=layernorm --grid placement=post,pre-post norm=layernorm,rmsnorm seed=1,2,3""")

figure, axes = plt.subplot_mosaic([["placements", "steps"], ["placements", "seconds"]], figsize=(10, 7),
                                  width_ratios=[1.3, 1])
draw_placements(axes["placements"], placements)
curves = named(kinds.curves[kinds.curves.stage == "final"]).rename(columns={"norm": "name"})
draw_by_time(axes["steps"], axes["seconds"], curves, {name: COLOR[name] for name in curves.name.unique()}, top=4)
axes["steps"].set(title="kinds of norm, Pre-LN")
verdicts = named(placements.summary).set_index(["placement", "norm"])
rows = []
for name, some in cells(placements):
    cell = verdicts.loc[name]
    known = cell.difference == cell.difference and cell.verdict != "baseline"  # not NaN
    difference = f"{cell.difference:+.3f} ± {cell.difference_ci:.3f}" if known else ""
    norm = name[1] if name[1] != "none" else ""
    rows.append([name[0], norm, *tuned_to(cell), outcome(some), difference, cell.verdict_holm])
by_placement = table(rows, ["placement", "norm", "rate", "warm-up", "final loss", "against Pre-LN, LayerNorm",
                            "verdict (Holm)"])
target = kinds.summary.target.iloc[0]
rows = [[norm, f"{some.peak_lr.iloc[0]:g}", some.warmup.iloc[0], outcome(some), shown(some.seconds, 1),
         mean_of(some.steps_to_target, 0), mean_of(some.seconds_to_target, 1)] for (_, norm), some in cells(kinds)]
by_kind = table(rows, ["norm, under Pre-LN", "rate", "warm-up", "final loss", "seconds",
                       f"steps to {target:.3f}", f"seconds to {target:.3f}"])
rows = [[*names, outcome(some)] for names, some in same.runs.groupby(["placement", "norm"])]
by_norm = table(rows, ["placement, at 0.003 and 90 %", "norm", "final loss"])
study.publish(figure, "\n".join([by_placement, by_norm, by_kind]))
