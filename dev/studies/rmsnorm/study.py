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

import pandas

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import ROOT, Study, draw_by_time, interval, plt, shown, stored, table  # noqa: E402

COLORS = {"layernorm": "#0072B2", "rmsnorm": "#D55E00"}
KERNELS = [64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512]
HERE = Path(__file__).parent
TIMES = "seconds.csv"


def measured(study):
    """Seconds of a norm's kernels, forward and backward, and of whole steps, the median of each seed, by width."""
    kernels = study.out / "kernels.json"
    if not kernels.exists():
        words = f"norm --widths {','.join(map(str, KERNELS))}"
        if subprocess.run(["make", "-C", str(ROOT), "bench", f"ARGS={words} --json {kernels.resolve()}"]).returncode:
            sys.exit("rmsnorm: make bench failed")
    rows = [{"norm": row["of"], "width": int(row["size"].split()[-1]), "what": row["direction"],
             "seconds": row["seconds"]} for row in json.loads(kernels.read_text())["norm"] if row["of"] in COLORS]
    for width in WIDTHS:
        curves = study.compare(f"width-{width}", f"""--layers 6 --channels {width} --heads 4 --context 128 --batch 4
            --steps {max(20, 12800 // width)} --eval-every 100000 --val-fraction 0.01 --save-every 0
            --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1).curves
        medians = curves[curves.step > 5].groupby(["norm", "seed"]).step_ms.median()
        rows += [{"norm": norm, "width": width, "what": "step", "seed": seed, "seconds": ms / 1000}
                 for (norm, seed), ms in medians.items()]
    return pandas.DataFrame(rows).astype({"seed": "Int64"})


def ratios():
    """RMSNorm's time over LayerNorm's, from the stored times: of the kernels, {width: ratio}, and of a whole step,
    {width: one ratio for each seed}."""
    times = pandas.read_csv(HERE / TIMES)
    kernels = times[times.what != "step"].groupby(["norm", "width"]).seconds.sum()
    steps = times[times.what == "step"].set_index(["norm", "width", "seed"]).seconds
    return ({width: kernels["rmsnorm", width] / kernels["layernorm", width] for width in KERNELS},
            {width: list(steps["rmsnorm", width] / steps["layernorm", width]) for width in WIDTHS})


def published():
    """The table and the sentence in README.md, from the stored times and runs."""
    kernel, step = ratios()
    rows = [[width, f"{kernel[width]:.2f}", shown(step[width], 2) if width in step else ""] for width in KERNELS]
    runs = stored(__file__, "losses-runs").set_index(["norm", "seed"]).final_val
    mean, half = interval(runs["rmsnorm"] - runs["layernorm"])
    verdict = "not distinguishable" if abs(mean) < half else "lower" if mean < 0 else "higher"
    by_width = table(rows, ["width", "kernel: RMSNorm's time / LayerNorm's", "whole step"])
    return f"{by_width}\nFinal loss, RMSNorm − LayerNorm: {mean:+.4f} ± {half:.4f} ({verdict})."


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    measured(study).to_csv(HERE / TIMES, index=False, float_format="%.6g")
    kernel, step = ratios()
    losses = study.compare("losses", f"""--layers 6 --channels 128 --heads 4 --context 128 --batch 4 --steps {steps}
        --warmup {steps // 10} --lr 3e-3 --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02 --save-every 0
        --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1)
    figure, (speed, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
    speed.plot(KERNELS, kernel.values(), "o-", color="#009E73", label="the norm alone, forward and backward")
    speed.plot(WIDTHS, [sum(step[w]) / len(step[w]) for w in WIDTHS], "s-", color="#000000",
               label="a whole training step")
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
    study.publish(figure, published())


if __name__ == "__main__":
    main()
