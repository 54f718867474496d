#!/usr/bin/env python3
"""Two claims of 2026 about DyT and Derf, which bound each number instead of normalizing a row.

Abouzeid (arXiv 2604.01563): Derf's gap to RMSNorm grows with Muon, DyT's does not, and an initial alpha of 0.3
recovers most of it. Verma (arXiv 2604.23434): DyT helps with little data and hurts with much. Models of 6 layers x 64
channels on a dictionary of English; each cell tunes its rate and its warm-up together on a separate seed, and five
others follow. --keep trains only parts that are not stored yet, --only those that it names, --stored none.
Build with `make MARCH=x86-64-v3`: the runs then have the same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from cells import TUNED  # noqa: E402
from common import (Study, interval, not_trained, outcome, part_options, plt, signed, stats, stored,  # noqa: E402
                    table, tuned_to)
from words import holm  # noqa: E402

NORMS = {"RMSNorm": "norm=rmsnorm", "DyT": "norm=dyt", "Derf": "norm=derf", "Derf, α 0.3": "norm=derf dyt-alpha=0.3"}
LIMITS = {"20 k": "2e4", "100 k": "1e5", "500 k": "5e5", "5 M": "5e6"}  # tokens of text
DATA_NORMS = {"LayerNorm": "layernorm", "DyT": "dyt"}
PARTS = {"adamw": "AdamW", "muon": "Muon", "data": "more text"}
SEEDS = 5
HERE = Path(__file__).parent
# A stream that starts at 1: from one of .02, DyT stays at the unigram entropy (study 10).
SHARED = """--layers 6 --channels 64 --heads 4 --context 64 --no-tied --embedding-scale 50 --min-lr 0 --eval-batches 20
    --save-every 0 --tune-runs 10"""


def seeds():
    return f"seed={','.join(str(seed + 1) for seed in range(SEEDS))}"


def options_of_norms(optimizer):
    cells = " + ".join(f"{keys} {seeds()}" for keys in NORMS.values())
    return f"""{SHARED} --batch 4 --steps 800 --eval-every 200 --optimizer {optimizer} --grid {cells}
        --tune lr={TUNED[optimizer][1]} warmup=5%,20%"""


def options_of(part):
    return options_of_data() if part == "data" else options_of_norms(part)


def is_stored(*names):
    return all((HERE / f"{name}-runs.csv").exists() for name in names)


def options_of_data():
    return f"""{SHARED} --batch 8 --steps 1000 --eval-every 250 --dyt-alpha 0.5
        --grid norm={",".join(DATA_NORMS.values())} data-limit={",".join(LIMITS.values())} {seeds()}
        --tune lr=1e-3,3e-3,9e-3 warmup=5%,20%"""


# ---- tables ----------------------------------------------------------------------------------------------


def cells(name, labels):
    """(label, row of the summary, final runs by seed) of each cell of a stored comparison."""
    summary, runs = stored(__file__, f"{name}-summary"), stored(__file__, f"{name}-runs")
    final = runs[runs.stage == "final"]
    return [(label, row, final[final.cell == row.cell].set_index("seed"))
            for label, row in zip(labels, summary.itertuples(), strict=True)]


def difference(runs, baseline):
    """Final losses minus those of the baseline, seed by seed; None if a run of either did not finish."""
    finished = all((some.state == "finished").all() for some in (runs, baseline))
    return runs.final_val - baseline.final_val if finished else None


def p_values(differences):
    """Holm's p of each difference that is known; the unknown ones stay comparisons."""
    known = [values for values in differences if values is not None]
    corrected = iter(holm([stats.ttest_1samp(values, 0).pvalue for values in known], len(differences)))
    return ["" if values is None else f"{next(corrected):.2g}" for values in differences]


def norm_gaps():
    """{optimizer: {norm: difference to RMSNorm}}."""
    result = {}
    for optimizer in TUNED:
        found = cells(optimizer, NORMS)
        result[optimizer] = {label: difference(runs, found[0][2]) for label, _, runs in found[1:]}
    return result


def norm_tables():
    gaps = norm_gaps()
    rows = [[label, name, ", ".join(tuned_to(row)), outcome(runs)]
            + [signed(gap) if (gap := gaps[optimizer].get(label)) is not None else ""]
            for optimizer, (name, _) in TUNED.items() for label, row, runs in cells(optimizer, NORMS)]
    ends = table(rows, ["norm", "optimizer", "rate, warm-up", "final loss", "minus RMSNorm"])
    both = [(label, *(gaps[optimizer][label] for optimizer in TUNED)) for label in list(NORMS)[1:]]
    growth = [None if a is None or b is None else b - a for _, a, b in both]
    rows = [[label, signed(values) if values is not None else "", p] for (label, *_), values, p
            in zip(both, growth, p_values(growth), strict=True)]
    return ends + "\n" + table(rows, ["norm", "its gap with Muon minus that with AdamW", "p (Holm)"])


def data_labels():
    return [(norm, limit) for norm in DATA_NORMS for limit in LIMITS]


def data_gaps():
    """{tokens of text: DyT minus LayerNorm}."""
    runs = {label: some for label, _, some in cells("data", data_labels())}
    return {limit: difference(runs["DyT", limit], runs["LayerNorm", limit]) for limit in LIMITS}


def data_table():
    found = {label: (row, runs) for label, row, runs in cells("data", data_labels())}
    gaps = data_gaps()
    rows = []
    for (limit, values), p in zip(gaps.items(), p_values(list(gaps.values())), strict=True):
        each = [found[norm, limit] for norm in DATA_NORMS]
        rows.append([limit, *(text for row, runs in each for text in (", ".join(tuned_to(row)), outcome(runs))),
                     signed(values) if values is not None else "", p])
    return table(rows, ["tokens of text", "rate, warm-up, LayerNorm", "final loss, LayerNorm", "rate, warm-up, DyT",
                        "final loss, DyT", "DyT minus LayerNorm", "p (Holm)"])


def published():
    """The picture and the tables in README.md, from the parts that are stored."""
    missing = [name for part, name in PARTS.items() if not is_stored(part)]
    lines = not_trained(missing)
    if len(missing) < len(PARTS):
        lines.append("![Differences to RMSNorm with two optimizers, and to LayerNorm by length of text]"
                     "(pointwise/picture.png)\n")
    if is_stored(*TUNED):
        lines.append(norm_tables())
    if is_stored("data"):
        lines.append(data_table())
    return "\n".join(lines)


# ---- picture ---------------------------------------------------------------------------------------------


def draw(axis, names, series, title, xlabel):
    """Mean differences and their intervals: a row for each name, a color for each series."""
    for number, (label, values) in enumerate(series.items()):
        for y, name in enumerate(names):
            if values.get(name) is not None:
                mean, half = interval(values[name])
                axis.errorbar(mean, y + 0.2 * number - 0.1 * (len(series) - 1), xerr=half, fmt="o", color=f"C{number}",
                              capsize=2)
        axis.plot([], [], "o", color=f"C{number}", label=label)
    axis.axvline(0, color="0.5", linewidth=1)
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), title=title, xlabel=xlabel)
    if len(series) > 1:
        axis.legend(fontsize=8)


def picture():
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    gaps = norm_gaps() if is_stored(*TUNED) else {}
    draw(axes[0], list(NORMS)[1:], {TUNED[optimizer][0]: values for optimizer, values in gaps.items()},
         "with two optimizers", "final loss minus that of RMSNorm")
    draw(axes[1], list(LIMITS), {"DyT": data_gaps()} if is_stored("data") else {}, "with more text",
         "final loss of DyT minus that of LayerNorm")
    axes[1].set_ylabel("tokens of text")
    return figure


def publish(study):
    study.publish(picture() if any(map(is_stored, PARTS)) else None, published())


def main():
    study = Study(__doc__, part_options(list(PARTS)))
    for part in study.parts_to_train({part: {part: options_of(part)} for part in PARTS}):
        study.compare(part, options_of(part), text=study.text_named("english"))
        publish(study)
    publish(study)


if __name__ == "__main__":
    main()
