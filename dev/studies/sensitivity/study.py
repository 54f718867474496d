#!/usr/bin/env python3
"""Sensitivity to the learning rate (Wortsman et al. 2023, arXiv 2309.14322) of six placements.

Draws final loss against learning rate, with a short and a long warm-up. The sensitivity is one number: the mean over
the rates of min(loss, initial loss) - lowest loss. 6 layers x 64 channels with LayerNorm, Pre-LN also with RMSNorm.
Each placement has its own initialization; gradients are clipped at 1.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import (Study, capped, look_of, mean_by, outcome, plt, rate_axis, shown, signed, stored,  # noqa: E402
                    table, unigram_line)

RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]
TOP = 3.6  # nats, above the unigram entropy; a run that diverged counts as its initial loss
PRE = "pre", "layernorm"


def cells(runs):
    """((placement, norm, warm-up), runs) in the order of the comparison."""
    named = runs.assign(norm=runs.norm.fillna("none"))
    return named.groupby(["placement", "norm", "warmup"], sort=False)


def sensitivities(cell):
    """Of each seed: the mean over the rates of min(loss, initial loss) - lowest loss."""
    return [(capped(seed) - capped(seed).min()).mean() for _, seed in cell.groupby("seed")]


def differences(runs):
    """The tables of differences that the text speaks of, over runs of the same seed."""
    by_cell = dict(list(cells(runs)))

    def losses(model, warmup, rate):
        cell = by_cell[*model, warmup]
        return cell[cell.peak_lr == float(rate)].set_index("seed").final_val

    warmups = sorted(runs.warmup.unique())
    pairs = [[warmup, rate, signed(losses(("sandwich", "layernorm"), warmup, rate) - losses(PRE, warmup, rate), 2),
              signed(losses(("pre", "rmsnorm"), warmup, rate) - losses(PRE, warmup, rate), 3)]
             for warmup in warmups for rate in RATES]
    short, long = warmups
    deepnorm = losses(("deepnorm", "layernorm"), long, "3e-3")
    others = [[f"deepnorm − pre, {long} steps, both at 3e-3", signed(deepnorm - losses(PRE, long, "3e-3"), 2)],
              [f"deepnorm at 3e-3 − pre at 1e-2, {long} steps", signed(deepnorm - losses(PRE, long, "1e-2"), 2)],
              [f"pre at 3e-2, {long} steps − {short}",
               signed(losses(PRE, long, "3e-2") - losses(PRE, short, "3e-2"), 2)]]
    return table(pairs, ["warm-up", "rate", "sandwich − pre", "RMSNorm − LayerNorm, under pre"]) + "\n" + \
        table(others, ["difference", "nats"])


def published():
    """The tables in README.md, from the stored runs."""
    runs = stored(__file__, "rates-runs")
    rows = [[*names, shown(sensitivities(cell)), *(outcome(at) for _, at in cell.groupby("peak_lr"))]
            for names, cell in cells(runs)]
    rows.sort(key=lambda row: (row[2], float(row[3].split()[0])))
    return table(rows, ["placement", "norm", "warm-up", "sensitivity", *(f"lr {rate}" for rate in RATES)]) + "\n" + \
        differences(runs)


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    warmups = [steps // 10, steps // 3]
    crossed = f"warmup={','.join(map(str, warmups))} lr={','.join(RATES)}"
    runs = study.compare("rates", f"""--layers 6 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
        --eval-every {steps // 4} --eval-batches 20 --val-fraction 0.02 --save-every 0
        --grid placement=post,pre,sandwich,deepnorm,reordered norm=layernorm {crossed} seed=1,2,3
        + placement=pre norm=rmsnorm {crossed} + placement=none {crossed}""").runs
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
    labels = {}
    for (placement, norm, warmup), cell in cells(runs):
        by_rate, numbers = mean_by(cell, "peak_lr"), sensitivities(cell)
        name = f"{placement}, RMSNorm" if norm == "rmsnorm" else placement
        look = {**look_of(placement), **({"mfc": "white", "linewidth": 0.8} if norm == "rmsnorm" else {})}
        line, = axes[warmups.index(warmup)].plot(by_rate.index, by_rate.clip(upper=TOP), **look)
        _, both = labels.setdefault(name, (line, []))
        both.append(f"{sum(numbers) / len(numbers):.2f}")
    for axis, warmup in zip(axes, warmups):
        rate_axis(axis, RATES, title=f"{warmup} of {steps} steps of warm-up")
        unigram_line(axis, runs)
        axis.set(ylim=(None, TOP))
        axis.annotate("at this edge: diverged", (0, 1), xycoords="axes fraction", xytext=(4, -4),
                      textcoords="offset points", ha="left", va="top", fontsize=8, color="0.4")
    axes[0].set_ylabel(f"validation loss after {steps} steps")
    texts = [f"{name}  {', '.join(both)}" for name, (_, both) in labels.items()]
    figure.legend([line for line, _ in labels.values()], texts,
                  title="sensitivity\n(left, right)", fontsize=8, loc="outside right upper")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
