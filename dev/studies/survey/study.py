#!/usr/bin/env python3
"""The survey: every placement with LayerNorm and RMSNorm, and BatchNorm and DyT against LayerNorm and no norm.

12 layers x 64 channels, each placement with its own initialization. The learning rate and the warm-up are tuned
together on a separate seed, then three fresh seeds are run. LayerNorm and DyT, under Pre-LN, also run with the settings
of DyT's authors: a stream that begins at size 1, a larger alpha, and an untied classifier (as in Llama).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import LINES, Study, interval, outcome, plt, stored, table, tuned_to  # noqa: E402

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


def final(runs):
    return named(runs[runs.stage == "final"])


def cells(runs):
    """Name and runs of each cell of the final stage, by ascending mean loss; cells with unfinished runs come last."""
    groups = [(key, some) for key, some in final(runs).groupby(["placement", "norm"])]
    return sorted(groups, key=lambda cell: ((cell[1].state != "finished").sum(), cell[1].final_val.mean()))


def mean_of(values, digits):
    """The mean, or "" if a run has no value."""
    return f"{values.mean():.{digits}f}" if values.notna().all() else ""


def draw_placements(axis, runs):
    names = list(dict.fromkeys(placement for (placement, _), _ in cells(runs)))
    for (placement, norm), some in cells(runs):
        y = names.index(placement) + {"layernorm": -0.14, "rmsnorm": 0.14}.get(norm, 0)
        if (some.state == "finished").all():
            mean, half = interval(some.final_val)
            axis.errorbar(mean, y, xerr=half, color=COLOR[norm], capsize=2, linewidth=1)
        axis.plot(some.final_val, [y] * len(some), MARKER[norm], color=COLOR[norm], mfc=FACE.get(norm), markersize=4)
    for norm, marker in MARKER.items():
        name = "no norm" if norm == "none" else norm
        axis.plot([], [], marker, color=COLOR[norm], mfc=FACE.get(norm), label=name)
    unigram = runs.unigram.iloc[0]
    axis.axvline(unigram, color="0.5", linestyle=":", linewidth=1)
    axis.annotate("unigram entropy", (unigram, 1), xycoords=("data", "axes fraction"), xytext=(-4, -8),
                  textcoords="offset points", ha="right", va="top", color="0.4", fontsize=8, rotation=90)
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5),
             xlabel="validation loss at the end", title="placements")
    axis.legend(fontsize=8)


def draw_kinds(axis, curves):
    """Validation loss of each norm: the median of the seeds, and thin lines for the seeds."""
    for number, (name, some) in enumerate(curves.groupby("norm", sort=False)):
        at, look = some.dropna(subset="val_loss"), {"color": COLOR[name], "linestyle": LINES[number % len(LINES)]}
        median = at.groupby("step").val_loss.median()
        axis.plot(median.index, median, marker="osD^vP"[number], markevery=(number, 5), label=name, **look)
        for _, seed in at.groupby("seed"):
            axis.plot(seed.step, seed.val_loss, linewidth=0.5, **look)
    axis.set(xlabel="step", ylabel="validation loss", ylim=(1.2, 4), title="kinds of norm, Pre-LN")
    axis.legend(fontsize=8, loc="upper right")


def difference(cell):
    """A cell's paired difference to the baseline, or "" if there is none."""
    known = cell.difference == cell.difference and cell.verdict != "baseline"  # not NaN
    return f"{cell.difference:+.3f} ± {cell.difference_ci:.3f}" if known else ""


def by_placement():
    verdicts = named(stored(__file__, "placements-summary")).set_index(["placement", "norm"])
    rows = []
    for name, some in cells(stored(__file__, "placements-runs")):
        cell = verdicts.loc[name]
        norm = name[1] if name[1] != "none" else ""
        p = f"{cell.p_holm:.2g}" if difference(cell) else ""
        rows.append([name[0], norm, *tuned_to(cell), outcome(some), difference(cell), p, cell.verdict_holm])
    return table(rows, ["placement", "norm", "rate", "warm-up", "final loss", "against Pre-LN, LayerNorm", "p (Holm)",
                        "verdict (Holm)"])


def by_kind():
    verdicts = named(stored(__file__, "kinds-summary")).set_index("norm")
    target = verdicts.target.iloc[0]
    rows = [[norm, *tuned_to(verdicts.loc[norm]), outcome(some), difference(verdicts.loc[norm]),
             mean_of(some.steps_to_target, 0)] for (_, norm), some in cells(stored(__file__, "kinds-runs"))]
    return table(rows, ["norm, under Pre-LN", "rate", "warm-up", "final loss", "against Pre-LN, LayerNorm",
                        f"steps to {target:.3f}"])


def published():
    """The tables in README.md, from the stored runs."""
    return f"{by_placement()}\n{by_kind()}"


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 400
    shared = f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
        --tune lr=1e-3,3e-3 warmup=10%,30% --tune-runs 16 --eval-every {steps // 20} --eval-batches 20
        --val-fraction 0.02 --save-every 0"""
    kinds = study.compare("kinds", f"""{shared} --grid placement=pre norm=layernorm,batchnorm,dyt
        + placement=pre norm=layernorm,dyt {WIDE} + placement=none""")
    placements = study.compare("placements", f"""{shared} --baseline placement=pre,norm=layernorm
        --grid placement={",".join(PLACEMENTS)} norm=layernorm,rmsnorm + placement={",".join(WITHOUT)}""")
    figure, axes = plt.subplots(1, 2, figsize=(10, 6.5), width_ratios=[1.3, 1])
    draw_placements(axes[0], placements.runs)
    draw_kinds(axes[1], final(kinds.curves))
    study.publish(figure, published())


if __name__ == "__main__":
    main()
