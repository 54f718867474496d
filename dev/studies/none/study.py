#!/usr/bin/env python3
"""No norm against LayerNorm and RMSNorm (Pre-LN): loss by steps and by seconds, and the largest stable learning rate.

12 layers x 64 channels, all with GPT-2's initialization. First all rates, each with a short and a long warm-up, on
three seeds; then the best pair of each on three fresh seeds. The latter go one run at a time, so that their seconds
can be compared.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, draw_by_time, mean_by, outcome, plt, rate_axis, shown, table, unigram_line  # noqa: E402

STYLE = {"LayerNorm": "#0072B2", "RMSNorm": "#D55E00", "none": "#000000"}
CELLS = {"LayerNorm": "placement=pre norm=layernorm", "RMSNorm": "placement=pre norm=rmsnorm", "none": "placement=none"}
RATES = ["3e-4", "1e-3", "3e-3", "1e-2", "3e-2", "1e-1"]


def name_of(row):
    return "none" if row.placement == "none" else {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[row.norm]


study = Study(__doc__)
steps = 3000 if study.long else 600
WARMUPS = {steps // 10: "--", steps // 3: "-"}
shared = f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
    --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0"""
crossed = f"warmup={','.join(map(str, WARMUPS))} lr={','.join(RATES)}"
grid = " + ".join(f"{cell} {crossed}" for cell in CELLS.values())
rates = study.compare("rates", f"{shared} --grid {grid} seed=1,2,3")
runs = rates.runs.assign(name=rates.runs.apply(name_of, axis=1))
best, stable = {}, {}
for name, some in runs.groupby("name"):
    good = {at: cell.final_val.mean() for at, cell in some.groupby(["warmup", "peak_lr"])
            if (cell.state == "finished").all()}
    best[name] = min(good, key=good.get)
    stable[name] = {warmup: max((rate for at, rate in good if at == warmup), default=None) for warmup in WARMUPS}
grid = " + ".join(f"{cell} warmup={best[name][0]} lr={best[name][1]}" for name, cell in CELLS.items())
own = study.compare("own", f"{shared} --grid {grid} seed=4,5,6", jobs=1)
figure, (by_rate, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
rows = []
for name, color in STYLE.items():
    some = runs[runs.name == name]
    for warmup, style in WARMUPS.items():
        mean = mean_by(some[some.warmup == warmup], "peak_lr")
        by_rate.plot(mean.index, mean, "o" + style, color=color, label=f"{name}, warm-up {warmup}")
    last = own.runs[own.runs.apply(name_of, axis=1) == name]
    survived = [f"{rate:g}" if rate else "" for rate in stable[name].values()]
    rows.append([name, *map("{:g}".format, reversed(best[name])), *survived, outcome(last), shown(last.seconds, 1),
                 f"{last.steps_to_target.mean():.0f}", f"{last.seconds_to_target.mean():.1f}"])
unigram_line(by_rate, runs)
rate_axis(by_rate, RATES, ylabel=f"validation loss after {steps} steps")
curves = own.curves.assign(name=own.curves.apply(name_of, axis=1))
draw_by_time(by_step, by_second, curves, STYLE, top=4)
by_step.set(title="each at its best rate and warm-up")
by_rate.legend(fontsize=8)
target = own.summary.target.iloc[0]
study.publish(figure, table(rows, ["norm", "best rate", "its warm-up",
                                   *(f"largest rate that all seeds survive, warm-up {n}" for n in WARMUPS),
                                   "final loss", "seconds", f"steps to {target:.3f}", f"seconds to {target:.3f}"]))
