#!/usr/bin/env python3
"""Gradients at initialization, by layer and by depth (Xiong et al. 2020, fig. 3 and theorem 1).

The norm of the expected gradient of the second feed-forward matrix, ten seeds. First all placements have the same
Xavier initialization, as the theory assumes; then each has its own.
"""

import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, plt, shown, table  # noqa: E402

INITS = {"the same Xavier for both": "--init xavier --no-residual-gain", "each placement's own": ""}
DEPTHS = [6, 12, 24, 48]
THEORY = {"post": "0", "pre": "-0.5"}

study = Study(__doc__)
channels = 256 if study.long else 128
figure, axes = plt.subplots(2, 2, figsize=(10, 7.5))
rows = []


def exponent(key, value):
    return numpy.polyfit(numpy.log(key), numpy.log(value), 1)[0]


for (profile, depth), (init, words) in zip(axes, INITS.items()):
    tidy = study.init_report("xavier" if words else "own", f"""{words} --channels {channels} --heads 4 --context 128
        --batch 4 --accumulate 8 --grid placement=post,pre layers={",".join(map(str, DEPTHS))}
        seed={",".join(map(str, range(1, 11)))}""")
    down = tidy[(tidy.part == "ffn.down.weight") & (tidy.what == "grad_norm")]
    for placement in "post", "pre":
        some = down[down.placement == placement]
        name = f"{placement.capitalize()}-LN"
        twelve = some[some.layers == 12]
        draw_band(profile, twelve.groupby("layer").value, "o-", first=1, color=COLOR[placement], label=name)
        last = some[some.layer == some.layers - 1]
        of_depth = last.groupby("layers").value
        across = [exponent(seed.layers, seed.value) for _, seed in last.groupby("seed")]
        inside = [exponent(seed.layer + 1, seed.value) for _, seed in twelve.groupby("seed")]
        label = f"{name}: depth to the {numpy.mean(across):+.2f}"
        draw_band(depth, of_depth, "o-", color=COLOR[placement], label=label)
        rows.append([init, placement, shown(across), THEORY[placement] if words else "", shown(inside)]
                    + [f"{of_depth.mean()[n]:.3g}" for n in DEPTHS])
    profile.set(yscale="log", xlabel="layer of 12", ylabel="gradient norm, 2nd FFN matrix", title=f"{init}: by layer")
    depth.set(xscale="log", yscale="log", xlabel="layers", title=f"{init}: the last layer's, by depth",
              xticks=DEPTHS, xticklabels=DEPTHS)
    depth.minorticks_off()
    profile.legend()
    depth.legend()
study.publish(figure, table(rows, ["initialization", "placement", "last layer's gradient ~ depth to the", "theory",
                                   "within 12 layers ~ layer to the", *(f"{n} layers" for n in DEPTHS)]))
