#!/usr/bin/env python3
"""RMSNorm against LayerNorm (Zhang & Sennrich 2019, arXiv 1910.07467: 7 % to 64 % faster).

The time of the kernels and of the whole step by width, and the loss by steps and by seconds; all with Pre-LN.
Kernels: 1024 rows, as `make bench ARGS='norm --widths ...'` times them. Steps: 6 layers, 512 tokens. Losses: 6 layers
x 128 channels, both at the same rate (the sensitivity study finds no difference in their best rates).
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import ROOT, Study, draw_by_time, plt, shown, table  # noqa: E402

COLORS = {"layernorm": "#0072B2", "rmsnorm": "#D55E00"}
KERNELS = [64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512]

study = Study(__doc__)
steps = 3000 if study.long else 600

kernels = study.out / "kernels.json"
if not kernels.exists():
    words = f"norm --widths {','.join(map(str, KERNELS))}"
    if subprocess.run(["make", "-C", str(ROOT), "bench", f"ARGS={words} --json {kernels.resolve()}"]).returncode:
        sys.exit("rmsnorm: make bench failed")
seconds = {}
for row in json.loads(kernels.read_text())["norm"]:
    if row["of"] in COLORS:
        seconds[row["of"], row["direction"], int(row["size"].split()[-1])] = row["seconds"]


def both_ways(norm, width):
    return seconds[norm, "forward", width] + seconds[norm, "backward", width]


kernel = {width: both_ways("rmsnorm", width) / both_ways("layernorm", width) for width in KERNELS}

step = {}
for width in WIDTHS:
    curves = study.compare(f"width {width}", f"""--layers 6 --channels {width} --heads 4 --context 128 --batch 4
        --steps {max(20, 12800 // width)} --eval-every 100000 --val-fraction 0.01 --save-every 0
        --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1).curves
    medians = curves[curves.step > 5].groupby(["norm", "seed"]).step_ms.median()
    step[width] = [medians["rmsnorm", seed] / medians["layernorm", seed] for seed in range(1, 6)]

losses = study.compare("losses", f"""--layers 6 --channels 128 --heads 4 --context 128 --batch 4 --steps {steps}
    --warmup {steps // 10} --lr 3e-3 --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0
    --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1)

figure, (speed, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
speed.plot(KERNELS, [kernel[w] for w in KERNELS], "o-", color="#009E73", label="the norm alone, forward and backward")
speed.plot(WIDTHS, [sum(step[w]) / len(step[w]) for w in WIDTHS], "s-", color="#000000", label="a whole training step")
for width in WIDTHS:
    speed.plot([width] * len(step[width]), step[width], ".", color="0.6", markersize=3)
speed.axhline(1, color="0.5", linestyle=":", linewidth=1)
speed.set(xscale="log", xlabel="width", ylabel="RMSNorm's time / LayerNorm's", xticks=KERNELS, xticklabels=KERNELS,
          ylim=(0, 1.15))
speed.minorticks_off()
speed.legend()
draw_by_time(by_step, by_second, losses.curves.rename(columns={"norm": "name"}), COLORS)
for axis in by_step, by_second:
    axis.set(yscale="log", yticks=[0.7, 1, 1.5, 2, 2.5], yticklabels=[0.7, 1, 1.5, 2, 2.5])
    axis.minorticks_off()
rms = losses.summary[losses.summary.norm == "rmsnorm"].iloc[0]
rows = [[width, f"{kernel[width]:.2f}", shown(step[width], 2) if width in step else ""] for width in KERNELS]
loss = f"Final loss, RMSNorm − LayerNorm: {rms.difference:+.4f} ± {rms.difference_ci:.4f} ({rms.verdict})."
by_width = table(rows, ["width", "kernel: RMSNorm's time / LayerNorm's", "whole step"])
study.publish(figure, f"{by_width}\n{loss}\n")
