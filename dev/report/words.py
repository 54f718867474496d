"""What the report says in words: the headline, the recipe, the table."""

import math
from statistics import mean, stdev

from scipy import stats


def known(x):
    return isinstance(x, (int, float)) and math.isfinite(x)


def number(x, digits=4):
    return f"{x:.{digits}f}" if known(x) else ""


def signed(x, digits=4):
    return f"{x:+.{digits}f}".replace("-", "−") if known(x) else ""


def plain(x):
    """12,345 or 0.0003: as short as it can be said."""
    if not known(x):
        return ""
    return f"{x:,.0f}" if x == int(x) or abs(x) >= 1000 else f"{x:.4g}"


def listed(words, last="and"):
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def paired(cell, other):
    """(mean, half width of its 95 % t interval) of the paired difference of final losses; None below two pairs."""
    ours, theirs = (dict(zip(c.finished.seed, c.finished.final_val)) for c in (cell, other))
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs and known(ours[seed] - theirs[seed])]
    if len(pairs) < 2:
        return None
    return mean(pairs), stats.t.ppf(0.975, len(pairs) - 1) * stdev(pairs) / math.sqrt(len(pairs))


def headline(comparison, cells):
    """[sentence]: which is lowest, what cannot be told from it, what failed."""
    means = dict(zip(comparison.summary.cell, comparison.summary["mean"]))
    ranked = sorted((cell for cell in cells if known(means.get(cell.name))), key=lambda cell: means[cell.name])
    said = []
    if ranked:
        first, rest = ranked[0], ranked[1:]
        floor = first.runs.floor.mean()
        above = f", {number(means[first.name] - floor)} above the floor" if known(floor) else ""
        what = "ends lowest" if rest else "is the only one whose runs all finished" if len(cells) > 1 else "ends"
        said.append(f"{first.label} {what}: {number(means[first.name])} nats per token{above}.")
        against = {cell.label: paired(cell, first) for cell in rest}
        close = [label for label, difference in against.items() if difference and difference[0] <= difference[1]]
        if close:
            said.append(f"Not distinguishable from it: {listed(close)}.")
        elif rest and all(against.values()):
            said.append("Every other one that finished is distinguishably higher.")
        elif rest:
            said.append("With one seed each, how much of the differences is chance is not known.")
    elif any(cell.lost.empty for cell in cells):
        said.append("No validation loss was measured.")
    else:
        said.append("No cell finished all its runs.")
    lost = [trouble(cell) for cell in cells if len(cell.lost)]
    if lost:
        said.append(f"Not every run got through: {'; '.join(lost)}.")
    return said


def trouble(cell):
    """post · rmsnorm (2 of 3 diverged)"""
    counts = cell.lost.state.value_counts()
    what = ", ".join(f"{count} of {len(cell.runs)} {state}" for state, count in counts.items())
    return f"{cell.label} ({what})"


# ---- The recipe ----------------------------------------------------------------------------------

def options(configs, kind):
    """{option: [its values, in order]} over all runs."""
    result = {}
    for config in configs:
        for key, value in getattr(config, kind).items():
            values = result.setdefault(key, [])
            if value not in values:
                values.append(value)
    return result


def shown(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return listed(map(str, value)) if isinstance(value, list) and value else str(value)


def spread(values):
    """What an option was set to, a few at most."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        values = sorted(values)
    words = [shown(value) for value in values]
    return ", ".join(words) if len(words) <= 8 else f"{', '.join(words[:3])}, …, {words[-1]} ({len(words)} values)"


RUN_ONLY = {"seed", "threads", "out", "save-every", "sample-every"}  # these are no part of the recipe


def recipe(comparison):
    """{heading: [(name, text)]}"""
    runs = comparison.runs
    final, tune = (runs[runs.stage == stage] for stage in ("final", "tune"))
    facts = []

    through = final[final.state == "finished"] if (final.state == "finished").any() else final

    def one(name, column, text=plain):
        values = sorted(x for x in set(through[column]) if known(x))
        if values:
            facts.append((name, listed(map(text, values))))

    def seeds(table):
        return ", ".join(sorted({str(seed) for seed in table.seed}, key=lambda s: (len(s), s))) or "not said"

    configs = [config for (stage, *_), config in comparison.configs.items() if stage == "final"]
    given, derived = options(configs, "given"), options(configs, "worked_out")
    # As a rule the batches go with the seed.
    follow = all(config.given.get("data-seed") == config.given.get("seed") for config in configs)
    hidden = RUN_ONLY | ({"data-seed"} if follow else set())
    facts.append(("seeds", seeds(final) + (" (of weights and batches)" if follow else " (of weights)")))
    if len(tune):
        rates = sorted(set(tune.peak_lr))
        facts.append(("learning rates tried", f"{', '.join(f'{rate:g}' for rate in rates)}, on seed {seeds(tune)}"))
    elif "peak_lr" not in final.columns:
        facts.append(("learning rate", f"{spread(given['lr'])}, not tuned" if "lr" in given else "not tuned"))
    one("steps", "steps")
    one("tokens", "tokens")
    one("parameters", "parameters")
    one("unigram", "unigram", lambda x: f"{number(x)} nats per token (knows only how frequent each token is)")
    one("floor", "floor", lambda x: f"{number(x)} nats per token (no model can do better)")

    moved = {key for key in set(given) & set(derived)}  # given in one run, worked out in another
    follows = {key: values for key, values in derived.items() if key not in moved}
    return {
        "facts": facts,
        "differed": [(key, spread(values)) for key, values in given.items() if len(values) > 1 and key not in hidden],
        "followed": [(key, spread(values)) for key, values in follows.items() if len(values) > 1],
        "equal": [(key, shown(values[0])) for key, values in given.items() if len(values) == 1 and key not in hidden],
        "configs": len(configs),
    }


# ---- The table -----------------------------------------------------------------------------------

def count(finished, n):
    return f"{int(finished)}/{int(n)} finished" if known(finished) and known(n) else ""


def final_loss(row):
    """0.2690 ± 0.0051; where seeds failed there is no mean."""
    if not known(row.mean):
        return count(row.finished, row.n)
    return number(row.mean) + (f" ± {number(row.ci)}" if known(row.ci) else "")


def difference(row):
    if not known(row.difference):
        return ""
    return signed(row.difference) + (f" ± {number(row.difference_ci)}" if known(row.difference_ci) else "")


def rate(row):
    peak = getattr(row, "peak_lr", math.nan)
    return f"{peak:g}" + (" (edge)" if row.at_edge == 1 else "") if known(peak) else ""


def seconds(x):
    return f"{x:,.1f}" if known(x) else ""


def share(x):
    return f"{100 * x:.1f} %" if known(x) else ""


# Heading, text of a row, what it is sorted by.
TABLE = (
    ("final loss", final_loss, lambda row: row.mean),
    ("best on the way", lambda row: number(row.best), lambda row: row.best),
    ("to the baseline", difference, lambda row: row.difference),
    ("verdict", lambda row: row.verdict, None),
    ("runs", lambda row: count(row.finished, row.n), lambda row: row.finished),
    ("learning rate", rate, lambda row: getattr(row, "peak_lr", math.nan)),
    ("sensitivity", lambda row: number(row.lr_sensitivity), lambda row: row.lr_sensitivity),
    ("steps to target", lambda row: plain(row.steps_to_target), lambda row: row.steps_to_target),
    ("seconds to target", lambda row: seconds(row.seconds_to_target), lambda row: row.seconds_to_target),
    ("seconds", lambda row: seconds(row.seconds), lambda row: row.seconds),
    ("tokens/s", lambda row: plain(round(row.tokens_per_second)) if known(row.tokens_per_second) else "",
     lambda row: row.tokens_per_second),
    ("loss spikes", lambda row: share(row.loss_spikes), lambda row: row.loss_spikes),
    ("gradient spikes", lambda row: share(row.grad_spikes), lambda row: row.grad_spikes),
    ("clipped", lambda row: share(row.clipped), lambda row: row.clipped),
    ("parameters", lambda row: plain(row.parameters), lambda row: row.parameters),
)


def worked(comparison):
    """The cells of which a run of the tuning finished."""
    runs = comparison.runs
    return set(runs[(runs.stage == "tune") & (runs.state == "finished")].cell)


def table(comparison):
    """(headings, {cell: [(text, sort key)]}); columns in which nothing was measured are left out."""
    summary = comparison.summary
    # Where no rate worked at all, the formula says that the rate does not matter.
    summary = summary.assign(lr_sensitivity=summary.lr_sensitivity.where(summary.cell.isin(worked(comparison))))
    rows = {row.cell: [(text(row), key(row) if key else text(row)) for _, text, key in TABLE]
            for row in summary.itertuples()}
    used = [i for i in range(len(TABLE)) if any(row[i][0] for row in rows.values())]
    return [TABLE[i][0] for i in used], {cell: [row[i] for i in used] for cell, row in rows.items()}
