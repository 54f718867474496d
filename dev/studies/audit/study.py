#!/usr/bin/env python3
"""The DeepNorm audit: the paper's constants against two public comparison repositories'.

24 layers x 64 channels, over learning rates and seeds. Skip factor: the paper's (2L)^1/4 = 2.632, or 2.828, which is
right for 32 layers. Gain on v, o and the feed-forward matrices: the paper's (8L)^-1/4 = 0.2686, or its inverse 3.7224.
Wiring: the repositories' (RMSNorm, SwiGLU, RoPE, a final norm, no clipping, no weight decay), or the paper's
(LayerNorm, GELU, no final norm).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Study, draw_rates, outcome, plt, rate_axis, stored, table, unigram_line  # noqa: E402

ALPHA = {2.632: "α = (2L)^¼ = 2.632", 2.8284: "α = 2.828 (32 layers)"}
GAIN = {0.2686: "gain (8L)^-¼ = 0.269", 3.7224: "gain (8L)^+¼ = 3.722"}
LOOK = {(2.632, 0.2686): ("-", "#0072B2", 0.97), (2.632, 3.7224): ("-.", "#D55E00", 0.97),
        (2.8284, 0.2686): ("--", "#0072B2", 1.03), (2.8284, 3.7224): (":", "#D55E00", 1.03)}
WIRING = {
    "repositories": "--preset llama2 --tied --final-norm --clip 0 --weight-decay 0 --beta2 0.999",
    "paper": "--clip 0 --weight-decay 0 --beta2 0.98",
}


def published():
    """The table in README.md, from the stored runs."""
    rows, rates = [], []
    for name in WIRING:
        runs = stored(__file__, f"{name}-runs")
        rates = [f"lr {rate:.0e}".replace("e-0", "e-") for rate in sorted(runs.peak_lr.unique())]
        rows += [[name, f"{alpha:.3f}", f"{gain:.4f}"] + [outcome(at) for _, at in cell.groupby("peak_lr")]
                 for (alpha, gain), cell in runs.groupby(["skip-scale", "init-gain"])]
    return table(rows, ["wiring", "α", "gain", *rates])


def main():
    study = Study(__doc__)
    rates = "1e-4,3e-4,1e-3,3e-3,1e-2" if study.long else "3e-4,1e-3,3e-3"
    steps = 2000 if study.long else 500
    shared = f"""--placement deepnorm --layers 24 --channels 64 --heads 4 --context 128 --batch 4 --steps {steps}
        --warmup {steps // 10} --eval-every {steps // 10} --eval-batches 20 --val-fraction 0.02 --save-every 0
        --grid skip-scale=2.632,2.8284 init-gain=0.2686,3.7224 lr={rates} seed=1,2,3"""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True)
    for axis, (name, wiring) in zip(axes, WIRING.items()):
        runs = study.compare(name, f"{wiring} {shared}").runs
        for (alpha, gain), cell in runs.groupby(["skip-scale", "init-gain"]):
            style, color, aside = LOOK[alpha, gain]
            moved = cell.assign(peak_lr=cell.peak_lr * aside)  # else points of both skip factors cover each other
            draw_rates(axis, moved, style, f"{ALPHA[alpha]}, {GAIN[gain]}", color=color, markersize=5,
                       fillstyle="full" if alpha == 2.632 else "none")
        unigram_line(axis, runs, name_at=3 if axis is axes[0] else None)
        rate_axis(axis, rates.split(","), title=f"wiring of the {name}")
    axes[0].set_ylabel(f"validation loss after {steps} steps")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    study.publish(figure, published())


if __name__ == "__main__":
    main()
