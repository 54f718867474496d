#!/usr/bin/env python3
"""Growth of the residual stream with depth (Kim et al. 2025, Peri-LN, arXiv 2502.02732; Sun et al. 2025, Curse of
Depth, arXiv 2502.05795).

The mean square of the residual stream after each block: before training, half-way and at the end. 24 layers x 64
channels. Each placement has its own initialization first, then all have the same Xavier initialization.

Three shapes of two parameters each are fitted to every seed's stream, all by least squares of the logarithm, so that
their residuals can be compared. stream.csv has the mean squares, so that the fits can be computed again. outputs.csv
has what the norms on the branches' outputs add to it.
"""

import sys
from pathlib import Path

import numpy
import pandas
from scipy import optimize

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, outcome, plt, shown, signed, stored, table  # noqa: E402

INITS = {"own": ("each placement's own initialization", ""),
         "xavier": ("the same Xavier for all", "--init xavier --no-residual-gain")}
PLACEMENTS = ["post", "pre", "sandwich", "reordered"]
OUTPUT_NORMS = PLACEMENTS[2:]
LAYERS = 24
GREW = 2  # shapes are fitted to streams whose last block has at least this many times the first one's mean square

# log y of each shape at block x, with two parameters; the line grows: its first value and its slope are positive.
SHAPES = {
    "line": lambda x, a, b: a + numpy.log1p(numpy.exp(b) * (x - 1)),
    "power": lambda x, a, b: a + b * numpy.log(x),
    "exponential": lambda x, a, b: a + b * x,
}


def fit(shape, y):
    """The root mean square of the residuals of log y, and the second parameter."""
    x = numpy.arange(1, len(y) + 1)
    start = [numpy.log(y[0]), {"line": numpy.log(max(y[-1] / y[0] - 1, 0.1) / (len(y) - 1))}.get(shape, 0.1)]
    best, _ = optimize.curve_fit(SHAPES[shape], x, numpy.log(y), start)
    return numpy.sqrt(numpy.mean((numpy.log(y) - SHAPES[shape](x, *best)) ** 2)), best[1]


def fits(streams):
    """Residuals of the shapes, the power and the shape that fits best, over the streams of the seeds; "" if flat."""
    if min(y[-1] / y[0] for y in streams) < GREW:
        return [""] * 5
    residual = {shape: numpy.array([fit(shape, y)[0] for y in streams]) for shape in SHAPES}
    powers = [fit("power", y)[1] for y in streams]
    more = (residual[shape] - residual["line"] for shape in ("power", "exponential"))
    return [shown(residual["line"], 2), *(signed(d, 2) for d in more), shown(powers, 2), fewest(residual)]


def fewest(residual):
    """The shape that fits best in every seed, if there is one."""
    best = {min(residual, key=lambda shape: residual[shape][seed]) for seed in range(len(residual["line"]))}
    return best.pop() if len(best) == 1 else "differs by seed"


def outputs_of(d):
    """Of each run and step: the sum of the mean squares of the outputs of all output norms, and the rms of the gains.

    The sum is the stream's mean square if the outputs are uncorrelated, apart from the embedding.
    """
    norms = d[d.placement.isin(OUTPUT_NORMS) & d.part.isin(["attention.norm_out", "ffn.norm_out"])]
    squares = norms.assign(value=norms.value**2).groupby(["what", "placement", "seed", "step"]).value
    return pandas.DataFrame({"sum_of_squares": squares.sum()["rms_after"],
                             "gain_rms": squares.mean()["gain_rms"] ** 0.5}).reset_index()


def outputs_table(streams):
    """What the output norms add, compared with the resulting stream."""
    outputs, rows = stored(__file__, "outputs"), []
    last = streams[streams.block == LAYERS]
    for (name, placement, step), some in outputs.groupby(["init", "placement", "step"], sort=False):
        stream = last[(last.init == name) & (last.placement == placement) & (last.step == step)].mean_square
        rows.append([INITS[name][0], placement, when(step), shown(some.gain_rms), shown(some.sum_of_squares, 1),
                     shown(stream, 0)])
    return table(rows, ["initialization", "placement", "when", "rms of the output norms' gains",
                        "sum of the 48 branches' mean squares", "stream's mean square, last block"])


def published():
    """The tables in README.md, from the stored runs and streams."""
    streams = stored(__file__, "stream")
    steps = sorted(streams.step.unique())
    levels, shapes = [], []
    for name, (init, _) in INITS.items():
        runs = stored(__file__, f"{name}-runs")
        for placement in PLACEMENTS:
            some = streams[(streams.init == name) & (streams.placement == placement)].sort_values("block")
            seeds = {step: [seed.mean_square.values for _, seed in some[some.step == step].groupby("seed")]
                     for step in steps}
            ends = [f"{first:.3g} → {last:.3g}" for first, last in
                    (numpy.mean([[y[0], y[-1]] for y in seeds[step]], axis=0) for step in steps)]
            levels.append([init, placement, *ends, outcome(runs[runs.placement == placement])])
            shapes += [[init, placement, when(step), *words] for step in steps if any(words := fits(seeds[step]))]
    _, middle, end = map(when, steps)
    return table(levels, ["initialization", "placement", "before training: first → last block", middle, end,
                          "final loss"]) + "\n" + \
        table(shapes, ["initialization", "placement", "when", "residual of a line", "power's − line's",
                       "exponential's − line's", "power", "smallest residual in every seed"]) + "\n" + \
        outputs_table(streams)


def when(step):
    return "before training" if step == 1 else f"step {step}"


def main():
    study = Study(__doc__)
    steps = 3000 if study.long else 600
    shown_steps = [1, steps // 2, steps]
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), sharex=True, sharey="row")
    streams, outputs = [], []
    for line, (name, (init, words)) in zip(axes, INITS.items()):
        tables = study.compare(name, f"""{words} --layers {LAYERS} --channels 64 --heads 4
            --context 128 --batch 4 --steps {steps} --warmup {steps // 10} --lr 1e-3 --eval-every {steps // 4}
            --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics {steps // 2}
            --grid placement={",".join(PLACEMENTS)} seed=1,2,3""")
        d = tables.read("diagnostics")
        stream = d[(d.part == "stream") & (d.what == "rms") & d.step.isin(shown_steps)].assign(
            init=name, block=lambda d: d.layer.astype(int) + 1, mean_square=lambda d: d.value**2)
        streams.append(stream)
        outputs.append(outputs_of(d[d.step.isin(shown_steps)]).assign(init=name))
        for axis, step in zip(line, shown_steps):
            for placement in PLACEMENTS:
                by_block = stream[(stream.step == step) & (stream.placement == placement)].groupby("block").mean_square
                draw_band(axis, by_block, "o-", markersize=3, color=COLOR[placement], label=placement)
            axis.set(yscale="log", title=when(step), xlabel="block")
        line[0].set_ylabel(f"mean square of the stream\n{init}")
    axes[0, 0].legend(loc="center right", bbox_to_anchor=(1, 0.3))
    pandas.concat(streams)[["init", "placement", "seed", "step", "block", "mean_square"]].to_csv(
        study.folder / "stream.csv", index=False, float_format="%.6g")
    pandas.concat(outputs)[["init", "placement", "seed", "step", "sum_of_squares", "gain_rms"]].to_csv(
        study.folder / "outputs.csv", index=False, float_format="%.6g")
    study.publish(figure, published())


if __name__ == "__main__":
    main()
