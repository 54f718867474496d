"""Curves from tables: means over seeds, confidence bands, smoothing. The page and the pictures draw them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

import style

MOST_POINTS = 1000  # per training loss on the page; more would not show
SMOOTHING = 0.02  # share of the run that a smoothed training loss averages over
APART = 0.05  # share of the plot's height by which curves must differ to be distinct
WIDEST_BAND = 0.4  # share of the plot's height; a wider band, as of an exploding seed, hides the rest


@dataclass
class Cell:
    name: str  # as in the column `cell`
    label: str
    style: style.Style
    keys: dict
    runs: pd.DataFrame  # stage final

    @property
    def finished(self):
        return self.runs[self.runs.state == "finished"]

    @property
    def lost(self):
        return self.runs[self.runs.state != "finished"]


def cells_of(comparison):
    """In the order of the grid."""
    final = comparison.runs[comparison.runs.stage == "final"]
    names = list(dict.fromkeys(final.cell))
    keys = []
    for name in names:
        row = final[final.cell == name].iloc[0]
        keys.append({option_of(key): text_of(row[key]) for key in comparison.keys})
    # A key with one value does not distinguish cells.
    telling = [{key: value for key, value in cell.items() if len({c.get(key) for c in keys}) > 1} for cell in keys]
    looks = style.styles(keys)
    return [Cell(name, style.label(short, name or "the model"), look, cell, final[final.cell == name])
            for name, short, look, cell in zip(names, telling, looks, keys)]


OPTIONS = {"peak_lr": "lr", "planned_steps": "steps"}  # column → option, where the names differ


def option_of(column):
    return OPTIONS.get(column, column)


def text_of(value):
    return value if isinstance(value, str) else f"{value:g}"


def size_of(value):
    """A sort key of an option's values: numbers, then shares such as 10%, then words."""
    if not isinstance(value, str):
        return 0, value, ""
    try:
        return int(value.endswith("%")), float(value.rstrip("%")), ""
    except ValueError:
        return 2, 0.0, value


# ---- The scale of a loss -------------------------------------------------------------------------

@dataclass
class Scale:
    excess: bool  # the loss above the floor, on a log axis; otherwise the loss itself
    unit: str = "nats per token"

    def of(self, loss, floor):
        if not self.excess:
            return loss
        return np.where(np.asarray(loss) > floor, loss - floor, np.nan)

    @property
    def title(self):
        return f"loss{' above the floor' if self.excess else ''} ({self.unit})"


def scale_of(comparison):
    """Excess if every run has a floor and no validation is below it. On a few batches, one can be."""
    runs = comparison.runs
    floors = dict(zip(zip(runs.stage, runs.cell, runs.seed), runs.floor))
    if not all(floor > 0 for floor in floors.values()):
        return Scale(False, comparison.unit)
    measured = comparison.curves[comparison.curves.val_loss.notna()]
    lowest = measured.groupby(["stage", "cell", "seed"]).val_loss.min()
    return Scale(all(loss > floors[run] for run, loss in lowest.items() if run in floors), comparison.unit)


def floor_of(comparison):
    """The floor that all runs share, or None."""
    floors = set(comparison.runs.floor)
    floor = floors.pop() if len(floors) == 1 else 0
    return floor if floor > 0 else None


# ---- Curves --------------------------------------------------------------------------------------

@dataclass
class Curve:
    cell: Cell
    role: str  # val: mean of the finished seeds | train: the same | lost: one run that did not finish
    points: pd.DataFrame  # step, tokens, seconds, mean, half: the mean loss and half its 95 % interval, not smoothed
    seeds: list
    floor: float = 0.0  # subtracted from the loss
    state: str = "finished"
    stopped_at: float = float("nan")
    full: float = float("nan")  # mean of the losses on the whole validation split, if all seeds measured it

    def drawn(self, share=SMOOTHING):
        """The columns of x, and y, low, high: above the floor, and smoothed for a training loss."""
        points = self.points
        y = points["mean"].to_numpy() if self.role == "val" else smoothed(points["mean"].to_numpy(), share)
        above = pd.Series(np.where(y > self.floor, y - self.floor, np.nan), points.index)
        return points.assign(y=above, low=above - points.half, high=above + points.half)[above.notna()]

    def end(self, x, top):
        """The last point, or the point at which the curve leaves the top of the plot for good."""
        points = self.drawn()
        inside = points.y[::-1].le(top).cummax()[::-1]
        if inside.all():
            return float(points[x].iloc[-1]), float(points.y.iloc[-1])
        return float(points[x][~inside].iloc[0]), top


def smoothed(loss, share=SMOOTHING):
    """The mean over a centered window of `share` of the curve.

    At the start, where the loss falls fast, the window shrinks to the point itself. At the end it only loses the half
    that does not exist: a curve that ended on its raw last point would seem to dive or to jump.
    """
    n = len(loss)
    half = int(n * share / 2)
    # A running sum would lose the digits of everything after an explosion.
    return np.array([loss[i - min(half, i):i + min(half, i) + 1].mean() for i in range(n)])


def binned(frame):
    """At most MOST_POINTS rows, each the mean over the same number of steps."""
    size = -(-len(frame) // MOST_POINTS)
    return frame if size <= 1 else frame.groupby(np.arange(len(frame)) // size).mean()


def half_width(sd, n):
    """Half the 95 % t interval of a mean of n values."""
    return stats.t.ppf(0.975, n - 1) * sd / np.sqrt(n)


X = {"step": "step", "tokens": "tokens", "elapsed_s": "seconds"}


def run_points(run, column):
    """step, tokens, seconds, loss of one run at the steps that have a value in `column`."""
    rows = run[np.isfinite(run[column])]
    return rows[[*X, column]].rename(columns={**X, column: "loss"})


def across_seeds(runs):
    """Mean and 95 % interval at the steps that all runs measured, and their mean time at each."""
    table = pd.concat(runs).groupby("step").agg(tokens=("tokens", "mean"), seconds=("seconds", "mean"),
                                                mean=("loss", "mean"), sd=("loss", "std"), n=("loss", "count"))
    table = table[table.n == len(runs)].reset_index()
    table["half"] = half_width(table.sd, len(runs)) if len(runs) > 1 else 0.0
    return table.drop(columns=["sd", "n"])


def full_loss(run):
    """The loss on the whole validation split at the end of a run; NaN if it was not measured."""
    return run.val_loss_full.iloc[-1] if "val_loss_full" in run and len(run) else float("nan")


def curves_of(comparison, cell, scale):
    final = comparison.curves[(comparison.curves.stage == "final") & (comparison.curves.cell == cell.name)]
    of_seed = {seed: rows.sort_values("step") for seed, rows in final.groupby("seed")}
    floor = dict(zip(cell.runs.seed, cell.runs.floor)) if scale.excess else dict.fromkeys(cell.runs.seed, 0.0)
    result = []
    seeds = [seed for seed in cell.finished.seed if seed in of_seed]
    for role, column in (("train", "train_loss"), ("val", "val_loss")):
        runs = [run_points(of_seed[seed], column) for seed in seeds]
        together = across_seeds(runs) if runs else pd.DataFrame()
        together = binned(together) if role == "train" else together
        if len(together):
            full = np.mean([full_loss(of_seed[seed]) for seed in seeds]) if role == "val" else float("nan")
            result.append(Curve(cell, role, together, seeds, floor[seeds[0]], full=full))
    if [curve.role for curve in result] == ["train"]:  # without validation, the training loss is the bold curve
        result[0].role = "val"
        result[0].points["mean"] = smoothed(result[0].points["mean"].to_numpy())
    for run in cell.lost.itertuples():
        line = run_points(of_seed[run.seed], "train_loss") if run.seed in of_seed else pd.DataFrame()
        if len(line):
            line = binned(line.rename(columns={"loss": "mean"})).assign(half=0.0)
            result.append(Curve(cell, "lost", line, [run.seed], floor[run.seed], run.state, run.stopped_at))
    return result


def course(run, cell, column, role):
    """A column of a single run's metrics as a curve; None if it was not measured."""
    points = run_points(run.curves[run.curves.cell == cell.name], column)
    if not len(points):
        return None
    return Curve(cell, role, binned(points.rename(columns={"loss": "mean"})).assign(half=0.0), [""])


def height(curves, log, floor=None):
    """(lowest, highest) y of the plot: a robust range of the finished runs, so that an explosion leaves at the top.

    `floor` is a line that has to be visible. On a linear axis the steep first tenth does not count. The top is where
    the validation curves become distinct: above it they share one descent. Runs that got stuck are in the plot, too.
    """
    well = [curve for curve in curves if curve.role != "lost"] or curves
    drawn = [points for points in (curve.drawn() for curve in well) if len(points)]
    if not drawn:
        return 0.1, 1.0
    start = np.median([points.y.iloc[0] for points in drawn])  # one explosion does not move the median
    shown = [points.y[points.step >= (0.02 if log else 0.1) * points.step.iloc[-1]] for points in drawn]
    low = min(points.y.min() for points in drawn)
    high = min(max(y.quantile(0.95, interpolation="lower") for y in shown), 1.1 * start)
    if not high > low:
        high = max(1.1 * start, low)
    step = parting(well, log, low, high)
    if step is not None:
        high = min(high, max(points.y[points.step >= step].max() for points in drawn))
        stuck = [curve.drawn().y.iloc[-1] for curve in curves if curve.state == "stuck" and len(curve.drawn())]
        high = max(high, *stuck) if stuck else high
    if log:
        return low / 1.15, high * 1.15
    low = low if floor is None else min(low, floor)
    margin = 0.05 * (high - low or abs(high) or 1)
    return low - margin, high + margin


def parting(curves, log, low, high):
    """The first step at which the validation losses of the cells are distinct; None if they never are."""
    losses = [curve.drawn().set_index("step").y for curve in curves if curve.role == "val"]
    if len(losses) < 2:
        return None
    table = pd.concat(losses, axis=1, join="inner")
    if log:
        table, low, high = np.log(table), np.log(low), np.log(high)
    apart = table.max(axis=1) - table.min(axis=1) >= APART * (high - low)
    return apart.idxmax() if apart.any() else None


def narrow(points, log, limits):
    """Which points have a band: those inside the plot whose band does not cover it."""
    low, high = (points[name].clip(*limits) for name in ("low", "high"))
    covered = np.log(high / low) / np.log(limits[1] / limits[0]) if log else (high - low) / (limits[1] - limits[0])
    return (covered < WIDEST_BAND) & points.y.between(*limits)


# ---- FLOPs ---------------------------------------------------------------------------------------

def flops_of(runs):
    """The FLOPs of each run: counted by the program, or estimated for earlier tables."""
    estimated = 6 * runs.parameters * runs.tokens
    return runs.flops.fillna(estimated) if "flops" in runs else estimated


# ---- Learning rates ------------------------------------------------------------------------------

def tuned(comparison, cell, scale):
    """peak_lr, y, state of the best tuning run at each rate. y is at most the loss before training, as in the
    sensitivity."""
    runs = comparison.runs[(comparison.runs.stage == "tune") & (comparison.runs.cell == cell.name)]
    if runs.empty or "peak_lr" not in runs.columns:
        return pd.DataFrame()
    ended = runs.state.isin(["finished", "stuck"])  # a loss from before the divergence is not final
    loss = np.fmin(runs.final_val.where(ended), runs.initial_loss)
    result = pd.DataFrame({"peak_lr": runs.peak_lr, "y": scale.of(loss, runs.floor), "state": runs.state,
                           "stopped_at": runs.stopped_at})
    return result[result.y.notna()].sort_values(["peak_lr", "y"]).drop_duplicates("peak_lr")


# ---- Learning rate and warm-up ---------------------------------------------------------------------

BOTH = ("peak_lr", "warmup")


@dataclass
class Surface:
    """The final losses of cells that differ in learning rate and warm-up alone."""
    label: str
    cells: list  # numbers of these cells
    points: pd.DataFrame  # peak_lr, warmup, loss: NaN unless all runs finished, states: of the runs, chosen: the lowest


def tunes_either(comparison):
    return bool(set(BOTH) & set(comparison.tuned))


def surfaces(comparison, cells):
    """A Surface for each cell that tuned both, or for all cells that have the other keys of a grid in common."""
    if not set(BOTH) <= {*comparison.keys, *comparison.tuned}:
        return []
    runs = comparison.runs[comparison.runs.stage == ("tune" if tunes_either(comparison) else "final")]
    groups = {}
    for number, cell in enumerate(cells):
        other = {key: value for key, value in cell.keys.items() if key not in ("lr", "warmup")}
        groups.setdefault(tuple(other.items()), []).append(number)
    telling = {key for key, _ in {pair for group in groups for pair in group}
               if len({dict(group)[key] for group in groups}) > 1}
    result = []
    for group, numbers in groups.items():
        some = runs[runs.cell.isin([cells[number].name for number in numbers])]
        if some[list(BOTH)].drop_duplicates().shape[0] > 1:
            label = style.label({key: value for key, value in group if key in telling}, "")
            result.append(Surface(label, numbers, surface_points(some)))
    return result


def surface_points(runs):
    rows = []
    for (rate, warmup), some in runs.groupby(list(BOTH), sort=False):
        whole = (some.state == "finished").all()
        rows.append({"peak_lr": rate, "warmup": warmup, "states": list(some.state),
                     "loss": some.final_val.mean() if whole else float("nan")})
    points = pd.DataFrame(rows)
    return points.assign(chosen=points.loss == points.loss.min())


# ---- Profiles over the layers --------------------------------------------------------------------

@dataclass
class Profile:
    part: str
    what: str
    title: str
    note: str
    log: bool = True


PROFILES = (
    Profile("ffn.down.weight", "grad_norm", "Gradient norm of ffn.down.weight",
            "the feed-forward layer's output matrix"),
    Profile("attention.o.weight", "grad_norm", "Gradient norm of attention.o.weight", "the attention's output matrix"),
    Profile("stream", "grad_norm", "Gradient norm of the stream", "‖∂L/∂y‖, y the block's output"),
    Profile("stream", "rms", "RMS of the stream", "√mean y², y the block's output"),
    Profile("attention", "branch_ratio", "Attention branch against the stream", "rms(branch) / rms(skip · x)"),
    Profile("ffn", "branch_ratio", "Feed-forward branch against the stream", "rms(branch) / rms(skip · x)"),
    Profile("attention", "entropy", "Attention entropy", "1: attends to all tokens alike, 0: to a single one", False),
)


def profile_steps(diagnostics):
    """{start, middle, end: step} among the steps that were measured."""
    steps = np.sort(diagnostics.step.unique())
    middle = steps[np.abs(steps - steps[-1] / 2).argmin()]
    named = {"start": steps[0], "middle": middle, "end": steps[-1]}
    return {name: step for i, (name, step) in enumerate(named.items()) if step not in list(named.values())[:i]}


def profile(diagnostics, cell, which, step):
    """layer, mean, low, high over seeds."""
    d = diagnostics
    rows = d[(d.cell == cell.name) & (d.part == which.part) & (d.what == which.what) & (d.step == step)
             & d.layer.notna() & np.isfinite(d.value)]
    if which.log:
        rows = rows[rows.value > 0]
    return rows.groupby("layer").value.agg(mean="mean", low="min", high="max").reset_index()


def profiles_present(diagnostics):
    present = set(zip(diagnostics.part, diagnostics.what))
    return [which for which in PROFILES if (which.part, which.what) in present]
