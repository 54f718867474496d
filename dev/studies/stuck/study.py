#!/usr/bin/env python3
"""Inside a Post-LN model that gets stuck without a warm-up: what grows in its first steps, and what that costs.

6 layers x 64 channels at a rate of 3e-3, in the paper's setting of the warm-up study (the same Xavier initialization,
Adam (0.9, 0.98), no clipping, no weight decay). steps.csv has, by model, seed and step:

    g1 ... g6      norm of the loss's gradient with respect to the stream after each block
    divisor        the product of rms(s) over the 10 norms between the first block's output and the last block's
    branch         rms(F(x)) / rms(x), the mean of the 12 branches
    update_W2, _v  norm of the change of the step / norm of the weight, the mean of the 6 blocks
    entropy        of attention, as a share of the entropy of equal weights: the mean of all heads
"""

import sys
from pathlib import Path

import pandas

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, draw_band, outcome, plt, shown, stored, table  # noqa: E402

LAYERS = 6
RATE = 3e-3
# Name: options, title, color, line.
MODELS = {"none": ("placement=post warmup=0", "Post-LN, no warm-up", COLOR["post"], "-"),
          "warmup": ("placement=post warmup=400", "Post-LN, 400 steps of warm-up", COLOR["post"], "--"),
          "pre": ("placement=pre warmup=0", "Pre-LN, no warm-up", COLOR["pre"], "-."),
          "eps": ("placement=post warmup=0 adam-eps=1e-15", "Post-LN, no warm-up, Adam's ε = 1e-15", None, None)}
DRAWN = ["none", "warmup", "pre"]
SHOWN = [1, 2, 5, 20, 80, 400, 800]  # steps of the table
STORED = [*range(1, 21), *range(25, 101, 5), *range(120, 801, 20)]


def cell_of(model):
    return MODELS[model][0].replace(" ", ",")


def by_step(rows, what, part):
    """One column for each layer, a row for each seed and step."""
    return rows[(rows.what == what) & (rows.part == part)].pivot_table(index=["seed", "step"], columns="layer",
                                                                       values="value")


def select(diagnostics):
    """The columns of steps.csv, from the diagnostics of one model's runs."""
    rows = diagnostics[diagnostics.step.isin(STORED)]
    gradients = by_step(rows, "grad_norm", "stream")
    norms = [by_step(rows, "rms_before", f"{part}.norm_sum") for part in ("attention", "ffn")]
    branches = [by_step(rows, "branch_ratio", part) for part in ("attention", "ffn")]
    columns = {f"g{layer + 1}": gradients[layer] for layer in range(LAYERS)}
    if not norms[0].empty:
        columns["divisor"] = norms[0].iloc[:, 1:].prod(axis=1) * norms[1].iloc[:, 1:].prod(axis=1)
    columns["branch"] = sum(each.mean(axis=1) for each in branches) / 2
    for name, part in ("W2", "ffn.down.weight"), ("v", "attention.v.weight"):
        columns[f"update_{name}"] = by_step(rows, "update_ratio", part).mean(axis=1)
    columns["entropy"] = by_step(rows, "entropy", "attention").mean(axis=1)
    return pandas.DataFrame(columns).reset_index()


def at(data, model, step):
    return data[(data.model == model) & (data.step == step)]


def short(values, digits=2):
    """The mean; in powers of ten where it is small."""
    mean = values.mean()
    return f"{mean:,.0f}" if mean >= 1000 else f"{mean:.{digits}g}" if mean >= 0.01 else f"{mean:.1e}"


def published():
    """The tables in README.md, from the stored runs."""
    runs, data = stored(__file__, "inside-runs"), stored(__file__, "steps")
    runs = runs[runs.stage == "final"]
    ends = [[title, outcome(cell), shown(cell.final_val)] for cell, title in
            ((runs[runs.cell == cell_of(model)], title) for model, (_, title, *_) in MODELS.items())]
    rows = []
    for model in DRAWN:
        for step in SHOWN:
            some = at(data, model, step)
            divisor = "" if model == "pre" else short(some.divisor, 3)
            back = "" if model == "pre" else shown(some.g1 / some.g6 * some.divisor, 2)
            rows.append([MODELS[model][1], step, short(some.g1 / some.g6), divisor, back, shown(some.branch, 2),
                         f"{100 * some.update_W2.mean():.2g} %", f"{100 * some.update_v.mean():.2g} %",
                         f"{some.entropy.mean():.3f}"])
    return table(ends, ["model", "final loss", "mean of all seeds"]) + "\n" + \
        table(rows, ["model", "step", "gradient, first / last block", "divisor", "product of the two",
                     "branch / stream", "update of W2", "of v", "attention's entropy"])


def draw_blocks(axis, data, model):
    for number, step in enumerate(SHOWN):
        shade = 0.85 - 0.85 * number / (len(SHOWN) - 1)
        mean = at(data, model, step)[[f"g{block}" for block in range(1, LAYERS + 1)]].mean()
        axis.plot(range(1, LAYERS + 1), mean, marker="os^vDP*"[number], color=str(shade), label=f"step {step}")
    axis.set(title=MODELS[model][1], yscale="log", ylim=(1e-8, 1), xlabel="block")


def draw_steps(axis, data, value, title, models=DRAWN, **more):
    for model in models:
        _, label, color, line = MODELS[model]
        rows = data[data.model == model]
        draw_band(axis, value(rows).groupby(rows.step), line, color=color, label=label)
    axis.set(title=title, xscale="log", xlabel="step", **more)


def draw(data):
    figure, axes = plt.subplots(3, 2, figsize=(7.5, 9))
    for axis, model in zip(axes.flat, DRAWN):
        draw_blocks(axis, data, model)
    axes[0, 0].set_ylabel("gradient of the stream")
    axes[1, 0].set_ylabel("gradient of the stream")
    axes[0, 1].legend(fontsize=8, loc="lower right", ncols=2)
    draw_steps(axes[1, 1], data, lambda rows: rows.g1 / rows.g6, "gradient, first block / last", yscale="log")
    draw_steps(axes[2, 0], data, lambda rows: rows.divisor, "product of the ten norms' divisors", DRAWN[:2],
               yscale="log")
    draw_steps(axes[2, 1], data, lambda rows: rows.branch, "branch / stream", ylim=(0, None))
    figure.legend(*axes[1, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def main():
    study = Study(__doc__)
    grid = " + ".join(f"{options} seed=1,2,3" for options, *_ in MODELS.values())
    tables = study.compare("inside", f"""--init xavier --no-residual-gain --clip 0 --weight-decay 0 --beta2 0.98
        --layers {LAYERS} --channels 64 --heads 4 --context 128 --batch 4 --steps 800 --lr {RATE} --eval-every 40
        --eval-batches 20 --val-fraction 0.02 --save-every 0 --diagnostics 1 --grid {grid}""")
    rows = tables.read("diagnostics")
    data = pandas.concat([select(rows[rows.cell == cell_of(model)]).assign(model=model) for model in DRAWN])
    data.to_csv(study.folder / "steps.csv", index=False, float_format="%.4g")
    study.publish(draw(data), published())


if __name__ == "__main__":
    main()
