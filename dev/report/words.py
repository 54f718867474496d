"""The text of the report: the headline, the recipe, the table."""

import math
import numbers
from pathlib import Path
from statistics import mean, stdev

from scipy import stats

import scaling
import series


def known(x):
    return isinstance(x, numbers.Real) and math.isfinite(x)


def number(x, digits=4):
    return f"{x:.{digits}f}" if known(x) else ""


def signed(x, digits=4):
    return f"{x:+.{digits}f}".replace("-", "−") if known(x) else ""


def plain(x):
    """A number in short form: 12,345 or 0.0003."""
    if not known(x):
        return ""
    return f"{x:,.0f}" if x == int(x) or abs(x) >= 1000 else f"{x:.4g}"


def capital(text):
    return text[:1].upper() + text[1:]


def listed(words, last="and"):
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def paired(cell, other):
    """p value of a paired t test that the final losses are equal; None below two pairs."""
    ours, theirs = (dict(zip(c.finished.seed, c.finished.final_val)) for c in (cell, other))
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs and known(ours[seed] - theirs[seed])]
    if len(pairs) < 2:
        return None
    return float(stats.ttest_1samp(pairs, 0).pvalue) if stdev(pairs) else float(mean(pairs) == 0)


def holm(values, comparisons=None):
    """p values corrected for their number (Holm 1979), or for the number of planned comparisons, some of which may have
    no result. Those that are None stay out, as 0."""
    known_values = sorted(p for p in values if p is not None)
    corrected, highest = {}, 0.0
    for rank, p in enumerate(known_values):
        highest = max(highest, min(1.0, p * ((comparisons or len(known_values)) - rank)))
        corrected[p] = highest
    return [0.0 if p is None else corrected[p] for p in values]


HIGHER = "All others that finished are distinguishably higher."  # with Holm's correction
NAMED_AT_MOST = 4  # cells named in a headline; if there are more, their number


def headline(comparison, cells, groups=()):
    """[sentence]: first the result, as far as the intervals and the tuning support it; then failures. If cells are
    groups of sizes, the result is what their laws say."""
    if groups:
        return scaling.headline(groups, series.floor_of(comparison)) + trouble(cells)
    means = dict(zip(comparison.summary.cell, comparison.summary["mean"]))
    ranked = sorted((cell for cell in cells if known(means.get(cell.name))), key=lambda cell: means[cell.name])
    if ranked:
        said = ranking(ranked, means, cells, edges(comparison, ranked))
    elif any(cell.lost.empty for cell in cells):
        said = ["No validation loss was measured."]
    else:
        said = ["No cell finished all its runs."]
    said += trouble(cells)
    return said


def ranking(ranked, means, cells, edge):
    """[sentence] about the order of the final losses."""
    first, rest = ranked[0], ranked[1:]
    low = number(means[first.name])
    floor = first.runs.floor.mean()
    above = f", {number(means[first.name] - floor)} above the floor" if known(floor) and floor > 0 else ""
    loss = f"{low} nats per token{above}"
    against = [paired(cell, first) for cell in rest]
    tied = [cell for cell, p in zip(rest, holm(against)) if p > 0.05]
    if not rest:
        only = f"Only {first.label} finished all its runs" if len(cells) > 1 else first.label
        said = [f"{only}: final loss {loss}."]
    elif None in against:
        said = [f"Lowest final loss: {first.label}, {loss}. It may be chance.",
                "With one seed for each cell, chance cannot be told from a difference. Repeat with more seeds."]
    elif tied:
        said = tie(first, tied, rest, f"{low} to {number(means[tied[-1].name])} nats per token")
    elif edge:
        said = [f"No winner yet: {first.label} has the lowest final loss, but the tuning is not finished.",
                f"It ends at {loss}, distinguishably below all others."]
    else:
        said = [f"{first.label} has the lowest final loss: {loss}.", HIGHER]
    if edge:
        said.append(f"Some values next to the best were not tried for {listed(edge)}. One of them may be better: raise "
                    "--tune-runs.")
    return said


def tie(first, tied, rest, losses):
    """[sentence] about several indistinguishable cells with the lowest loss."""
    names = [first.label, *(cell.label for cell in tied)]
    others = len(rest) - len(tied)
    if not others:
        said = f"{listed(names) if len(names) <= NAMED_AT_MOST else f'All {len(names)} cells'} end alike"
    elif len(names) <= NAMED_AT_MOST:
        said = f"{listed(names)} end lowest"
    else:
        said = f"{len(names)} of {len(rest) + 1} cells end lowest"
    said += f" and cannot be told apart: {losses}."
    more = [f"Lowest mean: {names[0]}." if len(names) > NAMED_AT_MOST else "", HIGHER if others else ""]
    return [said, *filter(None, more)]


def edges(comparison, cells):
    """Labels of the cells with untried values next to the best."""
    summary = comparison.summary
    at_edge = set(summary[summary.at_edge != ""].cell)
    return [cell.label for cell in cells if cell.name in at_edge]


def trouble(cells):
    """[Runs that did not finish: 2 of 3 diverged: post · layernorm and post · rmsnorm.]"""
    groups = {}
    for cell in cells:
        if len(cell.lost):
            counts = cell.lost.state.value_counts()
            what = ", ".join(f"{count} of {len(cell.runs)} {state}" for state, count in counts.items())
            groups.setdefault(what, []).append(cell.label)
    if not groups:
        return []
    said = "; ".join(f"{what}: {listed(labels)}" for what, labels in groups.items())
    return [f"Runs that did not finish: {said}."]


def tried(comparison):
    """{tuned option: [values that tuning runs had, in ascending order]}"""
    tune = comparison.runs[comparison.runs.stage == "tune"]
    return {option: list(map(series.text_of, sorted(set(tune[option]), key=series.size_of)))
            for option in comparison.tuned if len(tune)}


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
    """The values of an option: all, or the first three and the last if there are more than eight."""
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        values = sorted(values)
    words = [shown(value) for value in values]
    return ", ".join(words) if len(words) <= 8 else f"{', '.join(words[:3])}, …, {words[-1]} ({len(words)} values)"


RUN_ONLY = {"seed", "threads", "out", "save-every", "sample-every"}  # not part of the recipe


def final_configs(comparison):
    return [config for (stage, *_), config in comparison.configs.items() if stage == "final"]


def recipe_line(comparison):
    """[part] of a line: the model, the data, the length of training."""
    configs, final = final_configs(comparison), comparison.runs[comparison.runs.stage == "final"]
    given = options(configs, "given")
    told = {key: spread(values) for key, values in given.items()}
    parts = []
    if "data" in given:
        files = [file for value in given["data"] for file in (value if isinstance(value, list) else [value])]
        parts.append(spread(list(dict.fromkeys(Path(file).name or file for file in files))))
    if "layers" in told and "channels" in told:
        layers = f"{told['layers']} layer{'' if str(told['layers']) == '1' else 's'}"
        parts.append(f"{layers} × {told['channels']} channels")
    if "context" in told:
        parts.append(f"context {told['context']}")
    together = comparison.summary is not None or len(final) == 1
    sizes = "size" in comparison.keys
    if together and known(mean_of(final, "parameters")):
        parts.append(f"{span_of(final.parameters / 1000, sizes, '{:,.0f}'.format)} k parameters")
    long = final[final.state == "finished"] if (final.state == "finished").any() else final
    parts += [f"{span_of(long[name], sizes, plain)} {name}" for name in ("steps", "tokens")
              if known(mean_of(long, name)) and (together or long[name].nunique() == 1)]
    seeds = final.seed.nunique()
    if comparison.summary is not None:
        parts.append(f"{seeds} seed{'s' if seeds > 1 else ''}")
    parts += [f"{NAMES.get(option, option)} tuned over {listed((values[0], values[-1]), 'to')}"
              for option, values in tried(comparison).items()]
    if "lr" in told and "peak_lr" not in comparison.tuned:
        parts.append(f"learning rate {told['lr']}")
    return parts


def span_of(column, sizes, text):
    """The mean of a column, or its range if the runs have several sizes."""
    return f"{text(float(column.min()))} to {text(float(column.max()))}" if sizes else text(float(column.mean()))


def mean_of(table, column):
    return float(table[column].mean()) if column in table else math.nan


def programs(runs):
    """[(name, text)]: the programs that trained the runs, and the days on which they did."""
    if "version" not in runs:
        return []
    known_runs = runs[runs.version != ""]
    names = sorted({f"train_gpt {run.version}, {run.compiler}, {run.simd}" for run in known_runs.itertuples()})
    days = sorted({date[:10] for date in known_runs.date})
    return [("program" if len(names) == 1 else "several programs", "; ".join(names)),
            ("trained on", " to ".join(dict.fromkeys((days[0], days[-1]))))] if names else []


def recipe(comparison):
    """{heading: [(name, text)]}"""
    runs = comparison.runs
    final, tune = (runs[runs.stage == stage] for stage in ("final", "tune"))
    facts = []

    through = final[final.state == "finished"] if (final.state == "finished").any() else final

    def one(name, column, text=plain):
        values = sorted(x for x in set(through[column]) if known(x)) if column in through else []
        if values:
            facts.append((name, listed(map(text, values))))

    def seeds(table):
        return ", ".join(sorted({str(seed) for seed in table.seed}, key=lambda s: (len(s), s))) or "not said"

    configs = final_configs(comparison)
    given, derived = options(configs, "given"), options(configs, "worked_out")
    # By default the seed determines the batches.
    follow = all(config.given.get("data-seed") == config.given.get("seed") for config in configs)
    hidden = RUN_ONLY | ({"data-seed"} if follow else set())
    facts.append(("seeds", seeds(final) + (" (of weights and batches)" if follow else " (of weights)")))
    for option, values in tried(comparison).items():
        facts.append((f"{NAMES.get(option, option)}s tried", f"{', '.join(values)}, on seed {seeds(tune)}"))
    if "peak_lr" not in final.columns:
        facts.append(("learning rate", f"{spread(given['lr'])}, not tuned" if "lr" in given else "not tuned"))
    one("steps", "steps")
    one("tokens", "tokens")
    one("parameters", "parameters")
    one("unigram entropy", "unigram", lambda x: f"{number(x)} nats per token (loss of a model that knows only token "
                                                "frequencies)")
    one("floor", "floor", lambda x: f"{number(x)} nats per token (no model can do better)")
    facts += programs(runs)

    moved = {key for key in set(given) & set(derived)}  # given in one run, derived in another
    follows = {key: values for key, values in derived.items() if key not in moved}
    return {
        "facts": facts,
        "differed": [(key, spread(values)) for key, values in given.items() if len(values) > 1 and key not in hidden],
        "followed": [(key, spread(values)) for key, values in follows.items() if len(values) > 1],
        "equal": [(key, shown(values[0])) for key, values in given.items() if len(values) == 1 and key not in hidden],
        "configs": len(configs),
    }


# ---- A single run --------------------------------------------------------------------------------

def run_headline(run, cell):
    """[sentence] about one run."""
    state = run.runs.iloc[0]
    loss = state.final_val
    floor = f", {number(loss - state.floor)} above the floor," if known(state.floor) and state.floor > 0 else ""
    steps = f"after {plain(float(state.steps))} steps"
    if state.state == "diverged":
        tensor = f", first in {state.first_tensor}" if state.first_tensor else ""
        return [f"{cell.label} diverged at step {plain(state.stopped_at)}{tensor}."]
    first = f"{cell.label}: validation loss {number(loss)} nats per token{floor} {steps}." if known(loss) else \
        f"{cell.label}: training loss {number(state.final_train)} nats per token {steps}; not validated."
    said = [first]
    if known(state.best_val) and known(loss) and state.best_val < loss - 0.005:
        said.append(f"Lowest on the way: {number(state.best_val)} at step {plain(state.best_step)}.")
    if not state.ended:
        said.append("The run is not finished.")
    return said


# ---- Several runs ---------------------------------------------------------------------------------

def runs_headline(runs, cells):
    """[sentence] about runs that no comparison chose."""
    state = runs.runs.reset_index(drop=True)
    measured = state[state.final_val.notna() & (state.state == "finished")]
    said = [f"{len(cells)} runs; no validation loss was measured."]
    if len(measured):
        lowest = measured.loc[measured.final_val.idxmin()]
        said = [f"Lowest validation loss of {len(cells)} runs: {lowest.cell}, {number(lowest.final_val)} {runs.unit}."]
    said += trouble(cells)
    if runs.unit == "bits per byte":
        said.append("Their tokens differ, so losses are in bits per byte, and training losses are left out.")
    return [*said, "They may differ in more than one option, and in their texts: see the recipe."]


RUNS_TABLE = (
    ("final loss", lambda row: number(row.final_val), lambda row: row.final_val),
    ("best on the way", lambda row: number(row.best_val), lambda row: row.best_val),
    ("state", lambda row: row.state if row.ended or row.state != "finished" else "not finished", None),
    ("steps", lambda row: plain(float(row.steps)), lambda row: row.steps),
    ("tokens", lambda row: plain(float(row.tokens)), lambda row: row.tokens),
    ("seconds", lambda row: seconds(row.seconds), lambda row: row.seconds),
    ("parameters", lambda row: plain(row.parameters), lambda row: row.parameters),
)


def runs_table(runs):
    """As table(), a row for each run."""
    rows = {row.cell: [(text(row), key(row) if key else text(row)) for _, text, key in RUNS_TABLE]
            for row in runs.runs.itertuples()}
    return [heading for heading, *_ in RUNS_TABLE], rows


# ---- The table -----------------------------------------------------------------------------------

def count(finished, n):
    return f"{int(finished)}/{int(n)} finished" if known(finished) and known(n) else ""


def final_loss(row):
    """0.2690 ± 0.0051, or the number of finished runs if some failed."""
    if not known(row.mean):
        return count(row.finished, row.n)
    return number(row.mean) + (f" ± {number(row.ci)}" if known(row.ci) else "")


def difference(row):
    if not known(row.difference):
        return ""
    return signed(row.difference) + (f" ± {number(row.difference_ci)}" if known(row.difference_ci) else "")


NAMES = {"peak_lr": "learning rate", "lr": "learning rate", "warmup": "warm-up"}  # option → the name a reader knows


def tuned_column(option):
    """The column of a tuned option: its value, with (edge) if a neighbor was not tried."""
    def text(row):
        value = getattr(row, option)
        if value == "" or value != value:
            return ""
        return series.text_of(value) + (" (edge)" if f"{option}=" in row.at_edge else "")

    return NAMES.get(option, option), text, lambda row: series.size_of(getattr(row, option))[1]


def p_value(x):
    return ("< 0.0001" if x < 1e-4 else number(x)) if known(x) else ""


def seconds(x):
    return f"{x:,.1f}" if known(x) else ""


def share(x):
    return f"{100 * x:.1f} %" if known(x) else ""


# Heading, text of a row, sort key.
TABLE = (
    ("final loss", final_loss, lambda row: row.mean),
    ("best on the way", lambda row: number(row.best), lambda row: row.best),
    ("to the baseline", difference, lambda row: row.difference),
    ("verdict", lambda row: row.verdict, None),
    ("verdict (Holm)", lambda row: row.verdict_holm, None),
    ("p", lambda row: p_value(row.p), lambda row: row.p),
    ("p (Holm)", lambda row: p_value(row.p_holm), lambda row: row.p_holm),
    ("p, not within the margin", lambda row: p_value(row.p_unequal), lambda row: row.p_unequal),
    ("runs", lambda row: count(row.finished, row.n), lambda row: row.finished),
    ("sensitivity to the rate", lambda row: number(row.lr_sensitivity), lambda row: row.lr_sensitivity),
    ("sensitivity to the warm-up", lambda row: number(row.warmup_sensitivity), lambda row: row.warmup_sensitivity),
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


# The columns that show at first; a click shows the others.
MAIN = ("final loss", "to the baseline", "verdict", "verdict (Holm)", "learning rate", "warm-up", "seconds")


def worked(comparison):
    """The cells with at least one finished tuning run."""
    runs = comparison.runs
    return set(runs[(runs.stage == "tune") & (runs.state == "finished")].cell)


def sensitivities(comparison):
    """{cell: how much worse than its best value the values of each tuned option end on average}"""
    some = worked(comparison)
    return {row.cell: f"Sensitivity to the rate {number(row.lr_sensitivity, 3)}, to the warm-up "
            f"{number(row.warmup_sensitivity, 3)}." for row in comparison.summary.itertuples()
            if row.cell in some and known(row.lr_sensitivity) and known(row.warmup_sensitivity)}


def table(comparison):
    """(headings, {cell: [(text, sort key)]}) without columns that have no measurement."""
    summary = comparison.summary
    # If no rate worked, the formula would show no sensitivity.
    some = summary.cell.isin(worked(comparison))
    summary = summary.assign(**{name: summary[name].where(some) for name in ("lr_sensitivity", "warmup_sensitivity")})
    at = [heading for heading, *_ in TABLE].index("runs") + 1
    columns = (*TABLE[:at], *map(tuned_column, comparison.tuned), *TABLE[at:])
    rows = {row.cell: [(text(row), key(row) if key else text(row)) for _, text, key in columns]
            for row in summary.itertuples()}
    used = [i for i in range(len(columns)) if any(row[i][0] for row in rows.values())]
    return [columns[i][0] for i in used], {cell: [row[i] for i in used] for cell, row in rows.items()}
