#!/usr/bin/env python3
"""No norm against LayerNorm and RMSNorm (Pre-LN): loss by steps and by seconds, and the largest stable learning rate.

12 layers x 64 channels, all with GPT-2's initialization. First all rates, each with a short and a long warm-up, on
three seeds; then the best pair of each on three fresh seeds. The latter go one run at a time, so that their seconds
can be compared.
"""

import sys
from pathlib import Path

import pandas
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import (Study, draw_by_time, mean_by, outcome, plt, rate_axis, shown, stored, table,  # noqa: E402
                    unigram_line)
from words import holm  # noqa: E402

STYLE = {"LayerNorm": "#0072B2", "RMSNorm": "#D55E00", "none": "#000000"}
CELLS = {"LayerNorm": "placement=pre norm=layernorm", "RMSNorm": "placement=pre norm=rmsnorm", "none": "placement=none"}
RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]
NAMES = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}


def named(rows):
    """The rows of a table, with a column that names the norm, or "none"."""
    return rows.assign(name=rows.norm.map(NAMES).where(rows.placement != "none", "none"))


def survivors(runs):
    """{(warm-up, rate): mean final loss} where every seed finished."""
    return {at: cell.final_val.mean() for at, cell in runs.groupby(["warmup", "peak_lr"])
            if (cell.state == "finished").all()}


def losses(runs, name, pair, seeds):
    """Final losses at a pair of warm-up and rate, by seed."""
    at = runs[(runs.name == name) & (runs.warmup == pair[0]) & (runs.peak_lr == pair[1]) & runs.seed.isin(seeds)]
    return at.set_index("seed").final_val


def differences(runs, name, pair, base, seeds):
    """Final losses at a pair minus LayerNorm's at the pair `base`, over runs of the same seed."""
    return losses(runs, name, pair, seeds) - losses(runs, "LayerNorm", base, seeds)


def differences_table(rates, own):
    """Each at its best pair, with the fresh seeds, those that chose it, and all; and RMSNorm at the lowest rate."""
    runs = pandas.concat([rates, own])
    chosen, fresh = (sorted(some.seed.unique()) for some in (rates, own))
    pairs = list(rates[["warmup", "peak_lr"]].drop_duplicates().itertuples(index=False, name=None))
    p = dict(zip(pairs, holm([test(differences(rates, "RMSNorm", pair, pair, chosen)) for pair in pairs])))
    best = {name: tuple(some[["warmup", "peak_lr"]].iloc[0]) for name, some in own.groupby("name")}
    rows = []
    for name, digits, groups in ("none", 2, (fresh, chosen, chosen + fresh)), ("RMSNorm", 3, (fresh,)):
        pair = best[name]
        for seeds in groups:
            values = differences(runs, name, pair, best["LayerNorm"], seeds)
            rows.append([name, *said(pair, seeds), shown(values, digits), said_p(test(values)), ""])
    for pair in sorted(p):
        if pair[1] == rates.peak_lr.min():
            values = differences(rates, "RMSNorm", pair, pair, chosen)
            rows.append(["RMSNorm", *said(pair, chosen), shown(values), said_p(test(values)), f"{p[pair]:.2f}"])
    return table(rows, ["minus LayerNorm", "warm-up", "rate", "seeds", "difference", "p",
                        f"p after Holm's correction for {len(p)} pairs"])


def said(pair, seeds):
    return f"{pair[0]:g}", f"{pair[1]:g}", ", ".join(map(str, seeds))


def test(values):
    """The p value of a t test that their mean is 0."""
    return stats.ttest_1samp(values, 0).pvalue


def said_p(p):
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def published():
    """The tables in README.md, from the stored runs."""
    rates, own = (named(stored(__file__, f"{label}-runs")) for label in ("rates", "own"))
    warmups = sorted(rates.warmup.unique())
    target = f"{stored(__file__, 'own-summary').target.iloc[0]:.3f}"
    rows = []
    for name in STYLE:
        good, last = survivors(rates[rates.name == name]), own[own.name == name]
        warmup, rate = min(good, key=good.get)
        highest = [max((r for w, r in good if w == at), default="") for at in warmups]
        rows.append([name, f"{rate:g}", warmup, *highest, outcome(last), shown(last.seconds, 1),
                     f"{last.steps_to_target.mean():.0f}", f"{last.seconds_to_target.mean():.1f}"])
    return table(rows, ["norm", "best rate", "its warm-up",
                        *(f"largest rate that all seeds survive, warm-up {n}" for n in warmups),
                        "final loss", "seconds", f"steps to {target}", f"seconds to {target}"]) + \
        "\n" + differences_table(rates, own)


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    warmups = {steps // 10: "--", steps // 3: "-"}
    shared = f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
        --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0"""
    crossed = f"warmup={','.join(map(str, warmups))} lr={','.join(RATES)}"
    grid = " + ".join(f"{cell} {crossed}" for cell in CELLS.values())
    runs = named(study.compare("rates", f"{shared} --grid {grid} seed=1,2,3").runs)
    best = {name: min(good, key=good.get) for name, some in runs.groupby("name") if (good := survivors(some))}
    grid = " + ".join(f"{cell} warmup={best[name][0]} lr={best[name][1]}" for name, cell in CELLS.items())
    own = study.compare("own", f"{shared} --grid {grid} seed=4,5,6", jobs=1)

    figure, (by_rate, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
    for name, color in STYLE.items():
        for warmup, style in warmups.items():
            mean = mean_by(runs[(runs.name == name) & (runs.warmup == warmup)], "peak_lr")
            by_rate.plot(mean.index, mean, "o" + style, color=color, label=f"{name}, warm-up {warmup}")
    unigram_line(by_rate, runs)
    rate_axis(by_rate, RATES, ylabel=f"validation loss after {steps} steps")
    draw_by_time(by_step, by_second, named(own.curves), STYLE, top=4)
    by_step.set(title="each at its best rate and warm-up")
    by_rate.legend(fontsize=8)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
