#!/usr/bin/env python3
"""Loss curves of one run or of many, over each other, as a PNG of 1600 x 1000 points.

    python dev/plot.py curves.csv                        the cells of a comparison
    python dev/plot.py runs/0001-pre-layernorm runs/...  run directories, their metrics.csv

Thin lines are the smoothed training loss, lines with markers the validation loss. Runs that differ only in
their seed share a colour: the line is their mean, the band reaches from the lowest to the highest. A run that
diverged (not finite, or ended above where it began) or stopped before the others ends in a cross.
"""

import argparse
import csv
import math
import os
import sys

METRICS = ("step", "tokens", "elapsed_s", "train_loss", "val_loss")
# Okabe & Ito's colours, which colour-blind readers can tell apart; without yellow, too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
LABELS = {"step": "step", "tokens": "tokens", "elapsed_s": "seconds",
          "train_loss": "training loss", "val_loss": "validation loss"}


class Complaint(Exception):
    """Something the user can mend; said in one line."""


def read_rows(path):
    """The rows of a CSV file as dictionaries. A folder stands for its metrics.csv."""
    if os.path.isdir(path):
        path = os.path.join(path, "metrics.csv")
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            columns = reader.fieldnames or []
    except OSError as error:
        raise Complaint(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise Complaint(f"{path} is not a CSV file") from None
    missing = [name for name in METRICS if name not in columns]
    if missing:
        raise Complaint(f"{path} has no column {missing[0]} (it has: {', '.join(columns) or 'nothing'})")
    if not rows:
        raise Complaint(f"{path} has no rows")
    return columns, rows


def read_runs(paths):
    """{curve: {run: rows}}. The runs of a curve have the same grid keys, whatever their seed."""
    curves = {}
    for path in paths:
        columns, rows = read_rows(path)
        keys = [name for name in columns[:columns.index("step")] if name != "cell"]
        # A key that never changes says nothing in the legend.
        telling = [key for key in keys if key != "seed" and len({row[key] for row in rows}) > 1]
        folder = path if os.path.isdir(path) else os.path.dirname(path) or path
        place = os.path.basename(os.path.normpath(folder))
        for row in rows:
            label = " · ".join(row[key] for key in telling)
            if not keys:  # a single run, or cells without keys
                label = row.get("cell") or place
            label = label or place
            if len(paths) > 1 and keys:
                label = f"{place}: {label}" if label != place else place
            run = (path, row.get("cell"), row.get("seed"))
            curves.setdefault(label, {}).setdefault(run, []).append(row)
    return curves


def number(row, column):
    """NaN where nothing was measured."""
    try:
        return float(row[column]) if row[column] else math.nan
    except ValueError:
        raise Complaint(f"column {column} holds {row[column]!r}, which is not a number") from None


def points(rows, x, y):
    pairs = [(number(row, x), number(row, y)) for row in rows]
    return [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]


def smoothed(line):
    """The mean over a window of a fiftieth of the line, centred: it does not lag behind."""
    half = min(len(line) // 100, 200)
    sums = [0.0]
    for _, loss in line:
        sums.append(sums[-1] + loss)
    result = []
    for i, (x, _) in enumerate(line):
        reach = min(half, i, len(line) - 1 - i)
        result.append((x, (sums[i + reach + 1] - sums[i - reach]) / (2 * reach + 1)))
    return result


def thinned(line, most=1500):
    return line[::max(1, len(line) // most)]


def interpolate(line, x):
    for (a, b), (c, d) in zip(line, line[1:]):
        if a <= x <= c:
            return b + (d - b) * (x - a) / (c - a) if c > a else d
    return line[0][1] if x <= line[0][0] else line[-1][1]


def band(lines):
    """[(x, mean, lowest, highest)] over runs measured at different x, as far as all reach."""
    lines = [line for line in lines if line]
    if not lines:
        return []
    end = min(line[-1][0] for line in lines)
    begin = max(line[0][0] for line in lines)
    result = []
    for x, _ in max(lines, key=len):
        if begin <= x <= end:
            values = [interpolate(line, x) for line in lines]
            result.append((x, sum(values) / len(values), min(values), max(values)))
    return result


def trouble(rows, longest):
    """Why a run ends in a cross, or None."""
    losses = [number(row, "train_loss") for row in rows if row["train_loss"]]
    if any(not math.isfinite(loss) for loss in losses):
        return "diverged"
    if losses and losses[-1] > losses[0]:
        return "diverged"
    last = number(rows[-1], "step")
    return f"stopped at step {last:.0f}" if last < 0.95 * longest else None


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


def draw(curves, args):
    try:
        import matplotlib
    except ImportError:
        raise Complaint("matplotlib is missing: `make venv` installs it, then use .venv/bin/python") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.text import Text
    from matplotlib.ticker import EngFormatter

    plt.rcParams.update({"font.size": 15, "font.family": "DejaVu Sans", "axes.spines.top": False,
                         "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(16, 10), dpi=100)
    longest = {}  # steps, in each source: the cells of one comparison should all have got there
    for runs in curves.values():
        for (path, *_), rows in runs.items():
            longest[path] = max(longest.get(path, 0), number(rows[-1], "step"))
    ends = []  # (x, y, label, colour) of each curve, for the labels on the right
    heights = []  # losses that the picture should show: not the first steps, not an explosion
    crosses = []

    for index, (label, runs) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        style = ("-", "--", ":")[index // len(COLOURS) % 3]
        marker = MARKERS[index % len(MARKERS)]
        reasons = {run: trouble(rows, longest[run[0]]) for run, rows in runs.items()}
        well = [rows for run, rows in runs.items() if reasons[run] is None]
        shown = well or list(runs.values())  # the mean is that of the runs that got through
        last = None
        for column in ("train_loss", "val_loss") if args.y is None else (args.y,):
            train = column == "train_loss"
            lines = [points(rows, args.x, column) for rows in shown]
            if train:
                lines = [thinned(smoothed(line)) for line in lines]
            line = band(lines)
            if not line:
                continue
            xs, means, lows, highs = zip(*line)
            bold = not train or args.y == "train_loss"
            axes.plot(xs, means, style, color=colour, linewidth=2.4 if bold else 1.0,
                      alpha=1 if bold else 0.55, marker=None if train else marker, markersize=7,
                      markevery=max(1, len(xs) // 25),
                      zorder=3 if bold else 2)
            if len(lines) > 1:
                axes.fill_between(xs, lows, highs, color=colour, alpha=0.15 if bold else 0.08, linewidth=0)
            if bold or last is None:
                last = (xs[-1], means[-1])
            if well or len(curves) == 1:
                heights += [mean for x, mean in zip(xs, means) if x >= 0.15 * xs[-1]] or list(means)
        notes = []
        for run, rows in runs.items():
            if reasons[run] is None:
                continue
            line = thinned(smoothed(points(rows, args.x, args.y or "train_loss")))
            if not line:
                continue
            if well:  # beside the mean of the others, the one that did not get through
                axes.plot(*zip(*line), style, color=colour, linewidth=1.0, alpha=0.55)
            crosses.append((*line[-1], colour))
            last = last or line[-1]
            notes.append(reasons[run])
        if last is None:
            continue
        if notes:
            note = notes[0] if len(set(notes)) == 1 else "not finished"
            label += f" ({note})" if len(runs) == 1 else f" ({len(notes)} of {len(runs)} {note})"
        elif len(runs) > 1:
            label += f" ({len(runs)} seeds)"
        ends.append((*last, label, colour, style, marker))
    if not ends:
        plt.close(figure)
        raise Complaint(f"there is nothing to draw: no {args.y or 'loss'} was measured")

    if args.floor is not None:
        axes.axhline(args.floor, color="0.35", linestyle=(0, (6, 4)), linewidth=1.6, zorder=1)
        heights.append(args.floor)
    heights = heights or [end[1] for end in ends]
    low, high = min(heights), max(heights)
    margin = 0.05 * (high - low or 1)
    low, high = low - margin, high + margin
    axes.set_ylim(low, high)
    for x, y, colour in crosses:  # one that left the picture is marked at its edge
        axes.plot([x], [min(max(y, low), high)], marker="x", markersize=15, markeredgewidth=3.5, color=colour,
                  linestyle="none", clip_on=False, zorder=5)
    axes.set_xlim(left=0)
    right = axes.get_xlim()[1]
    if args.floor is not None:
        axes.annotate(f"floor {args.floor:.4g}", (0, args.floor), xytext=(6, 5), textcoords="offset points",
                      color="0.35", fontsize=14)

    if len(ends) <= 16:  # a label at the end of each line
        moved = spread_out([end[1] for end in ends], 0.036 * (high - low), low, high)
        for (x, y, label, colour, _, _), height in zip(ends, moved):
            axes.annotate(label, (x, min(max(y, low), high)), xytext=(1.025, (height - low) / (high - low)),
                          textcoords="axes fraction", color=colour, va="center", fontsize=15,
                          annotation_clip=False,
                          arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "alpha": 0.6,
                                      "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 5})
    else:  # too many for the margin
        handles = [plt.Line2D([], [], color=colour, linestyle=style, marker=marker, label=label)
                   for _, _, label, colour, style, marker in ends]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1),
                    fontsize=max(7, 320 // len(ends)), frameon=False)
    axes.set_xlabel(LABELS[args.x])
    axes.set_ylabel(f"{LABELS[args.y] if args.y else 'loss'} (nats per token)")
    if args.x == "tokens" or right >= 20000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    if args.title:
        axes.set_title(args.title, loc="left", fontsize=20, pad=16)
    if args.y is None:
        drawn = [plt.Line2D([], [], color="0.35", linewidth=2.4, marker="o", markersize=7,
                            label="validation"),
                 plt.Line2D([], [], color="0.35", linewidth=1.0, label="training, smoothed")]
        if len(ends) <= 16:
            axes.legend(handles=drawn, loc="upper right", frameon=False, fontsize=14)
    # Room on the right for the longest label.
    figure.canvas.draw()
    figure.subplots_adjust(left=0.07, bottom=0.08, top=0.92 if args.title else 0.97, right=0.8)
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # of an annotation: without its line
    boxes += [axes.get_legend().get_window_extent()] if len(ends) > 16 else []
    widest = max(box.width for box in boxes) / figure.bbox.width
    figure.subplots_adjust(right=max(0.45, 0.965 - widest))
    try:
        figure.savefig(args.out)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Complaint(f"cannot write {args.out}: {reason}") from None
    finally:
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", help="curves.csv of a comparison, or run directories")
    parser.add_argument("--out", help="the picture (default: SOURCE.png, or curves.png in a run directory)")
    parser.add_argument("--title", help="a line above the picture")
    parser.add_argument("--floor", type=float, help="a loss no model can go below, as a dashed line")
    parser.add_argument("--x", choices=("step", "tokens", "elapsed_s"), default="step")
    parser.add_argument("--y", choices=("train_loss", "val_loss"), help="only this one (default: both)")
    args = parser.parse_args()
    first = args.source[0]
    args.out = args.out or (os.path.join(first, "curves.png") if os.path.isdir(first)
                            else os.path.splitext(first)[0] + ".png")
    try:
        draw(read_runs(args.source), args)
    except Complaint as complaint:
        sys.exit(f"plot.py: {complaint}")
    print(args.out)


if __name__ == "__main__":
    main()
