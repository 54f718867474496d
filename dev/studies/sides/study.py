#!/usr/bin/env python3
"""Encoder or decoder: in which of the two does Post-LN's gradient vanish (Liu et al. 2020; Xiong et al. 2020, fig. 3)?

Each of the two is Post-LN or Pre-LN. The norm of the gradients before the first step, by block, in models of 12 + 12
blocks x 128 channels that translate, ten seeds. All have the same Xavier initialization and a stream that starts at 1.
gradients.csv has them, and the size of what the cross attentions add.
"""

import sys
from pathlib import Path

import pandas

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, LINES, Study, draw_band, plt, shown, stored, table  # noqa: E402

MODELS = [("post", "post"), ("pre", "post"), ("post", "pre"), ("pre", "pre")]  # encoder, decoder
PARTS = {"ffn.up.weight": "W1", "ffn.down.weight": "W2", "stream": "stream"}
BLOCKS = 12


def gradients(study):
    """One row for each model, seed, side and block: the norms of the gradients of W1, W2 and the stream after the
    block, and q, the mean square of the cross attention's output beside a stream of 1, where a norm follows their sum.
    """
    report = study.init_report("gradients", f"""--init xavier --no-residual-gain --embedding-norm
        --encoder-layers {BLOCKS} --layers {BLOCKS} --channels 128 --heads 4 --context 64 --batch 16 --accumulate 8
        --grid placement=post,pre encoder-placement=post,pre seed={",".join(map(str, range(1, 11)))}""",
                               text=study.translations())
    report = report.rename(columns={"encoder-placement": "encoder", "placement": "decoder"})
    side = report.part.str.startswith("encoder.").map({True: "encoder", False: "decoder"})
    report = report.assign(side=side, of=report.part.str.removeprefix("encoder.").map(PARTS))
    norms = report[(report.what == "grad_norm") & report.of.notna()]
    sums = report[(report.what == "rms_before") & (report.part == "cross.norm_sum")]
    rows = pandas.concat([norms, sums.assign(of="q", value=sums.value**2 - 1)])
    rows = rows.assign(block=rows.layer.astype(int) + 1)
    return rows[["encoder", "decoder", "seed", "side", "block", "of", "value"]]


def by_block(norms, encoder, decoder, side, of):
    """One column for each block, a row for each seed."""
    rows = norms[(norms.encoder == encoder) & (norms.decoder == decoder) & (norms.side == side) & (norms.of == of)]
    return rows.pivot_table(index="seed", columns="block", values="value")


def kept(norms, *of):
    """The gradient of the first block as a share of the last one's."""
    values = by_block(norms, *of)
    return shown(values[1] / values[BLOCKS], 3)


def divided(norms, encoder, decoder):
    """What the norms after the cross attentions leave between the outputs of the first and the last block."""
    q = by_block(norms, encoder, decoder, "decoder", "q")
    return "" if q.empty else shown(((1 + q.loc[:, 2:]) ** -0.5).prod(axis=1), 3)


def published():
    """The table in README.md, from the stored norms."""
    norms = stored(__file__, "gradients")
    sides = ["encoder", "decoder"]
    rows = [[encoder, decoder, *(kept(norms, encoder, decoder, side, of) for side in sides for of in PARTS.values()),
             divided(norms, encoder, decoder)] for encoder, decoder in MODELS]
    return table(rows, [*sides, *(f"{side}'s {of}" for side in sides for of in PARTS.values()), "Π 1/√(1 + q)"])


def draw_gradients(axis, norms, side, other):
    for (encoder, decoder), line in zip(MODELS, LINES):
        rows = by_block(norms, encoder, decoder, side, "W2").melt(value_name="norm").groupby("block").norm
        own, others = (encoder, decoder) if side == "encoder" else (decoder, encoder)
        label = f"{own.capitalize()}-LN, with a {others.capitalize()}-LN {other}"
        draw_band(axis, rows, line, color=COLOR[own], label=label)
    axis.set(yscale="log", xlabel=f"block of the {side}", title=f"gradient of W2, {side}", xticks=range(1, BLOCKS + 1))
    axis.legend(fontsize=8, loc="lower right")


def main():
    study = Study(__doc__)
    norms = gradients(study)
    norms.to_csv(study.folder / "gradients.csv", index=False, float_format="%.4g")
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.9), sharey=True)
    for axis, side, other in zip(axes, ("encoder", "decoder"), ("decoder", "encoder")):
        draw_gradients(axis, norms, side, other)
    axes[0].set_ylabel("norm of the gradient")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
