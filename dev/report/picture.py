#!/usr/bin/env python3
"""Draws the loss curves of a comparison or of plain runs:

    python dev/report/picture.py OUT                 loss.png, lr.png, profiles.png and scaling.png of a comparison
    python dev/report/picture.py runs/0001 runs/...  loss.png of these runs, into the first (--out names the file)

Bold lines are the validation loss, thin lines the smoothed training loss. Bands are 95 % confidence intervals of the
mean over the seeds. A band that would cover the plot, as after an explosion, is omitted. A run that diverged or got
stuck ends in a cross.
"""

import argparse
import sys
from pathlib import Path

import needs  # noqa: F401
import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

import read
import scaling
import series

DASHES = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.6)), "dashdot": (0, (5, 2, 1, 2))}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "pentagon": "p",
           "hexagon": "h"}
CROSSES = {"diverged": "X", "stuck": "s", "failed": "v"}
LABELS_AT_MOST = 16  # at the ends of lines; more than that go into a legend
X = {"step": "step", "seconds": "seconds of training"}

plt.rcParams.update({"font.size": 14, "font.family": "DejaVu Sans", "text.parse_math": False, "axes.spines.top": False,
                     "axes.spines.right": False, "axes.edgecolor": "0.75", "axes.labelcolor": "0.25",
                     "xtick.color": "0.35", "ytick.color": "0.35",
                     "axes.grid": True, "grid.color": "0.92", "axes.axisbelow": True, "savefig.dpi": 100})


def spread_out(heights, gap, low, high):
    """Moves labels as little as possible so that they are at least `gap` apart, within low..high."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = [min(max(heights[i], low), high) for i in order]
    for _ in range(500):
        for i in range(len(moved) - 1):
            lack = gap - (moved[i + 1] - moved[i])
            if lack > 1e-9:
                moved[i] -= lack / 2
                moved[i + 1] += lack / 2
        if moved and moved[0] < low:
            moved = [m + low - moved[0] for m in moved]
        if moved and moved[-1] > high:
            moved = [m + high - moved[-1] for m in moved]
    result = [0.0] * len(heights)
    for place, i in enumerate(order):
        result[i] = moved[place]
    return result


def log_axis(axis):
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def look(cell, **more):
    return {"color": cell.style.light, "linestyle": DASHES[cell.style.dash], **more}


def label_ends(axes, ends):
    """Writes the name of each line, (x, y, text, its properties), to the right of the axes; many get a legend."""
    if len(ends) > LABELS_AT_MOST:
        handles = [plt.Line2D([], [], **style, label=text) for *_, text, style in ends]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, ncols=1,
                    fontsize=max(7, 320 // len(ends)))
        return
    place = axes.transData + axes.transAxes.inverted()  # the position of a point, from 0 to 1
    heights = [place.transform((x, y))[1] for x, y, *_ in ends]
    for (x, y, text, style), height in zip(ends, spread_out(heights, 0.042, 0, 1)):
        axes.annotate(text, (x, y), xytext=(1.03, height), textcoords="axes fraction", color=style["color"],
                      va="center", annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": style["color"], "linewidth": 0.8, "alpha": 0.6,
                                  "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 4})


def save(figure, path):
    """Saves the figure, cropped so that the longest label fits."""
    try:
        figure.savefig(path, bbox_inches="tight", pad_inches=0.25)
    except (OSError, ValueError) as error:
        raise read.Complaint(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        plt.close(figure)
    return path


# ---- Loss ------------------------------------------------------------------------------------------

def draw_curve(axes, curve, x, log, limits):
    points, cell = curve.drawn(), curve.cell
    width, alpha, order = {"val": (2.6, 1, 4), "train": (1, 0.45, 2), "lost": (1.2, 0.75, 3)}[curve.role]
    axes.plot(points[x], points.y, **look(cell, linewidth=width, alpha=alpha, zorder=order))
    if curve.role == "val" and len(curve.seeds) > 1:
        axes.fill_between(points[x], points.low.clip(*limits), points.high.clip(*limits),
                          where=series.narrow(points, log, limits), color=cell.style.light, alpha=0.16, linewidth=0)
    if curve.role == "lost":
        at, loss = curve.end(x, limits[1])
        axes.plot([at], [loss], CROSSES[curve.state], color=cell.style.light, markersize=11, clip_on=False, zorder=5,
                  fillstyle="none" if curve.state != "diverged" else "full", markeredgewidth=2)


def ended(cell):
    """pre · layernorm (1 of 3 diverged)"""
    states = list(cell.lost.state)
    if not states:
        return cell.label
    state = states[0] if len(set(states)) == 1 else "not finished"
    return f"{cell.label} ({state if len(cell.runs) == 1 else f'{len(states)} of {len(cell.runs)} {state}'})"


def draw_loss(comparison, path, x="step", title=None, floor=None):
    cells, scale = series.cells_of(comparison), series.scale_of(comparison)
    curves = [curve for cell in cells for curve in series.curves_of(comparison, cell, scale)]
    if not curves:
        raise read.Complaint("there is nothing to draw: no loss was measured")
    if curves[0].points[x].isna().all():
        raise read.Complaint("there is nothing to draw: no times were measured")
    floor = floor or series.floor_of(comparison)
    low, high = series.height(curves, scale.excess, floor)
    figure, axes = plt.subplots(figsize=(12, 8))
    if scale.excess:
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    axes.set_ylim(low, high)
    axes.set_xlim(0, max(curve.points[x].iloc[-1] for curve in curves))
    ends = {}
    for curve in curves:
        draw_curve(axes, curve, x, scale.excess, (low, high))
        if curve.role == "val" or curve.cell.name not in ends:  # the bold line's end has the label
            end = curve.end(x, high) if curve.role == "lost" else curve.drawn().iloc[-1][[x, "y"]]
            ends[curve.cell.name] = (*end, ended(curve.cell), look(curve.cell))
    label_ends(axes, list(ends.values()))
    if floor is not None and not scale.excess:
        axes.axhline(floor, color="0.5", linestyle=(0, (6, 4)), linewidth=1.4, zorder=1)
        axes.annotate(f"floor {floor:.4g}", (axes.get_xlim()[1], floor), xytext=(-6, 5), ha="right",
                      textcoords="offset points", color="0.35")
    axes.set_xlabel(X[x])
    axes.set_ylabel(scale.title)
    if axes.get_xlim()[1] >= 20000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    if title:
        axes.set_title(title, loc="left", fontsize=18, pad=16)
    if len(ends) <= LABELS_AT_MOST:  # else the legend has the names
        drawn = [plt.Line2D([], [], color="0.35", linewidth=2.6, label="validation"),
                 plt.Line2D([], [], color="0.35", linewidth=1, alpha=0.6, label="training, smoothed")]
        axes.legend(handles=drawn, loc="lower left", edgecolor="none", framealpha=0.85)
    return save(figure, path)


# ---- Learning rates and layers ---------------------------------------------------------------------

def draw_rates(comparison, path):
    """Final loss against learning rate; None if nothing was tuned."""
    cells, scale = series.cells_of(comparison), series.scale_of(comparison)
    tuned = [(cell, series.tuned(comparison, cell, scale)) for cell in cells]
    tuned = [(cell, runs) for cell, runs in tuned if len(runs)]
    if not tuned:
        return None
    figure, axes = plt.subplots(figsize=(10, 7))
    axes.set_xscale("log")
    if scale.excess:
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    for cell, runs in tuned:
        axes.plot(runs.peak_lr, runs.y, **look(cell, linewidth=2))
        for state, some in runs.groupby("state"):
            axes.plot(some.peak_lr, some.y, CROSSES.get(state, MARKERS[cell.style.marker]), color=cell.style.light,
                      linestyle="none", markersize=7 if state == "finished" else 11, clip_on=False,
                      fillstyle="none" if state in ("stuck", "failed") else "full")
    rates = sorted({rate for _, runs in tuned for rate in runs.peak_lr})
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("peak learning rate")
    axes.set_ylabel("final " + scale.title)
    figure.canvas.draw()
    label_ends(axes, [(runs.peak_lr.iloc[-1], runs.y.iloc[-1], cell.label, look(cell)) for cell, runs in tuned])
    return save(figure, path)


def draw_profiles(comparison, path):
    """One row per quantity, with columns for start, middle and end; None without diagnostics."""
    d = comparison.diagnostics
    quantities = series.profiles_present(d) if d is not None else []
    if not quantities:
        return None
    cells, steps = series.cells_of(comparison), series.profile_steps(d)
    figure, grid = plt.subplots(len(quantities), len(steps), figsize=(4.4 * len(steps), 2.9 * len(quantities)),
                                sharey="row", squeeze=False, layout="constrained")
    drawn = {}
    for row, which in zip(grid, quantities):
        for axes, (name, step) in zip(row, steps.items()):
            if which.log:
                axes.set_yscale("log")
                log_axis(axes.yaxis)
            for cell in cells:
                points = series.profile(d, cell, which, step)
                if len(points):
                    axes.fill_between(points.layer, points.low, points.high, color=cell.style.light, alpha=0.16,
                                      linewidth=0)
                    drawn[cell.name], = axes.plot(points.layer, points["mean"], marker=MARKERS[cell.style.marker],
                                                  **look(cell, linewidth=1.8, markersize=4, label=cell.label))
            heading = which.title if axes is row[0] else ""
            axes.set_title(f"{heading}\n{name}: step {step:,.0f}", loc="left", fontsize=12)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.tick_params(labelsize=11)
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    figure.legend(handles=[drawn[cell.name] for cell in cells if cell.name in drawn], loc="upper left",
                  bbox_to_anchor=(0, 0), ncols=4, frameon=False, fontsize=12)
    return save(figure, path)


# ---- Scaling -----------------------------------------------------------------------------------------

def draw_scaling(comparison, path):
    """Final losses of sizes against FLOPs, with the laws; None if the grid has no sizes."""
    scale, floor = series.scale_of(comparison), series.floor_of(comparison)
    groups = [group for group in scaling.groups_with_laws(comparison, series.cells_of(comparison)) if len(group.points)]
    if not groups:
        return None
    figure, axes = plt.subplots(figsize=(12, 8))
    axes.set_xscale("log")
    axes.set_yscale("log")
    log_axis(axes.yaxis)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}".replace("e+", "e")))
    axes.xaxis.set_minor_formatter(NullFormatter())
    below, ends = floor if scale.excess else 0, []
    for group in groups:
        flops, mean = group.points.flops, group.points["mean"]
        spread = [[mean[i] - min(of.values()), max(of.values()) - mean[i]] for i, of in enumerate(group.points.losses)]
        axes.errorbar(flops, mean - below, list(zip(*spread)), fmt=MARKERS[group.style.marker], capsize=4, markersize=8,
                      color=group.style.light, zorder=4)
        found = group.laws.get(("flops", bool(floor))) or group.laws.get(("flops", False))
        if found:
            x = np.geomspace(flops.min() / 1.3, flops.max() * 1.3, 60)
            axes.plot(x, found.law.at(x) - below, **look(group, linewidth=2))
        ends.append((flops.iloc[-1], mean.iloc[-1] - below, group.label, look(group)))
    axes.set_xlabel("FLOPs of a run")
    axes.set_ylabel("final " + scale.title)
    figure.canvas.draw()
    label_ends(axes, ends)
    return save(figure, path)


def draw_all(comparison, directory):
    """Draws the pictures for which there are data. Deletes the others, which an earlier report may have left."""
    made = []
    for name, draw in (("loss.png", draw_loss), ("lr.png", draw_rates), ("profiles.png", draw_profiles),
                       ("scaling.png", draw_scaling)):
        path = Path(directory) / name
        if draw(comparison, path):
            made.append(path)
        else:
            path.unlink(missing_ok=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", help="the directory of a comparison, or of runs")
    parser.add_argument("--out", help="the picture of plain runs (default: loss.png in the first)")
    parser.add_argument("--title", help="a line above it")
    parser.add_argument("--floor", type=float, help="a loss no model can go below, as a dashed line")
    parser.add_argument("--x", choices=X, default="step")
    args = parser.parse_args()
    given = [name for name in ("out", "title", "floor", "x") if getattr(args, name) != parser.get_default(name)]
    try:
        if (Path(args.source[0]) / "summary.csv").exists():
            if len(args.source) > 1:
                raise read.Complaint("one comparison at a time")
            if given:
                options = ", ".join(f"--{name}" for name in given)
                raise read.Complaint(f"only a picture of plain runs takes {options}: {args.source[0]} is a comparison")
            made = draw_all(read.read_comparison(args.source[0]), args.source[0])
        else:
            path = Path(args.out or Path(args.source[0]) / "loss.png")
            made = [draw_loss(read.read_runs(args.source), path, args.x, args.title, args.floor)]
    except read.Complaint as complaint:
        sys.exit(f"picture: {complaint}")
    print(*made, sep="\n")


if __name__ == "__main__":
    main()
