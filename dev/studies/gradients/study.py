#!/usr/bin/env python3
"""Gradients at initialization, by layer and by depth (Xiong et al. 2020, fig. 3, lemma 2 and theorem 1).

The norm of the gradient of each matrix of a block, over 4096 tokens, ten seeds. All placements have the same Xavier
initialization, as the theory assumes. Its lemma lets the stream start at mean square 1, so --embedding-norm comes
first; then the stream is the embedding with its standard deviation of .02; then each placement has its own
initialization. gradients.csv has the norms that the tables and the picture show.
"""

import sys
from pathlib import Path

import numpy
import pandas

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, plt, shown, stored, table  # noqa: E402

SAME = "--init xavier --no-residual-gain"
INITS = {"wide": ("Xavier, stream from 1", f"{SAME} --embedding-norm"),
         "xavier": ("Xavier, stream from .02", SAME),
         "own": ("each placement's own, from .02", "")}
PLACEMENTS = {"post": "Post-LN", "pre": "Pre-LN"}
MATRICES = {"ffn.up.weight": "W1", "ffn.down.weight": "W2", "attention.v.weight": "v", "attention.o.weight": "o",
            "attention.q.weight": "q", "attention.k.weight": "k"}
DEPTHS = [6, 12, 24, 48]
PROFILED = 12  # layers of the model whose blocks are shown one by one
THEORY = {"post": 0, "pre": -0.5}


def exponent(key, value):
    return numpy.polyfit(numpy.log(key), numpy.log(value), 1)[0]


def powers(rows, key):
    """The exponents of W1's and W2's gradients and of 1/√R as powers of `key`, over the seeds."""
    return [shown([exponent(seed[key], seed.value) for _, seed in rows[rows.of == of].groupby("seed")], 2)
            for of in ("W1", "W2", "1/√R")]


def first_to_last(rows):
    mean = rows.groupby("layer").value.mean()
    return f"{mean.iloc[0]:.2g} → {mean.iloc[-1]:.2g}"


def select(report):
    """The rows that are shown: all blocks of one model, and the last block of each."""
    report = report[((report.what == "grad_norm") & report.part.isin(MATRICES)) |
                    ((report.part == "stream") & (report.what == "rms"))]
    report = report[(report.layers == PROFILED) | (report.layer == report.layers - 1)]
    inverse = report.part == "stream"
    return report.assign(of=report.part.map(MATRICES).fillna("1/√R"), layer=report.layer.astype(int) + 1,
                         value=report.value.where(~inverse, 1 / report.value))


def by_block(rows, name):
    return rows[rows.of == name].groupby("layer").value


def draw_pair(axis, rows, names, line, label=None):
    """The gradients of two matrices that nearly coincide, as thin lines whose points are their letters in turn."""
    for turn, name in enumerate(names):
        mean = by_block(rows, name).mean()
        axis.plot(mean, line, color="0.45", linewidth=1, label=label if turn == 0 else None)
        axis.plot(mean.iloc[turn::2], linestyle="", marker=f"${name}$", color="black", markersize=7)


def draw_blocks(axis, rows, color):
    """W1, W2, v and o of a model's blocks, and 1/√R through W2's last."""
    draw_pair(axis, rows, "vo", "-")
    draw_band(axis, by_block(rows, "W1"), "o--", color=color, label="W1", markerfacecolor="white")
    draw_band(axis, by_block(rows, "W2"), "s-", color=color, label="W2")
    theory = by_block(rows, "1/√R").mean()
    axis.plot(theory * by_block(rows, "W2").mean().iloc[-1] / theory.iloc[-1], ":", color="black", linewidth=2,
              label="1/√R")


def draw_depths(axis, data, name):
    """The last block's gradient in models of several depths."""
    for placement, init, style, words in (("post", "wide", "^-", "Post-LN, Xavier"),
                                          ("pre", "wide", "s-", "Pre-LN, Xavier from 1"),
                                          ("pre", "xavier", "o--", "Pre-LN, Xavier from .02"),
                                          ("pre", "own", "D-.", "Pre-LN, its own")):
        rows = data[(data.init == init) & (data.placement == placement) & (data.of == name) &
                    (data.layer == data.layers)]
        draw_band(axis, rows.groupby("layers").value, style, color=COLOR[placement], label=words,
                  markerfacecolor="white" if init == "own" else None)
    axis.plot(DEPTHS, 0.12 * (numpy.array(DEPTHS) / DEPTHS[0]) ** -0.5, ":", color="black", linewidth=2, label="1/√L")
    axis.set(xscale="log", ylim=(0.02, 3), xlabel="blocks L", xticks=DEPTHS, xticklabels=DEPTHS,
             title=f"{name} of the last block, by depth")


def plain_ticks(axis, ticks):
    axis.set(yscale="log", yticks=ticks, yticklabels=[f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def published():
    """The tables in README.md, from the stored norms."""
    data = stored(__file__, "gradients")
    depths, blocks = [], []
    for label, (init, words) in INITS.items():
        for placement in PLACEMENTS:
            cell = data[(data.init == label) & (data.placement == placement)]
            last, profile = cell[cell.layer == cell.layers], cell[cell.layers == PROFILED]
            W2 = last[last.of == "W2"].groupby("layers").value.mean()
            depths.append([init, placement, *powers(last, "layers"), THEORY[placement] if words else ""]
                          + [f"{W2[n]:.3g}" for n in DEPTHS])
            blocks.append([init, placement, *powers(profile, "layer"),
                           *(first_to_last(profile[profile.of == of]) for of in MATRICES.values())])
    return table(depths, ["initialization", "placement", "last W1 ~ depth to the", "last W2", "last 1/√R",
                          "theory (W2)", *(f"W2, {n} blocks" for n in DEPTHS)]) + "\n" + \
        table(blocks, ["initialization", "placement", "W1 ~ block to the", "W2", "1/√R",
                       *(f"{name}: first → last" for name in MATRICES.values())])


def main():
    study = Study(__doc__)
    channels = 256 if study.long else 128
    data = pandas.concat([select(study.init_report(label, f"""{words} --channels {channels} --heads 4 --context 128
        --batch 4 --accumulate 8 --grid placement={",".join(PLACEMENTS)} layers={",".join(map(str, DEPTHS))}
        seed={",".join(map(str, range(1, 11)))}""")).assign(init=label) for label, (_, words) in INITS.items()])
    data = data[["init", "placement", "layers", "seed", "layer", "of", "value"]]
    data.to_csv(study.folder / "gradients.csv", index=False, float_format="%.4g")
    figure, axes = plt.subplots(4, 2, figsize=(7.5, 10.5), sharey="row")
    for row, (label, (init, words)) in enumerate(INITS.items()):
        for column, (placement, name) in enumerate(PLACEMENTS.items()):
            cell = data[(data.init == label) & (data.placement == placement)]
            profile = cell[cell.layers == PROFILED]
            if words:
                start = init.removeprefix("Xavier, ")
                draw_blocks(axes[row, column], profile, COLOR[placement])
                axes[row, column].set(title=f"{name}, {start}", ylim=(0.08, 0.9))
                draw_pair(axes[2, column], profile, "qk", "-" if row == 0 else "--", start)
                axes[2, column].set(title=f"{name}, q and k", ylim=(0.003, 0.12))
    for row, ticks in enumerate(([0.1, 0.2, 0.4, 0.8], [0.1, 0.2, 0.4, 0.8], [0.005, 0.01, 0.02, 0.05, 0.1])):
        for axis in axes[row]:
            plain_ticks(axis, ticks)
            axis.set_xticks(range(1, PROFILED + 1))
        axes[row, 0].legend(loc="lower right" if row < 2 else "upper right", ncols=3 if row < 2 else 1)
    for axis, of in zip(axes[3], ("W1", "W2")):
        draw_depths(axis, data, of)
        plain_ticks(axis, [0.05, 0.1, 0.2, 0.5, 1, 2])
    for column in 0, 1:
        axes[2, column].set_xlabel(f"block of {PROFILED}")
    axes[2, 0].annotate("block 1 from .02: 2.6e-5", (1, 0.003), xytext=(2, 6), textcoords="offset points", fontsize=8)
    figure.legend(*axes[3, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.supylabel("norm of the gradient")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
