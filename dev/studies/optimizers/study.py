#!/usr/bin/env python3
"""Placement and optimizer: does the optimizer decide which placement wins?

6 layers x 128 channels, five seeds, with the same batches and initial weights in every cell. With Muon each of four
placements tunes its learning rate and its warm-up together, on a separate seed. With AdamW all have the warm-up and
each the rate that an earlier search found; a finer one confirmed them. --long has eight placements and a longer search.
Build with `make MARCH=x86-64-v3`: the runs then have the same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas  # noqa: E402
from common import COLOR, Study, interval, look_of, outcome, plt, signed, stats, stored, table, tuned_to  # noqa: E402
from words import holm  # noqa: E402

BASELINE = "pre"
OPTIMIZERS = {"adamw": "AdamW", "muon": "Muon"}
RATES = {"post": "3e-3", "pre": "3e-3", "sandwich": "1e-3", "deepnorm": "3e-3"}  # AdamW's
MORE = {"reordered": "3.3e-4", "pre-post": "3e-3", "none": "3e-3", "hyper": "3e-3"}
TICKS = [0.2, 0.3, 0.5, 1, 2, 4]


def losses(runs):
    """Final losses: a row per seed, a column per (placement, optimizer); cells with unfinished runs are left out."""
    wide = runs.pivot(index="seed", columns=["placement", "optimizer"], values="final_val")
    good = runs.groupby(["placement", "optimizer"]).state.apply(lambda states: (states == "finished").all())
    return wide[[cell for cell in wide.columns if good[cell]]]


def effect(final, placement, optimizer):
    """Placement minus baseline under one optimizer, seed by seed; None if a cell did not finish."""
    cells = (placement, optimizer), (BASELINE, optimizer)
    return final[cells[0]] - final[cells[1]] if all(cell in final for cell in cells) else None


def contrasts(final, placements):
    """Rows: the effect of a placement under each optimizer, and how the two differ, with Holm's p value."""
    effects = {p: [effect(final, p, o) for o in OPTIMIZERS] for p in placements if p != BASELINE}
    known = {p: pair for p, pair in effects.items() if all(part is not None for part in pair)}
    tests = [stats.ttest_1samp(muon - adamw, 0).pvalue for adamw, muon in known.values()]
    # A contrast without a result stays one of the comparisons: a cell that fails must not make the others significant.
    p_value = dict(zip(known, holm(tests, len(effects)), strict=True))
    rows = []
    for placement, parts in effects.items():
        cells = ["" if part is None else signed(part, 4) for part in parts]
        both = placement in known
        rows.append([placement, *cells, signed(parts[1] - parts[0], 4) if both else "",
                     f"{p_value[placement]:.2g}" if both else ""])
    return rows


def pairing(final):
    """Rows: mean variance of a difference between two cells with equal and with different seeds, by optimizer."""
    rows = []
    for optimizer, name in OPTIMIZERS.items():
        cells = [cell for cell in final if cell[1] == optimizer]
        pairs = [(a, b) for i, a in enumerate(cells) for b in cells[:i]]
        paired = sum((final[a] - final[b]).var() for a, b in pairs) / len(pairs)
        unpaired = sum(final[a].var() + final[b].var() for a, b in pairs) / len(pairs)
        rows.append([name, len(pairs), f"{paired**0.5:.4f}", f"{unpaired**0.5:.4f}", seeds_for(0.01, paired),
                     seeds_for(0.01, unpaired, degrees=2)])
    return rows


def seeds_for(difference, variance, degrees=1, power=0.8):
    """Seeds per cell with which a t test at 5 % finds a difference of this size four times in five."""
    for n in range(2, 1000):
        free = degrees * (n - 1)
        shift = difference / (variance / n) ** 0.5
        if 1 - stats.nct.cdf(stats.t.ppf(0.975, free), free, shift) >= power:
            return n
    return "1000+"


def draw_curves(axis, curves, optimizer):
    some = curves[curves.optimizer == optimizer].dropna(subset="val_loss")
    for placement, cell in some.groupby("placement", sort=False):
        for _, seed in cell.groupby("seed"):
            axis.plot(seed.step, seed.val_loss, color=COLOR[placement], linewidth=0.4, alpha=0.5)
        median = cell.groupby("step").val_loss.median()
        axis.plot(median.index, median, label=placement, markevery=8, **look_of(placement))
    axis.set(xlabel="step", ylabel="validation loss", yscale="log", title=OPTIMIZERS[optimizer])
    axis.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.legend(fontsize=8, ncols=2)


def draw_effects(axis, final, placements):
    names = [p for p in placements if p != BASELINE]
    for optimizer, shift, face in ("adamw", -0.12, "white"), ("muon", 0.12, None):
        for y, placement in enumerate(names):
            difference = effect(final, placement, optimizer)
            if difference is not None:
                mean, half = interval(difference)
                axis.errorbar(mean, y + shift, xerr=half, fmt="o", color=COLOR[placement], mfc=face, capsize=2)
        axis.plot([], [], "o", color="0.4", mfc=face, label=OPTIMIZERS[optimizer])
    axis.axvline(0, color="0.5", linewidth=1)
    axis.xaxis.set_major_locator(plt.MultipleLocator(0.01))
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5),
             xlabel=f"final loss minus that of {BASELINE}", title="at the end")
    axis.legend(fontsize=8)


def final_runs():
    """The final runs under both optimizers."""
    runs = pandas.concat([stored(__file__, f"{name}-runs").assign(optimizer=name) for name in OPTIMIZERS])
    return runs[runs.stage == "final"]


def pairs_found():
    """[rate, warm-up] of each cell. AdamW's are given, and Muon's have an asterisk if a neighbor was not tried."""
    muon = {("muon", row.placement): tuned_to(row) for row in stored(__file__, "muon-summary").itertuples()}
    adamw = stored(__file__, "adamw-summary")
    return {**muon, **{("adamw", row.placement): [f"{row.peak_lr:g}", "10%"] for row in adamw.itertuples()}}


def published():
    """The tables in README.md, from the stored runs."""
    runs, pairs = final_runs(), pairs_found()
    final, placements, rows = losses(runs), list(runs.placement.unique()), []
    for placement in placements:
        row = [placement]
        for optimizer in OPTIMIZERS:
            some = runs[(runs.placement == placement) & (runs.optimizer == optimizer)]
            row += [", ".join(pairs[optimizer, placement]), outcome(some)]
        rows.append(row)
    ends = table(rows, ["placement", "rate and warm-up, AdamW", "final loss, AdamW", "with Muon", "final loss, Muon"])
    effects = table(contrasts(final, placements), ["placement", f"minus {BASELINE}, AdamW", f"minus {BASELINE}, Muon",
                                                   "Muon's effect minus AdamW's", "p (Holm)"])
    seeds = table(pairing(final), ["optimizer", "pairs of cells", "deviation, paired", "deviation, unpaired",
                                   "seeds to find 0.01, paired", "unpaired"])
    return "\n".join([ends, effects, seeds])


def main():
    study = Study(__doc__)
    rates = {**RATES, **(MORE if study.long else {})}
    steps = 10000 if study.long else 2000
    shared = f"""--layers 6 --channels 128 --heads 4 --context 128 --batch 4 --steps {steps} --min-lr 0
        --eval-every {steps // 40} --eval-batches 20 --val-fraction 0.02 --save-every 0 --baseline """
    cells = " + ".join(f"placement={placement} lr={rate}" for placement, rate in rates.items())
    found = {
        "adamw": study.compare("adamw", f"""{shared} placement={BASELINE},lr={rates[BASELINE]} --warmup 10%
            --grid {cells} seed=1,2,3,4,5"""),
        "muon": study.compare("muon", f"""{shared} placement={BASELINE} --optimizer muon --tune lr=3e-3,9e-3
            warmup=10%,30% --tune-runs {10 if study.long else 6} --grid placement={",".join(rates)} seed=1,2,3,4,5"""),
    }
    curves = pandas.concat([tables.curves.assign(optimizer=optimizer) for optimizer, tables in found.items()])
    figure, axes = plt.subplot_mosaic([["adamw", "muon"], ["ends", "ends"]], figsize=(10, 7.6), height_ratios=[1.3, 1])
    axes["muon"].sharey(axes["adamw"])
    for optimizer in OPTIMIZERS:
        draw_curves(axes[optimizer], curves[curves.stage == "final"], optimizer)
    draw_effects(axes["ends"], losses(final_runs()), list(rates))
    study.publish(figure, published())


if __name__ == "__main__":
    main()
