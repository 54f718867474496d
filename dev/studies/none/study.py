#!/usr/bin/env python3
"""No norm against LayerNorm and RMSNorm (Pre-LN): loss by steps and by seconds, and the largest stable learning rate.

12 layers x 64 channels, all with GPT-2's initialization. First all rates on three seeds, then the best rate of each
on three fresh seeds. The latter go one run at a time, so that their seconds can be compared.
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
shared = f"""--layers 12 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps} --warmup {steps // 10}
    --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0"""
grid = " + ".join(f"{cell} lr={','.join(RATES)}" for cell in CELLS.values())
rates = study.compare("rates", f"{shared} --grid {grid} seed=1,2,3")
runs = rates.runs.assign(name=rates.runs.apply(name_of, axis=1))
best, stable = {}, {}
for name, some in runs.groupby("name"):
    good = {rate: cell.final_val.mean() for rate, cell in some.groupby("peak_lr") if (cell.state == "finished").all()}
    best[name], stable[name] = min(good, key=good.get), max(good)
grid = " + ".join(f"{cell} lr={best[name]}" for name, cell in CELLS.items())
own = study.compare("own", f"{shared} --grid {grid} seed=4,5,6", jobs=1)
figure, (by_rate, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
rows = []
for name, color in STYLE.items():
    some = runs[runs.name == name]
    mean = mean_by(some, "peak_lr")
    by_rate.plot(mean.index, mean, "o-", color=color, label=name)
    last = own.runs[own.runs.apply(name_of, axis=1) == name]
    rows.append([name, f"{best[name]:g}", f"{stable[name]:g}", outcome(last), shown(last.seconds, 1),
                 f"{last.steps_to_target.mean():.0f}", f"{last.seconds_to_target.mean():.1f}"])
unigram_line(by_rate, runs)
rate_axis(by_rate, RATES, ylabel=f"validation loss after {steps} steps")
curves = own.curves.assign(name=own.curves.apply(name_of, axis=1))
draw_by_time(by_step, by_second, curves, STYLE, top=4)
by_step.set(title="each at its best rate")
by_rate.legend()
target = own.summary.target.iloc[0]
study.publish(figure, table(rows, ["norm", "best rate", "largest rate that all seeds survive", "final loss", "seconds",
                                   f"steps to {target:.3f}", f"seconds to {target:.3f}"]))
