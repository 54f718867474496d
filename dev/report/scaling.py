"""Scaling laws of a comparison whose grid has sizes: L(x) = E + A·x^-alpha, for x = parameters and x = FLOPs.

E is the entropy of the text. That of a generated text is known (its floor), so E is fixed to it. E is fitted, too,
which is all that a real text allows. Fits are least squares on log L, as in Hoffmann et al. 2022 (arXiv 2203.15556, eq.
3) but for their Huber loss. Intervals come from a bootstrap over the seeds of each size: they have the noise of the
seeds, but not the error of the law itself.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import series
import style

FEWEST = {True: 3, False: 4}  # sizes that a fit needs: with E fixed, and with E fitted
RESAMPLES = 400
LEAST = 1e-3  # share of the lowest loss: a fitted E below that is at its limit, 0
FAR = 0.1  # share of a loss above E: losses that are farther off follow no law


@dataclass
class Group:
    """The cells that differ in size alone."""
    label: str
    style: style.Style
    cells: list  # numbers of the cells with points, the smallest first
    baseline: bool
    points: pd.DataFrame  # size, parameters, flops, mean, losses: {seed: loss}; one row per size, the smallest first
    laws: dict = field(default_factory=dict)  # (x, whether E is fixed): Fit
    saving: tuple = None  # Saving


@dataclass
class Law:
    E: float
    A: float
    alpha: float

    def at(self, x):
        return self.E + self.A * np.asarray(x, float) ** -self.alpha

    def inverse(self, loss):
        """The x at which the law reaches a loss; infinity if it never does."""
        above = loss - self.E
        if above <= 0 or self.alpha <= 0:
            return np.inf
        with np.errstate(over="ignore"):  # a law that hardly falls
            return float(np.exp((np.log(self.A) - np.log(above)) / self.alpha))


@dataclass
class Fit:
    law: Law
    miss: float  # the largest |loss - law| as a share of law - E
    intervals: dict  # E, A, alpha: (low, high); {} with fewer than two seeds
    resampled: list  # laws of the bootstrap


@dataclass
class Saving:
    """The share of the baseline's compute that a group saves at the loss of the baseline's largest size."""
    loss: float
    size: str  # that largest size
    share: float
    interval: tuple  # () if not known
    beyond: bool  # the group reaches the loss outside of its sizes


def groups_of(comparison, cells):
    """A Group for each combination of the other keys; [] if the grid has no sizes."""
    if "size" not in comparison.keys:
        return []
    others = [{key: value for key, value in cell.keys.items() if key != "size"} for cell in cells]
    kinds = list(dict.fromkeys(tuple(other.items()) for other in others))
    telling = {key for key, _ in {pair for kind in kinds for pair in kind} if len({dict(k)[key] for k in kinds}) > 1}
    looks = style.styles([dict(kind) for kind in kinds])
    verdicts = dict(zip(comparison.summary.cell, comparison.summary.verdict))
    groups = []
    for kind, look in zip(kinds, looks):
        numbers = [i for i, other in enumerate(others) if tuple(other.items()) == kind]
        points = {number: point_of(cells[number]) for number in numbers}
        known = sorted((i for i in numbers if points[i]), key=lambda i: points[i]["parameters"])
        label = style.label({key: value for key, value in kind if key in telling}, "all sizes")
        baseline = any(verdicts.get(cells[i].name) == "baseline" for i in numbers)
        groups.append(Group(label, look, known, baseline, pd.DataFrame([points[i] for i in known])))
    return groups


def groups_with_laws(comparison, cells):
    """groups_of() with laws, which are fitted once."""
    if comparison.groups is None:
        comparison.groups = groups_of(comparison, cells)
        add_laws(comparison.groups, series.floor_of(comparison))
    return comparison.groups


def point_of(cell):
    """The row of a size; None unless all its runs finished and say how large they are."""
    runs = cell.runs
    if len(cell.lost) or runs.final_val.isna().any() or runs.parameters.isna().any():
        return None
    return {"size": cell.keys["size"], "parameters": runs.parameters.mean(), "flops": series.flops_of(runs).mean(),
            "mean": runs.final_val.mean(), "losses": dict(zip(runs.seed, runs.final_val))}


# ---- Fits ----------------------------------------------------------------------------------------

def fit(x, loss, floor=None, start=None):
    """The Law that is nearest to the points; E is `floor`, or fitted if that is None. None if no law can be."""
    x, loss = np.asarray(x, float), np.asarray(loss, float)
    if (loss <= (floor or 0)).any():
        return None
    middle = np.log(x).mean()  # keeps A and alpha apart
    if start:
        guesses = [(start.E, np.log(start.A) - start.alpha * middle, start.alpha)]
    else:
        levels = [floor] if floor is not None else loss.min() * np.array([0.1, 0.4, 0.7, 0.9, 0.97])
        guesses = [(E, *line(np.log(x) - middle, np.log(loss - E))) for E in levels]
    found = [solve(np.log(x) - middle, np.log(loss), guess, floor) for guess in guesses]
    E, log_a, alpha = min(found, key=lambda result: result[0])[1]
    return Law(E, float(np.exp(log_a + alpha * middle)), alpha)


def line(x, y):
    """(intercept, -slope) of a regression; the slope of a law is negative."""
    slope, intercept = np.polyfit(x, y, 1)
    return intercept, max(-slope, 1e-3)


def solve(log_x, log_loss, guess, floor):
    """(cost, (E, log a, alpha)) from a guess. E and alpha stay positive, because their logarithms are fitted."""
    fixed = floor is not None

    def unpacked(p):
        with np.errstate(over="ignore"):
            return (floor if fixed else np.exp(p[0]), p[-2], np.exp(p[-1]))

    def parts(p):
        E, log_a, alpha = unpacked(p)
        with np.errstate(over="ignore"):
            return E, np.exp(np.clip(log_a - alpha * log_x, -700, 300)), alpha

    def residuals(p):
        E, above, _ = parts(p)
        return np.log(E + above) - log_loss

    def slopes(p):
        E, above, alpha = parts(p)
        columns = [above, -alpha * log_x * above] if fixed else [np.full_like(above, E), above, -alpha * log_x * above]
        return np.array(columns).T / (E + above)[:, None]

    E, log_a, alpha = guess
    first = [log_a, np.log(alpha)] if fixed else [np.log(max(E, 1e-9)), log_a, np.log(alpha)]
    result = least_squares(residuals, first, jac=slopes, method="lm", xtol=1e-10, ftol=1e-10, gtol=1e-10)
    return result.cost, tuple(map(float, unpacked(result.x)))


def resampled_means(groups, draws):
    """For each group the means of its sizes, over seeds drawn with replacement. Groups share the draws of a size,
    because runs with the same seed are pairs. Deviations are scaled by √(n/(n-1)): a sample of n varies less by that.
    """
    chosen, result = {}, []
    for group in groups:
        means = []
        for point in group.points.itertuples():
            seeds = tuple(sorted(point.losses))
            key = point.size, seeds
            if key not in chosen:
                chosen[key] = draws.choice(len(seeds), len(seeds))
            drawn = np.mean([point.losses[seeds[i]] for i in chosen[key]])
            means.append(point.mean + np.sqrt(len(seeds) / (len(seeds) - 1)) * (drawn - point.mean))
        result.append(np.array(means))
    return result


def interval(values):
    """The middle 95 %. Its ends are values, because some may be infinite."""
    return tuple(float(x) for x in np.percentile(values, (2.5, 97.5), method="inverted_cdf"))


def add_laws(groups, floor):
    """Fills the laws and savings of all groups."""
    seeds = [len(losses) for group in groups if len(group.points) for losses in group.points.losses]
    draws = np.random.default_rng(1)
    repeats = [resampled_means(groups, draws) for _ in range(RESAMPLES)] if seeds and min(seeds) > 1 else []
    for number, group in enumerate(groups):
        for fixed in (True, False) if floor else (False,):
            if len(group.points) < FEWEST[fixed]:
                continue
            for x in ("parameters", "flops"):
                law = fit(group.points[x], group.points["mean"], floor if fixed else None)
                if law:
                    group.laws[x, fixed] = with_intervals(group.points, x, law, floor if fixed else None,
                                                          [means[number] for means in repeats])
    baseline = next((group for group in groups if group.baseline), None)
    for group in groups:
        if baseline and group is not baseline:
            group.saving = saving(group, baseline, bool(floor))


def with_intervals(points, x, law, floor, repeats):
    expected = law.at(points[x])
    miss = float((np.abs(points["mean"] - expected) / (expected - law.E)).max())
    laws = [fit(points[x], means, floor, law) for means in repeats]
    if not laws or None in laws:  # some seeds are below the floor: the interval would leave them out
        return Fit(law, miss, {}, [])
    return Fit(law, miss, {name: interval([getattr(one, name) for one in laws]) for name in ("E", "A", "alpha")}, laws)


def saving(group, baseline, fixed):
    """Saving of a group; None without laws that the losses follow."""
    ours, theirs = group.laws.get(("flops", fixed)), baseline.laws.get(("flops", fixed))
    if not ours or not theirs or max(ours.miss, theirs.miss) > FAR:
        return None
    compute = baseline.points.flops.iloc[-1]

    def share(our, their):
        return 1 - our.inverse(float(their.at(compute))) / compute

    best = share(ours.law, theirs.law)
    needed = (1 - best) * compute
    beyond = not group.points.flops.iloc[0] <= needed <= group.points.flops.iloc[-1]
    resampled = [share(our, their) for our, their in zip(ours.resampled, theirs.resampled)]
    return Saving(float(theirs.law.at(compute)), baseline.points["size"].iloc[-1], best,
                  interval(resampled) if resampled else (), beyond)


# ---- Words and rows ------------------------------------------------------------------------------

def missing(groups, floor):
    """Why there is no law, or ""."""
    most = max((len(group.points) for group in groups), default=0)
    if any(group.laws for group in groups):
        return ""
    if most >= FEWEST[bool(floor)]:
        return "There is no law: some losses are not above the floor."
    kind = "whose entropy is known" if floor else "whose entropy is not known"
    return f"A law of a text {kind} needs at least {FEWEST[bool(floor)]} sizes whose runs all finished; there " + \
        (f"are {most}." if most != 1 else "is 1.")


def far_off(groups, floor):
    """[group]: those whose losses follow no law of FLOPs, although there are enough sizes."""
    laws = [(group, group.laws.get(("flops", bool(floor)))) for group in groups]
    return [group for group, found in laws if found and found.miss > FAR]


def range_text(bounds, form):
    return f" ({form(bounds[0])} to {form(bounds[1])})" if bounds else ""


def saving_text(saved):
    """saves 12 % (8 to 15) of the compute | needs 12 % (8 to 15) more compute | needs 3.1 × (2.8 to 3.5) the compute"""
    if not np.isfinite(saved.share):
        return "never gets there"
    if saved.share < -1:
        bounds = [1 - bound for bound in reversed(saved.interval)]
        return f"needs {1 - saved.share:.1f} ×{range_text(bounds, '{:.1f}'.format)} the compute".replace("inf", "∞")
    sign = 1 if saved.share >= 0 else -1
    bounds = sorted(sign * 100 * bound for bound in saved.interval)
    said = f"{100 * abs(saved.share):.0f} %{range_text(bounds, '{:.0f}'.format)}".replace("-", "−").replace("inf", "∞")
    return f"saves {said} of the compute" if sign > 0 else f"needs {said} more compute"


def headline(groups, floor):
    """Sentences that say how much compute is saved at equal loss, as far as the intervals support it."""
    if reason := missing(groups, floor):
        return [reason]
    baseline = next((group for group in groups if group.baseline), None)
    judged = [group for group in groups if group.saving]
    if far := far_off(groups, floor):
        miss = max(group.laws["flops", bool(floor)].miss for group in far)
        names = ", ".join(group.label for group in far)
        return [f"The losses of {names} follow no law: they are up to {100 * miss:.0f} % of the loss above E off it.",
                "Train longer, or leave the smallest sizes out."]
    if not baseline or not judged:
        group = next(group for group in groups if group.laws)
        law = group.laws["parameters", bool(floor) and ("parameters", True) in group.laws]
        what = "The loss above the floor" if floor else "The loss above the fitted entropy"
        bounds = range_text(law.intervals.get("alpha"), "{:.2f}".format)
        whose = f" of {group.label}" if len(groups) > 1 else ""
        lacking = ", ".join(other.label for other in groups if not other.laws)
        return [f"{what}{whose} falls as parameters^−{law.law.alpha:.2f}{bounds} over {len(group.points)} sizes.",
                *([f"There is no law of {lacking}: too few sizes finished, or a loss is not above the floor."]
                  if lacking else [])]
    said = []
    for group in sorted(judged, key=lambda group: -group.saving.share):
        saved = group.saving
        loss = f"the loss that {baseline.label} has at size {saved.size} ({saved.loss:.4f})"
        if saved.interval and not saved.interval[0] <= 0 <= saved.interval[1]:
            said.append(f"{group.label} {saving_text(saved)} for {loss}.")
        else:
            said.append(f"{group.label} {saving_text(saved)} for {loss}, which may be chance.")
    return said


def rows_of(groups):
    """Rows of scaling.csv: {column: value}, one for each fit."""
    rows = []
    for group in groups:
        for (x, fixed), found in group.laws.items():
            row = {"cells": group.label, "sizes": len(group.points), "x": x, "E is": "floor" if fixed else "fitted",
                   "miss": found.miss}
            for name in ("E", "A", "alpha"):
                low, high = found.intervals.get(name, ("", ""))
                row |= {name: getattr(found.law, name), f"{name}_low": low, f"{name}_high": high}
            used = group.saving if x == "flops" and fixed == (("flops", True) in group.laws) else None
            low, high = used.interval if used and used.interval else ("", "")
            rows.append({**row, "saved": used.share if used else "", "saved_low": low, "saved_high": high})
    return rows


def has_row(group):
    return any(x == "parameters" for x, _ in group.laws)


def table(groups):
    """(headings, [[text]]): a row for each group with a law of parameters."""
    def text(found, name, form):
        return form(getattr(found.law, name)) + range_text(found.intervals.get(name), form) if found else ""

    rows = []
    for group in filter(has_row, groups):
        fixed, fitted = (group.laws.get(("parameters", kind)) for kind in (True, False))
        saved = group.saving
        compute = saving_text(saved) + (" *" if saved.beyond else "") if saved else ""
        miss = max(found.miss for (x, _), found in group.laws.items() if x == "parameters")
        rows.append([group.label, str(len(group.points)), "baseline" if group.baseline else compute or "no law",
                     f"{100 * miss:.0f} %",
                     text(fixed, "alpha", "{:.3f}".format), text(fixed, "A", "{:.3g}".format),
                     "0, its limit" if fitted and fitted.law.E < LEAST * fitted.law.at(group.points.parameters.iloc[-1])
                     else text(fitted, "E", "{:.4f}".format), text(fitted, "alpha", "{:.3f}".format),
                     text(fitted, "A", "{:.3g}".format)])
    headings = ["cells", "sizes", "at equal loss", "off the law", "α (E: floor)", "A (E: floor)", "E", "α (E fitted)",
                "A (E fitted)"]
    used = [i for i in range(len(headings)) if i < 2 or any(row[i] for row in rows)]
    return [headings[i] for i in used], [[row[i] for i in used] for row in rows]
