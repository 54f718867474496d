#!/usr/bin/env python3
"""Three claims that practitioners repeat:

1. BLOOM's embedding norm is steadier, at some cost in loss.
2. Pre-LN ends slightly worse than Post-LN once both converge.
3. Sandwich-LN is unstable.

Each has a small test: 6 layers x 64 channels (the second claim: 4 layers and more steps).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import (COLOR, Study, capped, draw_band, draw_means, look_of, outcome, plt,  # noqa: E402
                    rate_axis, signed, stored, table)

RATES, HIGH = ["1e-3", "3e-3", "1e-2", "3e-2"], ["1e-2", "3e-2", "1e-1"]
TICKS = [0.2, 0.3, 0.5, 1, 2, 4]


def rows_of(name, runs, clips=True):
    """A row for each rate of a model: final loss, and how often gradients spike and are clipped."""
    return [[name, f"lr {rate:g}", outcome(cell), f"{100 * cell.grad_spikes.mean():.2f} %",
             f"{100 * cell.clipped.mean():.0f} %" if clips else ""] for rate, cell in runs.groupby("peak_lr")]


def differences(name, runs, column, less, more, clips=True):
    """A row for each rate: the final losses of one value of a column minus another's, over runs of the same seed, and
    the same of the share of clipped steps."""
    rows = []
    for rate, some in runs.groupby("peak_lr"):
        by_seed = some.pivot(index="seed", columns=column, values=["final_val", "clipped"])
        pairs = [by_seed[value][more] - by_seed[value][less] for value in ("final_val", "clipped")]
        rows.append([name, f"lr {rate:g}", signed(pairs[0], 2), signed(pairs[1], 2) if clips else ""])
    return rows


def published():
    """The tables in README.md, from the stored runs."""
    embedding, converged, sandwich = (stored(__file__, f"{label}-runs")
                                      for label in ("embedding", "converged", "sandwich"))
    rows = []
    for present in False, True:
        name = f"Pre-LN {'with' if present else 'without'} embedding norm"
        rows += rows_of(name, embedding[embedding["embedding-norm"] == present])
    final = converged[converged.stage == "final"]
    for placement in "post", "pre":
        cell = final[final.placement == placement]
        rows += rows_of(f"{placement.capitalize()}-LN, 4 layers, {cell.steps.iloc[0]} steps", cell)
    for placement in "pre", "sandwich":
        rows += rows_of(f"{placement}, no clipping", sandwich[sandwich.placement == placement], clips=False)
    pre = stored(__file__, "converged-summary").set_index("placement").loc["pre"]
    difference = f"Pre-LN − Post-LN: {pre.difference:+.4f} ± {pre.difference_ci:.4f} ({pre.verdict})."
    pairs = differences("with − without embedding norm", embedding, "embedding-norm", False, True)
    pairs += differences("sandwich − pre, no clipping", sandwich, "placement", "pre", "sandwich", clips=False)
    return table(rows, ["model", "rate", "final loss", "gradient spikes", "clipped steps"]) + f"\n{difference}\n\n" + \
        table(pairs, ["difference", "rate", "loss", "share of clipped steps"])


def draw_embedding(axis, runs):
    """1. A norm after the embedding, in Pre-LN."""
    for present, color, line in (False, "#0072B2", "-o"), (True, "#D55E00", "--s"):
        cells = runs[runs["embedding-norm"] == present]
        draw_means(axis, capped(cells).groupby(cells.peak_lr), shift=1.04 if present else 0.96, fmt=line, color=color,
                   label="with" if present else "without")
    rate_axis(axis, RATES, title="embedding norm, Pre-LN")


def draw_converged(axis, curves):
    """2. Post-LN against Pre-LN, each at its best rate, until the curves are flat."""
    for placement in "post", "pre":
        some = curves[(curves.stage == "final") & (curves.placement == placement)].dropna(subset="val_loss")
        draw_band(axis, some.groupby("step").val_loss, look_of(placement)["linestyle"], color=COLOR[placement],
                  label=f"{placement.capitalize()}-LN")
    axis.set(xlabel="step", title="4 layers, each at its best rate", yscale="log")
    axis.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()


def draw_sandwich(axis, runs):
    """3. Sandwich-LN against Pre-LN, without clipping, at high rates."""
    for placement in "pre", "sandwich":
        cells = runs[runs.placement == placement]
        draw_means(axis, capped(cells).groupby(cells.peak_lr), shift=0.96 if placement == "pre" else 1.04,
                   label=placement, **look_of(placement))
    rate_axis(axis, HIGH, title="without clipping")


def main():
    study = Study(__doc__)
    steps, far = (3000, 12000) if study.long else (600, 3000)
    shared = "--channels 64 --heads 4 --context 128 --batch 4 --eval-batches 20 --val-fraction 0.02 --save-every 0"
    short = f"{shared} --layers 6 --steps {steps} --warmup {steps // 10} --eval-every {steps // 4}"
    embedding = study.compare("embedding", f"{short} --grid embedding-norm=false,true lr={','.join(RATES)} seed=1,2,3")
    converged = study.compare("converged", f"""{shared} --layers 4 --steps {far} --warmup {far // 10}
        --eval-every {far // 20} --grid placement=post,pre norm=layernorm --tune lr=3e-4,1e-3,3e-3,1e-2""")
    sandwich = study.compare("sandwich", f"{short} --clip 0 --grid placement=pre,sandwich lr={','.join(HIGH)} "
                             "seed=1,2,3")
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.7))
    draw_embedding(axes[0], embedding.runs)
    draw_converged(axes[1], converged.curves)
    draw_sandwich(axes[2], sandwich.runs)
    axes[0].set_ylabel(f"validation loss after {steps} steps")
    for axis in axes:
        axis.title.set_fontsize(10)
        axis.legend(fontsize=9)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
