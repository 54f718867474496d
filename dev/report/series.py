"""From tables to curves: means over seeds, bands, smoothing. What the page and the pictures both draw."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import style

MOST_POINTS = 400  # of a training loss; more cannot be seen


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
        cell = {key: row[key] for key in comparison.keys}
        if any(part.startswith("lr=") for part in name.split(",")):  # a key of the grid, whose column is peak_lr
            cell["lr"] = f"{row.peak_lr:g}"
        keys.append(cell)
    # A key that never changes says nothing.
    telling = [{key: value for key, value in cell.items() if len({c.get(key) for c in keys}) > 1} for cell in keys]
    looks = style.styles(keys)
    return [Cell(name, style.label(short, name or "the model"), look, cell, final[final.cell == name])
            for name, short, look, cell in zip(names, telling, looks, keys)]


# ---- The scale of a loss -------------------------------------------------------------------------

@dataclass
class Scale:
    excess: bool  # over the floor, on a log axis; else the loss itself

    def of(self, loss, floor):
        if not self.excess:
            return loss
        return np.where(np.asarray(loss) > floor, loss - floor, np.nan)

    @property
    def title(self):
        return "loss above the floor (nats per token)" if self.excess else "loss (nats per token)"


def scale_of(comparison):
    """Excess where every run knows its floor and no validation came out below it, as one on a few batches can."""
    runs = comparison.runs
    floors = dict(zip(zip(runs.stage, runs.cell, runs.seed), runs.floor))
    if not all(floor > 0 for floor in floors.values()):
        return Scale(False)
    measured = comparison.curves[comparison.curves.val_loss.notna()]
    lowest = measured.groupby(["stage", "cell", "seed"]).val_loss.min()
    return Scale(all(loss > floors[run] for run, loss in lowest.items() if run in floors))


def floor_of(comparison):
    """The floor that all runs share, or None."""
    floors = set(comparison.runs.floor)
    floor = floors.pop() if len(floors) == 1 else 0
    return floor if floor > 0 else None


# ---- Curves --------------------------------------------------------------------------------------

@dataclass
class Curve:
    cell: Cell
    role: str  # val: mean of the finished seeds | train: the same, smoothed | lost: one run that did not finish
    points: pd.DataFrame  # step, seconds, mean, low, high
    seeds: list
    state: str = "finished"
    stopped_at: float = float("nan")

    def end(self, x, top):
        """Where it ends; of one that leaves a picture as high as `top` for good, the place where it does."""
        inside = self.points["mean"][::-1].le(top).cummax()[::-1]
        if inside.all():
            return float(self.points[x].iloc[-1]), float(self.points["mean"].iloc[-1])
        return float(self.points[x][~inside].iloc[0]), top


def smoothed(loss):
    """The mean over a window of a fiftieth of the curve, centred: it does not lag behind."""
    half = min(len(loss) // 100, 200)
    if half == 0:
        return loss
    # No running sum: after an explosion it would have lost the digits of all that follows.
    reach = [min(half, i, len(loss) - 1 - i) for i in range(len(loss))]
    return np.array([loss[i - r:i + r + 1].mean() for i, r in enumerate(reach)])


def thinned(frame):
    """The last row stays: it is where the curve ends."""
    if len(frame) <= MOST_POINTS:
        return frame
    return frame.iloc[np.unique(np.linspace(0, len(frame) - 1, MOST_POINTS).round().astype(int))]


def run_points(run, column, scale, floor):
    """step, seconds, y of one run, where `column` was measured."""
    rows = run[np.isfinite(run[column])]
    loss = rows[column].to_numpy()
    if column == "train_loss":
        loss = smoothed(loss)
    points = pd.DataFrame({"step": rows.step.to_numpy(), "seconds": rows.elapsed_s.to_numpy(),
                           "y": scale.of(loss, floor)})
    return points[points.y.notna()]


def across_seeds(runs):
    """Mean, lowest and highest at the steps that all runs measured; their mean time at each."""
    together = pd.concat(runs).groupby("step").agg(seconds=("seconds", "mean"), mean=("y", "mean"), low=("y", "min"),
                                                   high=("y", "max"), n=("y", "count")).reset_index()
    return thinned(together[together.n == len(runs)].drop(columns="n"))


def curves_of(comparison, cell, scale):
    final = comparison.curves[(comparison.curves.stage == "final") & (comparison.curves.cell == cell.name)]
    of_seed = {seed: rows.sort_values("step") for seed, rows in final.groupby("seed")}
    floor = dict(zip(cell.runs.seed, cell.runs.floor))
    result = []

    def points(seed, column):
        return run_points(of_seed[seed], column, scale, floor[seed])

    seeds = [seed for seed in cell.finished.seed if seed in of_seed]
    for role, column in (("train", "train_loss"), ("val", "val_loss")):
        runs = [points(seed, column) for seed in seeds]
        together = across_seeds(runs) if runs else pd.DataFrame()
        if len(together):
            result.append(Curve(cell, role, together, seeds))
    if result and all(curve.role == "train" for curve in result):  # nothing was validated: it is the bold one
        result[0].role = "val"
    for run in cell.lost.itertuples():
        if run.seed in of_seed:
            line = thinned(points(run.seed, "train_loss"))
            if len(line):
                line = line.rename(columns={"y": "mean"}).assign(low=line.y, high=line.y)
                result.append(Curve(cell, "lost", line, [run.seed], run.state, run.stopped_at))
    return result


def height(curves, scale, floor=None):
    """(lowest, highest) loss that a picture shows: on a log axis all but explosions; else all but the first steps."""
    well = [curve for curve in curves if curve.role != "lost"] or curves
    start = max((curve.points["mean"].iloc[0] for curve in well), default=1.0)
    lows, highs = [], []
    for curve in (curves if scale.excess else well):
        points = curve.points
        shown = points if scale.excess else points[points.step >= 0.1 * points.step.iloc[-1]]
        lows.append(points.low.min())
        highs.append(min(shown.high.max(), 1.1 * start))
    low, high = min(lows), max(highs)
    if scale.excess:
        return low / 1.15, high * 1.15
    low = low if floor is None else min(low, floor)
    margin = 0.05 * (high - low or abs(high) or 1)
    return low - margin, high + margin


# ---- Learning rates ------------------------------------------------------------------------------

def tuned(comparison, cell, scale):
    """peak_lr, y, state of each tuning run; y is at most the loss before training, as the sensitivity counts it."""
    runs = comparison.runs[(comparison.runs.stage == "tune") & (comparison.runs.cell == cell.name)]
    if runs.empty or "peak_lr" not in runs.columns:
        return pd.DataFrame()
    ended = runs.state.isin(["finished", "stuck"])  # what was measured before a run diverged is not its end
    loss = np.fmin(runs.final_val.where(ended), runs.initial_loss)
    result = pd.DataFrame({"peak_lr": runs.peak_lr, "y": scale.of(loss, runs.floor), "state": runs.state,
                           "stopped_at": runs.stopped_at})
    return result[result.y.notna()].sort_values("peak_lr")


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
    """{start, middle, end: step}, of the steps that were measured."""
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
