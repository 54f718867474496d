#!/usr/bin/env python3
"""How many seeds does a claim need? The spread of final losses between seeds in all studies here, and what it hides.

Trains nothing. Each pair of a cell and its comparison's baseline gives the deviation of the paired difference, over
runs of the same seed, and that of two unpaired cells. From these follow the power of a t test and the smallest
difference that it finds four times in five.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy  # noqa: E402
import pandas  # noqa: E402
from common import HERE, Study, interval, plt, table  # noqa: E402
from scipy import optimize, stats  # noqa: E402

POWER, LEVEL = 0.8, 0.05
SEEDS = [3, 5, 10, 20]
EFFECTS = [0.01, 0.02, 0.05, 0.1]


def deviations():
    """One row for each cell beside its baseline: the deviations of the paired and of the unpaired difference. No cell
    counts twice: further seeds of the same cells, PART-more, are left out, and runs that two studies share."""
    rows = []
    for path in sorted(HERE.glob("*/*-runs.csv")):
        summary = Path(str(path).replace("-runs.csv", "-summary.csv"))
        if summary.exists() and not path.name.endswith("-more-runs.csv"):
            rows += of_comparison(pandas.read_csv(path), pandas.read_csv(summary), path)
    return pandas.DataFrame(rows).drop_duplicates(["seeds", "paired", "unpaired"])


def of_comparison(runs, summary, path):
    final = runs[(runs.stage == "final") & (runs.state == "finished")]
    losses = {cell: some.set_index("seed").final_val for cell, some in final.groupby("cell")}
    baselines = list(summary.cell[summary.verdict == "baseline"])  # of several sizes each has one
    base = losses.get(baselines[0], pandas.Series(dtype=float))
    for cell, loss in losses.items():
        both = pandas.concat([loss, base], axis=1, join="inner")
        if cell not in baselines and len(both) >= 3:
            paired = (both.iloc[:, 0] - both.iloc[:, 1]).std()
            yield {"study": path.parent.name, "comparison": path.name.removesuffix("-runs.csv"), "cell": cell,
                   "seeds": len(both), "paired": paired, "unpaired": both.var().sum() ** 0.5}


def typical(rows, kind, quantile=0.5):
    """A quantile of the deviations, each divided by the median of its estimate from so few seeds."""
    few = numpy.sqrt(stats.chi2.ppf(0.5, rows.seeds - 1) / (rows.seeds - 1))
    return (rows[kind] / few).quantile(quantile)


def power(effect, deviation, seeds, paired, level=LEVEL):
    """The chance that a two-sided t test finds a difference of this size, with its sign."""
    freedom = seeds - 1 if paired else 2 * seeds - 2
    chance = stats.nct.sf(stats.t.ppf(1 - level / 2, freedom), freedom, effect * seeds**0.5 / deviation)
    return numpy.nan_to_num(chance, nan=1)  # SciPy cannot tell it from 1


def found(deviation, seeds, paired, level=LEVEL):
    """The smallest difference that is found with POWER."""
    return optimize.brentq(lambda e: power(e, deviation, seeds, paired, level) - POWER, 0, 20 * deviation)


def needed(effect, deviation, paired, most=1000):
    """The number of seeds with which a difference of this size is found with POWER."""
    return next((n for n in range(2, most) if power(effect, deviation, n, paired) >= POWER), None)


def spread(name, rows):
    """A row of the first table."""
    unpaired, paired = typical(rows, "unpaired"), typical(rows, "paired")
    return [name, len(rows), f"{unpaired:.3f}", f"{paired:.3f}", f"{paired / unpaired:.2f}",
            *(f"{found(paired, n, True):.3f}" for n in SEEDS[:3])]


def published():
    """The tables in README.md, from the stored runs of all studies."""
    rows = deviations()
    studies = [spread(name, some) for name, some in rows.groupby("study")]
    whole = spread("all", rows)
    ratio = interval(float(row[4]) for row in studies)
    whole[4] = f"{ratio[0]:.2f} ± {ratio[1]:.2f}"
    unpaired, paired = typical(rows, "unpaired"), typical(rows, "paired")
    counts = [[f"{effect:g}", needed(effect, unpaired, False), needed(effect, paired, True),
               needed(effect, typical(rows, "paired", 0.25), True)] for effect in EFFECTS]
    return (table([*studies, whole], ["study", "pairs of cells", "unpaired", "paired", "ratio",
                                      *(f"found with {n} seeds" for n in SEEDS[:3])]) + "\n" +
            table(counts, ["difference", "seeds, unpaired", "seeds, paired", "seeds, paired, quietest quarter"]))


def main():
    study = Study(__doc__)
    rows = deviations()
    figure, (scatter, curves) = plt.subplots(1, 2, figsize=(10, 3.9))
    for number, (name, some) in enumerate(rows.groupby("study")):
        scatter.plot(some.unpaired, some.paired, "osD^vpX*<>hP8d"[number % 14], markersize=4, label=name)
    ends = [rows[["paired", "unpaired"]].min().min(), rows[["paired", "unpaired"]].max().max()]
    scatter.plot(ends, ends, ":", color="0.5")
    scatter.set(xscale="log", yscale="log", xlabel="deviation of the difference, unpaired",
                ylabel="paired, over the same seeds")
    scatter.legend(fontsize=7, ncols=2)
    effects = numpy.geomspace(0.003, 0.5, 60)
    for kind, line in ("paired", "-"), ("unpaired", "--"):
        for number, n in enumerate(SEEDS):
            chances = [power(e, typical(rows, kind), n, kind == "paired") for e in effects]
            curves.plot(effects, chances, line, color=f"C{number}", label=f"{n} seeds" if line == "-" else None)
    curves.axhline(POWER, color="0.5", linestyle=":", linewidth=1)
    curves.set(xscale="log", xlabel="difference in nats", ylabel="chance to find it (unpaired: dashed)", ylim=(0, 1))
    curves.legend(fontsize=8)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
