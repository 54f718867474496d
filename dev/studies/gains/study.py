#!/usr/bin/env python3
"""Weight decay of the gains of norms (Wang et al. 2026, arXiv 2605.26895): helps input norms, harms output norms?

Every branch of Sandwich-LN has a norm of each kind, here RMSNorm. A cell lets the gains of input norms decay, those
of output norms, both or neither, by 0.125 or by 1; its matrices decay by 0.1. Each cell trains at every rate (part
"rates"), and then with fresh seeds at its best rate (part "fresh"). --keep trains only parts that are not stored yet,
--only those that it names, --stored none.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import (Study, capped, interval, mean_by, not_trained, outcome, part_options, plt,  # noqa: E402
                    rate_axis, signed, stats, stored, table)
from words import holm  # noqa: E402

HERE = Path(__file__).parent
PARTS = {"rates": "every rate", "fresh": "fresh seeds at the best rates"}
RATES = ["1e-3", "3e-3", "1e-2", "3e-2", "9e-2", "2.7e-1"]
STEPS = 800
FRESH = range(4, 14)
# Decay of the gains of input norms and of output norms.
CELLS = {(0, 0): "none", (0.125, 0): "input, 0.125", (0, 0.125): "output, 0.125", (0.125, 0.125): "all, 0.125",
         (1, 0): "input, 1", (0, 1): "output, 1", (1, 1): "all, 1"}
COLORS = {(0.125, 0): "C0", (0, 0.125): "C1", (0.125, 0.125): "C2", (1, 0): "C0", (0, 1): "C1", (1, 1): "C2"}


def cells(runs):
    """(decays, runs) in the order of CELLS."""
    found = dict(list(runs.groupby(["norm-decay", "norm-decay-out"])))
    return [(decays, found[decays]) for decays in CELLS]


def losses(runs):
    """Final losses: a row per seed, a column per rate."""
    return runs.assign(loss=capped(runs)).pivot(index="seed", columns="peak_lr", values="loss")


def differences(runs):
    """[decays, [difference to no decay at each rate]] of all cells but the first."""
    (_, none), *others = cells(runs)
    return [(decays, [losses(cell)[float(rate)] - losses(none)[float(rate)] for rate in RATES])
            for decays, cell in others]


def best_rates(runs):
    """The rate with the lowest mean loss, of each cell."""
    return {decays: mean_by(cell, "peak_lr").idxmin() for decays, cell in cells(runs)}


def fresh_rows(fresh):
    """Rows: each cell at its best rate with fresh seeds, beside no decay at its own, with Holm's p value."""
    (_, none), *others = cells(fresh)
    base = none.set_index("seed").final_val
    differences = [cell.set_index("seed").final_val - base for _, cell in others]
    corrected = holm([stats.ttest_1samp(values, 0).pvalue for values in differences])
    tests = [["", ""], *([signed(values), f"{p:.2g}"] for values, p in zip(differences, corrected, strict=True))]
    return [[CELLS[decays], f"{cell.peak_lr.iloc[0]:g}", outcome(cell), *test]
            for (decays, cell), test in zip(cells(fresh), tests, strict=True)]


def has(part):
    return (HERE / f"{part}-runs.csv").exists()


def rate_tables():
    """Losses of each cell at each rate, and their differences to no decay."""
    runs = stored(__file__, "rates-runs")
    rows = [[CELLS[decays], *(outcome(at) for _, at in cell.groupby("peak_lr"))] for decays, cell in cells(runs)]
    found = differences(runs)
    corrected = iter(holm([stats.ttest_1samp(at, 0).pvalue for _, row in found for at in row]))
    beside = [[CELLS[decays], *(signed(at) + ("*" if next(corrected) < 0.05 else "") for at in row)]
              for decays, row in found]
    return "\n".join([table(rows, ["decay of gains", *(f"lr {rate}" for rate in RATES)]),
                      table(beside, ["minus no decay, at the same rate", *RATES])])


def fresh_table():
    """Each cell at its best rate, with fresh seeds."""
    return table(fresh_rows(stored(__file__, "fresh-runs")), ["decay of gains", "best rate", "final loss, fresh seeds",
                                                              "minus no decay at its best", "p (Holm)"])


def published():
    """The picture and the tables in README.md, from the parts that are stored."""
    missing = [what for part, what in PARTS.items() if not has(part)]
    lines = not_trained(missing)
    if has("rates"):
        lines += ["![Loss by rate for each decay of gains, and its difference to no decay](gains/picture.png)\n",
                  rate_tables()]
    return "\n".join([*lines, *([fresh_table()] if has("fresh") else [])])


def picture():
    """Left, loss against rate; right, the difference to no decay at the same rate."""
    runs = stored(__file__, "rates-runs")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
    for decays, cell in cells(runs):
        mean = mean_by(cell, "peak_lr")
        look = {"color": COLORS.get(decays, "0.2"), "linestyle": "--" if 0.125 in decays else "-", "marker": "o"}
        left.plot(mean.index, mean, label=CELLS[decays], **look)
    for decays, row in differences(runs):
        shift = 1 + 0.03 * (list(CELLS).index(decays) - 3.5)
        means, halves = zip(*map(interval, row))
        right.errorbar([float(rate) * shift for rate in RATES], means, yerr=halves, capsize=2, elinewidth=1,
                       color=COLORS[decays], linestyle="--" if 0.125 in decays else "-", marker="o", markersize=3)
    right.axhline(0, color="0.5", linewidth=1)
    for axis in left, right:
        rate_axis(axis, RATES)
        axis.set_xticklabels(RATES)
    left.set_ylabel(f"validation loss after {STEPS} steps")
    right.set_ylabel("minus that without decay")
    left.legend(title="decay of gains", fontsize=8)
    return figure


SHARED = f"""--placement sandwich --norm rmsnorm --layers 6 --channels 64 --heads 4 --context 128 --batch 4
    --steps {STEPS} --warmup 20% --eval-every {STEPS // 4} --eval-batches 20 --val-fraction 0.02 --save-every 0"""


def options_of(part):
    if part == "rates":
        crossed = f"lr={','.join(RATES)} seed=1,2,3"
        return f"""{SHARED} --grid norm-decay=0,0.125,1 norm-decay-out=0 {crossed}
            + norm-decay=0 norm-decay-out=0.125,1 {crossed} + norm-decay=0.125 norm-decay-out=0.125 {crossed}
            + norm-decay=1 norm-decay-out=1 {crossed}"""
    seeds = ",".join(map(str, FRESH))
    best = " + ".join(f"norm-decay={inputs} norm-decay-out={outputs} lr={rate:g} seed={seeds}"
                      for (inputs, outputs), rate in best_rates(stored(__file__, "rates-runs")).items())
    return f"{SHARED} --grid {best}"


def main():
    study = Study(__doc__, part_options(list(PARTS)))
    for part in PARTS:
        if part == "fresh" and not has("rates"):
            if part in study.args.only and not study.args.stored:
                sys.exit("gains: the part fresh needs the best rates: train the part rates first")
        elif study.args.stored or part not in study.args.only:
            study.has_stored(part, options_of(part))  # counts its time
        else:
            study.compare(part, options_of(part))
            study.publish(picture(), published())
    study.publish(picture() if has("rates") else None, published())


if __name__ == "__main__":
    main()
