#!/usr/bin/env python3
"""No norm against LayerNorm and RMSNorm (Pre-LN): loss by steps and by seconds, and the largest stable learning rate.

12 layers x 64 channels, all with GPT-2's initialization. First all rates, each with a short and a long warm-up, on
three seeds; then the best pair of each on three fresh seeds. The latter go one run at a time, so that their seconds
can be compared.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import (  # noqa: E402
    Study, draw_by_time, mean_by, outcome, plt, rate_axis, shown, stored, table, unigram_line,
)

STYLE = {"LayerNorm": "#0072B2", "RMSNorm": "#D55E00", "none": "#000000"}
CELLS = {"LayerNorm": "placement=pre norm=layernorm", "RMSNorm": "placement=pre norm=rmsnorm", "none": "placement=none"}
RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]


def name_of(row):
    return "none" if row.placement == "none" else {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[row.norm]


def named(runs):
    return runs.assign(name=runs.apply(name_of, axis=1))


def survived(runs):
    """(warm-up, rate): mean final loss, for the pairs that all seeds survive, by name."""
    return {name: {at: cell.final_val.mean() for at, cell in some.groupby(["warmup", "peak_lr"])
                   if (cell.state == "finished").all()} for name, some in named(runs).groupby("name")}


def published():
    """The table in README.md, from the stored runs."""
    rates, own = stored(__file__, "rates-runs"), named(stored(__file__, "own-runs"))
    target = stored(__file__, "own-summary").target.iloc[0]
    good, warmups, rows = survived(rates), sorted(rates.warmup.unique()), []
    for name in STYLE:
        warmup, rate = min(good[name], key=good[name].get)
        largest = [max((lr for at, lr in good[name] if at == n), default=None) for n in warmups]
        last = own[own.name == name]
        rows.append([name, f"{rate:g}", warmup, *(f"{lr:g}" if lr else "" for lr in largest), outcome(last),
                     shown(last.seconds, 1), f"{last.steps_to_target.mean():.0f}",
                     f"{last.seconds_to_target.mean():.1f}"])
    return table(rows, ["norm", "best rate", "its warm-up",
                        *(f"largest rate that all seeds survive, warm-up {n}" for n in warmups), "final loss",
                        "seconds", f"steps to {target:.3f}", f"seconds to {target:.3f}"])


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    warmups = {steps // 10: "--", steps // 3: "-"}
    shared = f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
        --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0"""
    crossed = f"warmup={','.join(map(str, warmups))} lr={','.join(RATES)}"
    grid = " + ".join(f"{cell} {crossed}" for cell in CELLS.values())
    runs = named(study.compare("rates", f"{shared} --grid {grid} seed=1,2,3").runs)
    best = {name: min(good, key=good.get) for name, good in survived(runs).items()}
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
