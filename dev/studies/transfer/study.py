#!/usr/bin/env python3
"""Does the best learning rate stay when a model gets wider or deeper? (Yang et al. 2022; Dey et al. 2025)

Nine placements with AdamW and with Muon, up to four times as wide and up to eight times as deep, under the
parametrizations sp, mup (in width) and completep (in depth), at every rate of one grid. A part is one placement with
one optimizer, and its tables are stored when it ends. --keep trains only parts that are not stored yet; --stored trains
none and publishes those that are.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy  # noqa: E402
import pandas  # noqa: E402
from common import COLOR, Study, capped, interval, not_finished, plt, shown, signed, stats, table  # noqa: E402
from words import holm  # noqa: E402

HERE = Path(__file__).parent
PLACEMENTS = ["pre", "post", "sandwich", "deepnorm", "reordered", "keel", "resi-dual", "hyper", "none"]
OPTIMIZERS = {"adamw": "AdamW", "muon": "Muon"}
REFUSED = {"hyper"}  # completep has no rule for it
SIZES = {"width": [32, 64, 128], "depth": [4, 8, 16, 32]}
SCALED = {"width": "mup", "depth": "completep"}  # in depth mup is sp, and in width completep is mup
KEYS = {"width": "channels", "depth": "layers"}
RATES = [f"{2.0**k:.4g}" for k in range(-10, -2)]
STEPS, BATCH, CONTEXT, HEAD, SEEDS = 400, 4, 32, 16, 3
CHECK_RATE, CHECK_STEPS = 1e-3, 10
WIDE = 512  # channels of Pre-LN with AdamW, at five rates around the best of the base model, and below it for sp
WIDE_RATES = {"sp": RATES[:5], "mup": RATES[2:7]}
LOGIT_SCALES = {32: "1,4", 128: "0.25,1,4"}  # of the base model: 1, 4 and, at 128 channels, 16
HALF = 0.5  # of a doubling: a factor of √2
COLUMNS = ["cell", "stage", "parametrization", "channels", "layers", "peak_lr", "seed", "state", "initial_loss",
           "final_val", "clipped", "parameters", "unigram", "version"]


def parts():
    """(placement, optimizer) in the order of training."""
    return [(placement, optimizer) for optimizer in OPTIMIZERS for placement in PLACEMENTS]


def label_of(part):
    return "-".join(part)


def parametrizations(placement, axis):
    return ["sp"] if axis == "depth" and placement in REFUSED else ["sp", SCALED[axis]]


def sized(axis, size):
    """(channels, layers) of a model."""
    return (size, SIZES["depth"][0]) if axis == "width" else (SIZES["width"][0], size)


def stored_parts():
    """{part: its runs} of the parts whose tables are stored next to the script."""
    return {part: pandas.read_csv(path) for part in parts()
            if (path := HERE / f"{label_of(part)}-runs.csv").exists()}


# ---- the best rate ---------------------------------------------------------------------------------------


def log_rates(runs):
    return numpy.log2(runs.peak_lr).round(2)


def curves(runs):
    """Final losses of a cell: a row per seed, a column per log2 of the rate."""
    rows = runs.assign(loss=capped(runs), rate=log_rates(runs))
    return rows.pivot(index="seed", columns="rate", values="loss")


def lowest(losses):
    """log2 of the rate at the lowest point of a parabola through the lowest loss and its neighbors. At an end of the
    grid, that end."""
    i = int(numpy.argmin(losses.values))
    if i in (0, len(losses) - 1):
        return losses.index[i]
    before, least, after = losses.values[i - 1:i + 2]
    step = losses.index[i + 1] - losses.index[i]
    return losses.index[i] + step * (before - after) / (2 * (before - 2 * least + after))


def at_end(losses):
    """True if the lowest mean loss is at an end of the grid."""
    return losses.mean().idxmin() in (losses.columns[0], losses.columns[-1])


def runs_of(runs, axis, parametrization, size):
    """The runs of a cell. The smallest model is the same under all parametrizations."""
    name = "sp" if size == SIZES[axis][0] else parametrization
    channels, layers = sized(axis, size)
    return runs[(runs.parametrization == name) & (runs.channels == channels) & (runs.layers == layers)]


def cell_of(runs, axis, parametrization, size):
    return curves(runs_of(runs, axis, parametrization, size))


class Line:
    """How the best rate depends on the size, under one parametrization."""

    def __init__(self, part, axis, parametrization, runs):
        self.placement, self.optimizer = part
        self.axis, self.parametrization = axis, parametrization
        cells = {size: cell_of(runs, axis, parametrization, size) for size in SIZES[axis]}
        self.best = pandas.DataFrame({size: cell.apply(lowest, axis=1) for size, cell in cells.items()})
        self.ends = [size for size, cell in cells.items() if at_end(cell)]
        small, large = cells[SIZES[axis][0]], cells[SIZES[axis][-1]]
        self.moves = self.best[SIZES[axis][-1]] - self.best[SIZES[axis][0]]
        self.doublings = math.log2(SIZES[axis][-1] / SIZES[axis][0])
        self.least = large[large.mean().idxmin()]  # of the largest model
        rate = small.mean().idxmin()
        self.costs = large[rate] - self.least  # of the small model's rate, unless it is one of the `failed`
        tried = runs_of(runs, axis, parametrization, SIZES[axis][-1])
        self.failed = not_finished(tried[log_rates(tried) == rate])

    def cost(self):
        """What the small model's rate costs the largest one."""
        return self.failed or (signed(self.costs) if self.costs.any() else "same rate")

    def stays(self, doublings=1.0):
        """Does the best rate move by less than √2 in one of so many parts of the range? A question mark: the interval
        contains both answers."""
        if {SIZES[self.axis][0], SIZES[self.axis][-1]} & set(self.ends):
            return "end of the grid"
        mean, half = interval(self.moves / doublings)
        sure = half < abs(abs(mean) - HALF) if half == half else False
        return ("yes" if abs(mean) < HALF else "no") + ("" if sure else "?")


def lines():
    """All lines of the stored parts."""
    return [Line(part, axis, parametrization, runs) for part, runs in stored_parts().items() for axis in SIZES
            for parametrization in parametrizations(part[0], axis)]


# ---- tables ----------------------------------------------------------------------------------------------


def rates_shown(line):
    """The best rate of each size in thousandths, with an asterisk at an end of the grid."""
    return [f"{1000 * 2**line.best[size].mean():.2g}" + ("*" if size in line.ends else "") for size in line.best]


def rate_table(axis, found):
    """The best rates of all stored parts in one direction."""
    sizes = [f"best rate / 1000 at {SIZES[axis][0]} {KEYS[axis]}", *map(str, SIZES[axis][1:])]
    rows = [[line.placement, OPTIMIZERS[line.optimizer], line.parametrization, *rates_shown(line),
             signed(line.moves, 2), line.stays(), line.stays(line.doublings),
             line.cost(), shown(line.least)]
            for line in found if line.axis == axis]
    return table(rows, ["placement", "optimizer", "parametrization", *sizes, "moves by", "less than √2",
                        "per doubling", "cost of the small one's rate", "lowest loss of the largest"])


def gain_table(found):
    """The lowest losses of the largest models under the other parametrization, minus those under sp."""
    by = {(line.placement, line.optimizer, line.axis, line.parametrization): line.least for line in found}
    cells = {}
    for axis, name in SCALED.items():
        gains = {part: by[*part, axis, name] - by[*part, axis, "sp"] for part in stored_parts()
                 if (*part, axis, name) in by}
        tests = [stats.ttest_1samp(values, 0).pvalue for values in gains.values()]
        for (part, values), p in zip(gains.items(), holm(tests, len(tests)), strict=True):
            cells[*part, axis] = [signed(values), f"{p:.2g}"]
    rows = [[placement, OPTIMIZERS[optimizer],
             *(text for axis in SIZES for text in cells.get((placement, optimizer, axis), ["", ""]))]
            for placement, optimizer in stored_parts()]
    return table(rows, ["placement", "optimizer", *(text for axis, name in SCALED.items() for text in
                                                    (f"{axis}: lowest loss, {name} minus sp", "p (Holm)"))])


def slope_table():
    """The coordinate check: slopes of the changes of the stream and of the logits, under each parametrization."""
    rows = []
    for part in stored_parts():
        changes = pandas.read_csv(HERE / f"{label_of(part)}-changes.csv")
        rows.append([part[0], OPTIMIZERS[part[1]]])
        for axis in SIZES:
            for name in ("sp", SCALED[axis]):
                some = changes[(changes.axis == KEYS[axis]) & (changes.parametrization == name)]
                rows[-1].append(", ".join(slope_of(some[some.part == what]) for what in ("stream", "logits")))
    return table(rows, ["placement", "optimizer", *(f"{axis}, {name}: stream, logits" for axis in SIZES
                                                    for name in ("sp", SCALED[axis]))])


def slope_of(rows):
    """The slope of log change over log size, of the geometric mean over seeds."""
    if rows["size"].nunique() < 2:
        return "refused"
    logs = numpy.log(rows.change).groupby(rows["size"]).mean()
    return f"{numpy.polyfit(numpy.log(logs.index), logs.values, 1)[0] + 0.0:+.2f}"


def flops(channels, layers):
    """Of a step, forward and backward, as `info --cost` counts them."""
    matrices = 12 * channels**2 * layers + 256 * channels
    return BATCH * CONTEXT * (6 * matrices + 6 * channels * layers * (CONTEXT + 1))


def cost_rows():
    """What a search at the largest size costs, and one at the smallest with one run at the largest."""
    for axis, sizes in SIZES.items():
        each = [flops(*sized(axis, sizes[i])) * STEPS / 1e9 for i in (0, -1)]
        rates = len(RATES)
        tuned, transferred = rates * each[1], rates * each[0] + each[1]
        yield [axis, f"{each[0]:.0f}", f"{each[1]:.0f}", f"{tuned:.0f}", f"{transferred:.0f}",
               f"{tuned / transferred:.1f}"]


def published():
    """The tables in README.md, from the parts that are stored."""
    found, done = lines(), stored_parts()
    names = "; ".join(f"{OPTIMIZERS[optimizer]}: " + ", ".join(f"`{p}`" for p, by in done if by == optimizer)
                      for optimizer in OPTIMIZERS if any(by == optimizer for _, by in done))
    head = f"{len(done)} of {len(parts())} parts so far ({names})." if len(done) < len(parts()) else "All parts."
    cost = table(cost_rows(), ["larger in", "GFLOPs of a small run", "of a large one", "search at the large size",
                               "search at the small size and one large run", "ratio"])
    tables = [*(rate_table(axis, found) for axis in SIZES), gain_table(found), slope_table(), cost, multiplier_table(),
              wide_table()]
    return "\n".join([head + "\n", *tables])


def multiplier_table():
    """The lowest loss of Pre-LN with AdamW for other factors of the base model, and without a parametrization."""
    runs = pandas.read_csv(HERE / "multipliers-runs.csv")
    cells = {(f"{channels}", "mup", f"{scale * channels / SIZES['width'][0]:g}", f"{gain:g}"): curves(some)
             for (channels, scale, gain), some in runs.groupby(["channels", "logit-scale", "init-gain"])}
    if (own := stored_parts().get(("pre", "adamw"))) is not None:
        large = SIZES["width"][-1]
        cells |= {(f"{large}", "sp", "1", "1"): cell_of(own, "width", "sp", large)}
    small = {name[1:]: cell.mean().idxmin() for name, cell in cells.items() if name[0] == f"{SIZES['width'][0]}"}
    rows = [[*name, f"{1000 * 2**cell.mean().idxmin():.2g}" + ("*" if at_end(cell) else ""),
             shown(cell[cell.mean().idxmin()]), shown(cell[small[name[1:]]]) if name[1:] in small else ""]
            for name, cell in cells.items()]
    return table(rows, ["channels", "parametrization", "logit scale of the base", "`--init-gain`",
                        "best rate / 1000", "loss", f"at the best rate of {SIZES['width'][0]} channels"])


# ---- picture ---------------------------------------------------------------------------------------------


def draw_losses(axis, runs, direction, parametrization, title):
    """Mean loss against rate, with a line for each size."""
    shades = plt.get_cmap("viridis")(numpy.linspace(0, 0.85, len(SIZES[direction])))
    for size, color in zip(SIZES[direction], shades):
        mean = cell_of(runs, direction, parametrization, size).mean()
        axis.plot(mean.index, mean, "o-", color=color, markersize=3, label=f"{size} {KEYS[direction]}")
        axis.plot(mean.idxmin(), mean.min(), "o", color=color, markersize=8, fillstyle="none")
    axis.set(xlabel="log2 of the learning rate", title=title)
    axis.legend(fontsize=7)


def draw_moves(axis, found, optimizer, direction):
    """How far the best rate of each placement moves, where it lies inside the grid."""
    for shift, name, filled in (-0.15, "sp", False), (0.15, SCALED[direction], True):
        for line in found:
            drawn = (line.optimizer, line.axis, line.parametrization) == (optimizer, direction, name)
            if drawn and line.stays() != "end of the grid":
                color, y = COLOR[line.placement], PLACEMENTS.index(line.placement) + shift
                mean, half = interval(line.moves)
                axis.errorbar(mean, y, xerr=half, fmt="o", color=color, mfc=color if filled else "white", capsize=2)
        axis.plot([], [], "o", color="0.4", mfc="0.4" if filled else "white", label=name)
    axis.axvspan(-HALF, HALF, color="0.93", zorder=0)
    axis.axvline(0, color="0.5", linewidth=1)
    axis.set(yticks=range(len(PLACEMENTS)), yticklabels=PLACEMENTS, ylim=(len(PLACEMENTS) - 0.5, -1.5),
             xlim=(-4.6, 2.6), xlabel=f"doublings of the best rate, {SIZES[direction][0]} → "
             f"{SIZES[direction][-1]} {KEYS[direction]}", title=f"{OPTIMIZERS[optimizer]}, {direction}")
    axis.legend(fontsize=8, loc="upper right", ncols=2)


def picture():
    """Above, the losses of the first placement stored; below, how far the best rates move."""
    found = lines()
    part, runs = next(iter(stored_parts().items()))
    figure, axes = plt.subplots(2, 4, figsize=(15, 7.4))
    panels = [(direction, parametrization) for direction in SIZES for parametrization in ("sp", SCALED[direction])]
    for axis, (direction, parametrization) in zip(axes[0], panels):
        if parametrization in parametrizations(part[0], direction):
            draw_losses(axis, runs, direction, parametrization,
                        f"{part[0]}, {OPTIMIZERS[part[1]]}: {direction}, {parametrization}")
        axis.sharey(axes[0][0])
    axes[0][0].set_ylabel(f"validation loss after {STEPS} steps")
    panels = [(optimizer, direction) for optimizer in OPTIMIZERS for direction in SIZES]
    for axis, (optimizer, direction) in zip(axes[1], panels):
        draw_moves(axis, found, optimizer, direction)
    return figure


# ---- training --------------------------------------------------------------------------------------------


def grid(placement):
    """Every size under every parametrization, at every rate. The smallest size is the base model of all."""
    rates = f"lr={','.join(RATES)} seed={','.join(str(seed + 1) for seed in range(SEEDS))}"
    cells = [("sp", *sized("width", SIZES["width"][0]))]
    for axis, sizes in SIZES.items():
        cells += [(",".join(parametrizations(placement, axis)), *sized(axis, size)) for size in sizes[1:]]
    return " + ".join(f"parametrization={names} channels={channels} layers={layers} heads={channels // HEAD} {rates}"
                      for names, channels, layers in cells)


def shared(placement, optimizer):
    channels, layers = sized("width", SIZES["width"][0])
    return f"""--placement {placement} --optimizer {optimizer} --base-channels {channels} --base-layers {layers}
        --base-heads {channels // HEAD} --batch {BATCH} --context {CONTEXT}"""


def training():
    return f"""--steps {STEPS} --warmup 50% --eval-every {STEPS // 2} --eval-batches 20 --val-fraction 0.02
        --save-every 0"""


def options_of(part):
    return f"{shared(*part)} {training()} --grid {grid(part[0])}"


def wide_table():
    """Losses of the widest Pre-LN with AdamW by rate."""
    runs, shows = pandas.read_csv(HERE / "wide-runs.csv"), RATES[:7]
    rows = []
    for name in WIDE_RATES:
        cell = curves(runs[runs.parametrization == name])
        logs = [round(math.log2(float(rate)), 2) for rate in shows]
        rows.append([name, *(shown(cell[log]) if log in cell else "" for log in logs)])
    return table(rows, [f"{WIDE} channels, parametrization", *(f"rate {float(rate):.2g}" for rate in shows)])


def train_wide(study):
    """Pre-LN with AdamW at a width that all placements would take too long for."""
    channels, layers = sized("width", WIDE)
    seeds = f"seed={','.join(str(seed + 1) for seed in range(SEEDS))}"
    cells = " + ".join(f"parametrization={name} lr={','.join(rates)} {seeds}" for name, rates in WIDE_RATES.items())
    options = f"""{shared('pre', 'adamw')} {training()} --channels {channels} --layers {layers}
        --heads {channels // HEAD} --grid {cells}"""
    train_once(study, "wide", options, [])


def train_once(study, label, options, keys):
    """Trains a comparison beside the parts, unless it is stored. `keys` of its grid are stored, too."""
    kept = (study.args.keep or study.args.stored) and study.has_stored(label, options)
    if not kept and not study.args.stored:
        tables, note = study.tables_of(label, options)
        store(study, label, tables.runs, note, keys)


def train_multipliers(study):
    """Pre-LN with AdamW at both ends of the width, for other scales of the base model's logits and initial weights. An
    explicit --logit-scale replaces mup's factor 1/m."""
    rest = f"init-gain=1,2 lr={','.join(RATES[2:6])} seed={','.join(map(str, range(1, SEEDS + 1)))}"
    cells = " + ".join(f"channels={channels} heads={channels // HEAD} logit-scale={scales} {rest}"
                       for channels, scales in LOGIT_SCALES.items())
    options = f"{shared('pre', 'adamw')} {training()} --parametrization mup --grid {cells}"
    train_once(study, "multipliers", options, ["logit-scale", "init-gain"])


def store(study, label, runs, note, more=("placement", "optimizer")):
    """Stores the columns of runs that the tables need, without a summary: their cells have no baseline."""
    runs[[column for column in [*COLUMNS, *more] if column in runs]].to_csv(HERE / f"{label}-runs.csv", index=False)
    study.store_note(label, {**note, "runs": runs.version.value_counts().to_dict()})


def train(study, part):
    """Trains a part, and stores the columns of its runs that the tables need."""
    tables, note = study.tables_of(label_of(part), options_of(part))
    check_coordinates(study, part)
    store(study, label_of(part), tables.runs.assign(placement=part[0], optimizer=part[1]), note)


def check_coordinates(study, part):
    """Stores how far the stream and the logits have moved after some steps at a constant rate."""
    names = list(dict.fromkeys(name for axis in SIZES for name in parametrizations(part[0], axis)))
    sizes = " ".join(f"--{axis}s {','.join(map(str, sizes))}" for axis, sizes in SIZES.items())
    channels, layers = sized("width", SIZES["width"][0])
    changes = study.init_report(f"{label_of(part)}-changes", f"""{shared(*part)} --channels {channels}
        --layers {layers} --heads {channels // HEAD} --lr {CHECK_RATE} --steps {CHECK_STEPS} {sizes}
        --grid parametrization={','.join(names)} seed=1,2,3""")
    last = changes[(changes.step == CHECK_STEPS) & changes.part.isin(["stream", "logits"])]
    squares = last.assign(change=last.change**2, parametrization=last.cell.str.removeprefix("parametrization="))
    means = squares.groupby(["parametrization", "axis", "size", "seed", "part"], sort=False).change.mean() ** 0.5
    means.round(6).reset_index().to_csv(HERE / f"{label_of(part)}-changes.csv", index=False)


def main():
    study = Study(__doc__, lambda parser: parser.add_argument("--stored", action="store_true",
                                                              help="train nothing; publish the parts that are stored"))
    train_multipliers(study)
    train_wide(study)
    reuse = study.args.keep or study.args.stored
    missing = [part for part in parts() if not (reuse and study.has_stored(label_of(part), options_of(part)))]
    for part in [] if study.args.stored else missing:
        train(study, part)
        study.publish(picture(), published())
    if stored_parts():
        study.publish(picture(), published())


if __name__ == "__main__":
    main()
