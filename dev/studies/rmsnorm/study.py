#!/usr/bin/env python3
"""RMSNorm against LayerNorm (Zhang & Sennrich 2019, arXiv 1910.07467: 7 % to 64 % faster).

The time of the kernels and of the whole step by width, and the loss by steps and by seconds; all with Pre-LN.
Kernels: 1024 rows, as `make bench ARGS='norm --widths ...'` times them, three times. Steps: 6 layers, 512 tokens.
Losses: 6 layers x 128 channels, both at the same rate (the sensitivity study finds no difference in their best rates).
seconds.csv has the times, so that each ratio can be computed again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import BINARY, Study, draw_by_time, interval, plt, shown, stored, table  # noqa: E402

COLORS = {"layernorm": "#0072B2", "rmsnorm": "#D55E00"}
KERNELS = [64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512]
ROUNDS = (1, 2, 3)


def kernel_seconds(study):
    """Forward and backward of each norm and width, once per round."""
    bench = BINARY.resolve().parent / "bench"
    if not bench.exists():
        sys.exit("rmsnorm: first run `make bench ARGS='norm --quick'` with the MARCH of the program")
    for round_ in ROUNDS:
        path = study.out / f"kernels-{round_}.json"
        words = [str(bench), "norm", "--widths", ",".join(map(str, KERNELS)), "--json", str(path)]
        study.timed(path, words[1:], lambda: subprocess.run(words, check=True))
        rows = pandas.DataFrame(json.loads(path.read_text())["norm"])
        rows = rows[rows.of.isin(COLORS)].assign(width=lambda d: d["size"].str.split().str[-1].astype(int))
        both = rows.groupby(["of", "width"]).seconds.sum().reset_index()
        yield both.rename(columns={"of": "norm"}).assign(part="kernel", run=round_)


def step_seconds(study):
    """The median step of each norm, width and seed."""
    for width in WIDTHS:
        curves = study.compare(f"width-{width}", f"""--layers 6 --channels {width} --heads 4 --context 128 --batch 4
            --steps {max(20, 12800 // width)} --eval-every 100000 --val-fraction 0.01 --save-every 0
            --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1).curves
        medians = curves[curves.step > 5].groupby(["norm", "seed"]).step_ms.median() / 1000
        yield medians.rename("seconds").reset_index().rename(columns={"seed": "run"}).assign(part="step", width=width)


def ratios(part, width):
    """RMSNorm's time / LayerNorm's in each run."""
    rows = stored(__file__, "seconds")
    pairs = rows[(rows.part == part) & (rows.width == width)].pivot(index="run", columns="norm", values="seconds")
    return list(pairs.rmsnorm / pairs.layernorm)


def published():
    """The table in README.md, from the stored times and runs."""
    rows = [[width, shown(ratios("kernel", width), 2), shown(ratios("step", width), 2) if width in WIDTHS else ""]
            for width in KERNELS]
    rms = stored(__file__, "losses-summary").set_index("norm").loc["rmsnorm"]
    loss = f"Final loss, RMSNorm − LayerNorm: {rms.difference:+.4f} ± {rms.difference_ci:.4f} ({rms.verdict})."
    return table(rows, ["width", "kernel: RMSNorm's time / LayerNorm's", "whole step"]) + f"\n{loss}\n"


def draw_speed(axis):
    for part, widths, look, color, label in (
            ("kernel", KERNELS, "o-", "#009E73", "the norm alone, forward and backward"),
            ("step", WIDTHS, "s--", "#000000", "a whole training step")):
        means, halves = zip(*(interval(ratios(part, width)) for width in widths))
        axis.errorbar(widths, means, yerr=halves, fmt=look, capsize=2, color=color, label=label)
    axis.axhline(1, color="0.5", linestyle=":", linewidth=1)
    axis.set(xscale="log", xlabel="width", ylabel="RMSNorm's time / LayerNorm's", xticks=KERNELS, xticklabels=KERNELS,
             ylim=(0, 1.25))
    axis.minorticks_off()
    axis.legend(loc="lower right")


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    seconds = pandas.concat([*kernel_seconds(study), *step_seconds(study)])
    seconds[["part", "width", "norm", "run", "seconds"]].to_csv(study.folder / "seconds.csv", index=False,
                                                                float_format="%.6g")
    losses = study.compare("losses", f"""--layers 6 --channels 128 --heads 4 --context 128 --batch 4 --steps {steps}
        --warmup {steps // 10} --lr 3e-3 --eval-every {steps // 20} --eval-batches 20 --val-fraction 0.02
        --save-every 0 --grid norm=layernorm,rmsnorm seed=1,2,3,4,5""", jobs=1)
    figure, (speed, by_step, by_second) = plt.subplots(1, 3, figsize=(13, 4))
    draw_speed(speed)
    draw_by_time(by_step, by_second, losses.curves.rename(columns={"norm": "name"}), COLORS)
    for axis in by_step, by_second:
        axis.set(yscale="log", yticks=[0.7, 1, 1.5, 2, 2.5], yticklabels=[0.7, 1, 1.5, 2, 2.5])
        axis.minorticks_off()
    study.publish(figure, published())


if __name__ == "__main__":
    main()
