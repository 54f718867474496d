#!/usr/bin/env python3
"""Warm-up where the claim was made (Xiong et al. 2020, figs. 2, 4 and 5; Liu et al. 2020): translation, masked words.

An encoder and a decoder of 6 blocks each translate, both Post-LN, both Pre-LN, or one of each. An encoder of 6 blocks
fills masks. All have 64 channels, the same Xavier initialization, Adam (0.9, 0.98), no clipping and no weight decay.
Warm-ups are crossed with learning rates.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_rates, outcome, plt, rate_axis, stored, table, unigram_line  # noqa: E402

RATES = ["3e-4", "1e-3", "3e-3", "1e-2"]
STEPS = 1000
WARMUPS = [0, STEPS // 20, 3 * STEPS // 10]
PLACEMENTS = ["post", "pre"]


def cells(pairs, mixed, masks):
    """Each model: its task, its encoder, its decoder, and its runs."""
    for p in PLACEMENTS:
        yield "translation", p, p, pairs[pairs.placement == p]
    for p in PLACEMENTS:
        some = mixed[(mixed.placement == p) & (mixed["encoder-placement"] != p)]
        yield "translation", some["encoder-placement"].iloc[0], p, some
    for p in PLACEMENTS:
        yield "masked words", p, "", masks[masks.placement == p]


def published():
    """The table in README.md, from the stored runs."""
    rows = []
    for *names, runs in cells(*(stored(__file__, f"{name}-runs") for name in ("pairs", "mixed", "masks"))):
        for warmup, some in runs.groupby("warmup"):
            at = {f"{rate:g}": outcome(runs) for rate, runs in some.groupby("peak_lr")}
            rows.append([*names, warmup, *(at.get(f"{float(rate):g}", "") for rate in RATES)])
    return table(rows, ["task", "encoder", "decoder", "warm-up"] + [f"lr {rate}" for rate in RATES])


def draw(axis, runs, title, color):
    for warmup, style in zip(WARMUPS, (":", "--", "-")):
        if len(some := runs[runs.warmup == warmup]):
            draw_rates(axis, some, style, f"{warmup} steps" if warmup else "none", color,
                       fillstyle="full" if warmup else "none")
    unigram_line(axis, runs)
    rate_axis(axis, RATES)
    axis.set_title(title)
    axis.legend(title="warm-up", fontsize=8)


def main():
    study = Study(__doc__)
    warmups = ",".join(map(str, WARMUPS))
    shared = f"""--init xavier --no-residual-gain --clip 0 --weight-decay 0 --beta2 0.98 --layers 6 --channels 64
        --heads 4 --context 64 --steps {STEPS} --eval-every {STEPS // 10} --eval-batches 20 --save-every 0"""
    masks = study.compare("masks", f"""{shared} --objective mlm --batch 8 --tokenizer bpe:512 --val-fraction 0.02
        --grid placement=post,pre warmup={warmups} lr={",".join(RATES)} seed=1,2,3""").runs
    shared += " --encoder-layers 6 --batch 4"
    pairs = study.compare("pairs", f"""{shared} --grid placement=post,pre warmup={warmups} lr={",".join(RATES[:3])}
        seed=1,2,3""", text=study.translations()).runs
    few = f"warmup={WARMUPS[0]},{WARMUPS[2]} lr=1e-3,3e-3 seed=1,2,3"
    mixed = study.compare("mixed", f"""{shared} --grid encoder-placement=pre placement=post {few}
        + encoder-placement=post placement=pre {few}""", text=study.translations()).runs
    figure, axes = plt.subplots(2, 3, figsize=(11, 7), sharex=True, sharey="col")
    for axis, (task, encoder, decoder, runs) in zip(axes.T.flat, cells(pairs, mixed, masks)):
        title = f"{task}: {encoder}" + (f" encoder, {decoder} decoder" if decoder else "")
        draw(axis, runs, title, COLOR[decoder or encoder])
    for axis in axes[:, 0]:
        axis.set_ylabel(f"validation loss after {STEPS} steps")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
