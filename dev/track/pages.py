"""Writes the tables of README.md and picture.png from the entries' files."""

import results
import rules
from common import HERE as STUDIES
from common import interval, outcome, plt, replace_between, table
from matplotlib import dates

FOLDER = STUDIES.parent / "track"
VERDICTS = {"baseline": "black", "better": "#0072B2", "worse": "#D55E00", "not distinguishable": "0.55"}
OPTIMIZERS = {"adamw": ("o", "AdamW"), "muon": ("s", "Muon"), "normuon": ("D", "NorMuon")}
OTHER = ("^", "another optimizer")


def against_baseline(entry):
    return rules.BASELINE


def link(name):
    return f"[{name}](entries/{name}.toml)"


def star(runs, *names):
    """An asterisk if an entry was tuned to values with a neighbor that was not tried."""
    return "\\*" if runs[runs.name.isin(names)].at_edge.any() else ""


def ranking(entries, runs):
    """The table of a text: the lowest loss first, then the entries that did not finish."""
    if runs.empty:
        return "Not run yet.\n"
    found, final = results.verdicts(entries, runs, against_baseline), results.losses(runs)
    names = sorted(dict.fromkeys(runs.name), key=lambda name: final[name].mean() if name in final else float("inf"))
    rows = []
    for name in names:
        some = runs[runs.name == name]
        rate, warmup = some.peak_lr.iloc[0], some.warmup.iloc[0]
        judged = ["", "", "baseline"] if name == rules.BASELINE else results.difference_of(found, name)
        tuned = f"{rate:g}, {warmup}{star(runs, name)}"
        rows.append([link(name), tuned, int(some.steps.iloc[0]), outcome(some), *judged])
    return table(rows, ["entry", "rate, warm-up", "steps", "final loss", f"minus `{rules.BASELINE}`", "p (Holm)",
                        "verdict"])


def why_not(entry, runs):
    """Why an entry has no difference on a text: "not trained", or "5/10 stuck" of it or of the one it changes."""
    for name in (entry.name, entry.against):
        some = runs[runs.name == name]
        if some.empty:
            return "not trained"
        if (some.state != "finished").any():
            return outcome(some) if name == entry.name else f"`{name}` {outcome(some)}"
    return ""


def claims(entries, runs_of):
    """The table of claims: each entry that changes another one, compared with that. A verdict has an asterisk if either
    of them has one."""
    found = {text.name: results.verdicts(entries, runs, lambda entry: entry.against) for text, runs in runs_of.items()}
    rows = []
    trained = {name for runs in runs_of.values() for name in runs.name}
    for entry in sorted(entries, key=lambda entry: (entry.date, entry.name)):
        if entry.name not in trained or entry.against == entry.name:
            continue
        cells = []
        for text, runs in runs_of.items():
            difference, _, verdict = results.difference_of(found[text.name], entry.name)
            cells += [difference or why_not(entry, runs), verdict and verdict + star(runs, entry.name, entry.against)]
        rows.append([link(entry.name), entry.date.year, entry.claim, f"`{entry.against}`", *cells])
    heads = [head for text in runs_of for head in (f"difference, {text.title}", "verdict")]
    return (table(rows, ["entry", "year", "hypothesis", "compared with", *heads]) +
            f"\n{len(trained)} of {len(entries)} entries are trained so far.\n")


def draw_text(axis, entries, runs, text):
    """Final losses against the dates of the claims, and the lowest so far."""
    final, found = results.losses(runs), results.verdicts(entries, runs, against_baseline)
    shown = sorted((entry for entry in entries if entry.name in final), key=lambda entry: (entry.date, entry.name))
    best, steps, record = float("inf"), [], []
    for entry in shown:
        mean, half = interval(final[entry.name])
        verdict = found[entry.name][2] if entry.name in found else "baseline"
        axis.errorbar(entry.date, mean, yerr=half, fmt=look_of(entry)[0], color=VERDICTS[verdict], capsize=2,
                      elinewidth=1)
        if mean < best:
            best = mean
            record.append((entry, mean))
        steps.append((entry.date, best))
    axis.step(*zip(*steps), where="post", color="0.6", linewidth=1, zorder=0)
    for entry, mean in record:
        axis.annotate(entry.name, (entry.date, mean), xytext=(5, -10), textcoords="offset points", fontsize=8)
    axis.set(title=text.title, xlabel="date of the claim", ylabel="final loss, nats per token")
    axis.xaxis.set_major_locator(dates.YearLocator())
    axis.xaxis.set_major_formatter(dates.DateFormatter("%Y"))


def look_of(entry):
    """Marker and name of an entry's optimizer."""
    return OPTIMIZERS.get(entry.options.get("optimizer", "adamw"), OTHER)


def legend(figure, axis, entries):
    keys = [axis.plot([], [], "o", color=color, label=verdict)[0] for verdict, color in VERDICTS.items()]
    keys += [axis.plot([], [], marker, color="0.3", fillstyle="none", label=name)[0]
             for marker, name in dict.fromkeys(map(look_of, entries))]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), fontsize=8)


def draw(entries, runs_of, path):
    figure, axes = plt.subplots(1, len(runs_of), figsize=(5.4 * len(runs_of), 4.4), squeeze=False,
                                sharex=True)
    for axis, (text, runs) in zip(axes[0], runs_of.items()):
        draw_text(axis, entries, runs, text)
    names = {name for runs in runs_of.values() for name in runs.name}
    legend(figure, axes[0][0], [entry for entry in entries if entry.name in names])
    figure.savefig(path)
    plt.close(figure)


def sections(entries, runs_of):
    """{mark in README.md: what belongs there}"""
    tables = {text.name: ranking(entries, runs) for text, runs in runs_of.items()}
    return {"claims": claims(entries, runs_of), **tables}


def publish(entries, folder=FOLDER):
    """Writes the tables, and the picture of the texts on which the baseline was run."""
    runs_of = {text: results.final_runs(entries, text) for text in rules.TEXTS}
    for name, text in sections(entries, runs_of).items():
        replace_between(folder / "README.md", name, text)
    drawn = {text: runs for text, runs in runs_of.items() if rules.BASELINE in set(runs.name)}
    if drawn:
        draw(entries, drawn, folder / "picture.png")
    print(folder / "README.md", folder / "picture.png", sep="\n")
