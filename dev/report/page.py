"""The page: one HTML file that contains plotly.js, data and style."""

import json
import math
from html import escape
from pathlib import Path

import numpy as np
import plotly.offline

import figures
import scaling
import series
import words

HERE = Path(__file__).parent

TABLE_WORDS = """Final loss is the validation loss at the last step: the mean over the seeds ± half its 95 % t interval.
The difference to the baseline is taken between runs of the same seed, which see the same batches, and then averaged.
“Not distinguishable” means that the 95 % interval of this difference contains 0. The verdict with Holm's correction
takes into account how many cells there are: of twenty equal cells, one would look different without it. A cell with a
run that did not finish has no mean. Click a heading to sort."""

MARGIN_WORDS = """ “Equal within” a margin means that two one-sided t tests, each at 5 %, reject a larger difference."""


def as_json(figure):
    """Removes the parts of Plotly's default template, because page.js sets all of them."""
    figure = json.loads(figure.to_json())
    figure["layout"].pop("template", None)
    return figure


def swatch(index):
    """A line as a small picture; page.js gives it color and dashes."""
    return (f'<span data-swatch="{index}"><svg width="26" height="10" aria-hidden="true">'
            '<line x1="1" x2="25" y1="5" y2="5" stroke-width="2.6"/></svg></span>')


def definitions(pairs):
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


RATES_WORDS = """Each point is the best tuning run at a learning rate; the largest point of a curve is its best rate. A
run that diverged (×) or failed (▽) is drawn at its loss before training; □ marks a run that was stuck. Sensitivity is
the mean loss of the rates that --tune names, minus the lowest; 0 means that the rate does not matter (Wortsman et al.
2023, arXiv 2309.14322)."""

SURFACES_WORDS = """The stronger the color, the lower the loss; all panels have one scale. A frame marks the lowest of a
panel."""
BORDER_WORDS = {True: "Empty fields were not tried: the search only tries neighbors of the best.",
                False: "If it is at the border, a point beyond may be lower."}

PROFILES_WORDS = "Measured on the weights before the named step."
SEEDS_WORDS = """ Lines are means over the seeds, bands reach from the lowest seed to the highest. A cell that did not
reach a step is missing from its panel."""

AXES = {"step": "steps", "tokens": "tokens", "seconds": "seconds", "flops": "FLOPs"}
SMOOTHINGS = (0, 0.01, 0.02, 0.05, 0.1, 0.2)
SAMPLES_SHOWN = 6
COURSES = {"lr": "learning rate", "grad_norm": "gradient norm"}


# ---- Sections --------------------------------------------------------------------------------------

def head_section(name, sentences):
    first, *others = (sentence.replace(" · ", "\u00a0·\u00a0") for sentence in sentences)  # keeps a name on one line
    return (f'<p class="name">{escape(name)}</p><h1 id="headline">{escape(first)}</h1>'
            + (f'<p class="lead">{escape(" ".join(others))}</p>' if others else ""))


def recipe_section(comparison):
    recipe = words.recipe(comparison)
    line = "".join(f"<span>{escape(part)}</span>" for part in words.recipe_line(comparison))
    parts = [f'<section id="recipe"><p class="recipe">{line}</p><details><summary>The whole recipe</summary>'
             '<div class="box">', definitions(recipe["facts"])]
    if recipe["differed"]:
        parts += ["<h3>Options that differed</h3>", definitions(recipe["differed"])]
    if recipe["followed"]:
        parts += ['<h3>What followed from that</h3><p class="note">The program chose these; nobody set them.</p>',
                  definitions(recipe["followed"])]
    if recipe["equal"]:
        options = "".join(f"<div><span>{escape(k)}</span> {escape(v)}</div>" for k, v in recipe["equal"])
        heading = "Options equal in all runs" if recipe["configs"] > 1 else "Options"
        parts.append(f'<h3>{heading}</h3><div class="options">{options}</div>')
    if not recipe["configs"]:
        parts.append('<p class="note">The runs left no config.toml: their options are not known.</p>')
    return "".join(parts) + "</div></details></section>"


def legend(cells):
    def note(cell):
        lost = len(cell.lost)
        return f" <i>{len(cell.runs) - lost}/{len(cell.runs)}</i>" if lost else ""

    buttons = "".join(f'<button data-toggle="{i}" title="click: on or off; double click: only this one">{swatch(i)}'
                      f"<span>{escape(cell.label)}{note(cell)}</span></button>" for i, cell in enumerate(cells))
    return f'<div class="legend" id="legend" role="group" aria-label="curves">{buttons}</div>'


def save_buttons(target, formats):
    buttons = "".join(f'<button data-save="{kind}" data-of="{target}">{kind}</button>' for kind in formats)
    return f'<span class="save" role="group" aria-label="save what is shown">Save {buttons}</span>'


def plot(name, kind=""):
    return f'<div class="plot {kind}" id="{name}"></div>'


def toolbar(plots):
    """The controls: horizontal axis, logarithms, smoothing."""
    curves = plots["loss"]["curves"]
    missing = {"seconds": "not measured: several runs shared the machine",
               "flops": "the number of parameters is not known"}
    axes = "".join(f'<button data-x="{x}"' + (f' disabled title="{missing[x]}"' if x in missing and not all(
        curve[x] for curve in curves) else "") + f">{text}</button>" for x, text in AXES.items())
    steps = "".join(f'<option value="{share}"{" selected" * (share == series.SMOOTHING)}>'
                    f'{f"{share:.0%}" if share else "off"}</option>' for share in SMOOTHINGS)
    return (f'<div class="tools"><span class="switch" role="group" aria-label="horizontal axis">{axes}</span>'
            '<span class="switch" role="group" aria-label="logarithmic axes"><button data-log="x">log x</button>'
            '<button data-log="y">log y</button></span>'
            f'<label>Smoothing <select id="smoothing">{steps}</select></label>'
            f'{save_buttons("loss", ("PNG", "SVG", "CSV"))}</div>')


def loss_section(scale, curves, plots, floor, counted=False):
    """`counted`: whether the runs say their FLOPs."""
    seeds = any(len(curve.seeds) > 1 for curve in curves)
    roles = {curve.role for curve in curves}
    said = []
    if "val" in roles:
        said.append("Bold: validation loss, mean over the seeds that finished. Band: 95 % confidence interval of the "
                    "mean, left out where it would cover the plot." if seeds else "Bold: validation loss.")
    else:
        said.append("No run finished.")
    if roles & {"train", "lost"}:
        said.append("Thin: training loss, smoothed.")
    if any(math.isfinite(curve.full) for curve in curves):
        said.append("○ at the end: loss on the whole validation split.")
    if scale.excess:
        which = f"the floor of {words.number(floor)} nats per token" if floor else "the floor of each corpus"
        said.append(f"The axis starts at {which}: no model can go below it.")
    states = {curve.state for curve in curves if curve.role == "lost"}
    meanings = {"diverged": "× diverged", "stuck": "□ stuck near its first loss", "failed": "▽ ended with an error"}
    marks = [text for state, text in meanings.items() if state in states]
    if marks:
        said.append(f"Runs that did not finish are drawn one by one, as training loss: {', '.join(marks)}.")
    if any(curve["flops"] for curve in plots["loss"]["curves"]) and not counted:
        said.append("FLOPs are estimated as 6 × parameters × tokens.")
    return (f'<section class="first"><h2>Loss</h2>{toolbar(plots)}{plot("loss")}'
            f'<p class="note">{" ".join(said)}</p></section>')


def table_section(comparison, cells):
    headings, rows = words.table(comparison)
    targets = sorted({words.number(x) for x in comparison.summary.target if words.known(x)})
    aimed = targets and "steps to target" in headings
    note = TABLE_WORDS + (f" The target is a loss of {words.listed(targets)}." if aimed else "")
    note += MARGIN_WORDS if comparison.summary.verdict.str.contains("within").any() else ""
    extra = ["" if heading in words.MAIN else "extra" for heading in headings]
    return numbers_section(cells, headings, rows, dict(zip(comparison.summary.cell, comparison.summary["mean"])), extra,
                           note)


SCALING_WORDS = """Each point is the mean final loss of a size over its seeds, with the range of the seeds. Lines are
laws E + A·x^−α, fitted by least squares on log L (Hoffmann et al. 2022, arXiv 2203.15556). In the table, x counts the
parameters. Ranges in brackets are 95 % bootstrap intervals over the seeds: they do not say whether the law holds beyond
these sizes, and with two or three seeds they are too narrow. "Off the law" is the largest distance of a loss from it,
as a share of the loss above E; beyond 10 % there is no law to compare. Compute is compared at the loss that the
baseline's law has at its largest size that finished. The FLOPs of tuning do not count."""


def scaling_section(groups, floor):
    """Laws of the losses of sizes; nothing if the grid has no sizes."""
    if not groups:
        return ""
    reason = scaling.missing(groups, floor)
    headings, rows = scaling.table(groups)
    body = "".join(f'<tr><th scope="row">{swatch(group.cells[0]) if group.cells else ""}{escape(name)}</th>'
                   + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>"
                   for group, (name, *texts) in zip((group for group in groups if scaling.has_row(group)), rows))
    said = [" ".join(SCALING_WORDS.split())]
    if floor:
        said.append(f"E is the floor of the text, {words.number(floor)} nats per token, or fitted.")
    if any(group.saving and group.saving.beyond for group in groups):
        said.append("* The law reaches this loss outside of the sizes that were trained.")
    table = (f'<div class="scroll"><table id="laws"><thead><tr>'
             + "".join(f"<th>{escape(heading)}</th>" for heading in headings)
             + f'</tr></thead><tbody>{body}</tbody></table></div>') if rows else ""
    return (f'<section id="scales"><h2>Scaling</h2><div class="tools">{save_buttons("scaling", ("PNG", "SVG", "CSV"))}'
            f'<span class="hint">more columns →</span></div>{plot("scaling", "low")}{table}'
            f'<p class="note">{escape(" ".join([reason] if reason else said))}</p></section>')


RUNS_WORDS = """Final loss is the validation loss at the last step, on the whole validation split if that was measured.
Click a heading to sort."""


def runs_section(runs, cells):
    headings, rows = words.runs_table(runs)
    return numbers_section(cells, headings, rows, dict(zip(runs.runs.cell, runs.runs.final_val)), [""] * len(headings),
                           RUNS_WORDS)


def numbers_section(cells, headings, rows, losses, extra, note):
    """A table with the lowest loss on top. Columns that are `extra` are hidden at first."""
    index = {cell.name: i for i, cell in enumerate(cells)}
    order = sorted(rows, key=lambda cell: losses[cell] if words.known(losses[cell]) else float("inf"))
    body = []
    for name in order:
        cell = cells[index[name]]
        fields = [f'<th scope="row" data-key="{escape(cell.label)}">{swatch(index[name])}{escape(cell.label)}</th>']
        for (text, key), more in zip(rows[name], extra):
            kind = text if text in ("better", "worse") else "unfinished" if text.endswith(" finished") and \
                len(cell.lost) else ""
            key = "" if isinstance(key, float) and not words.known(key) else key
            fields.append(f'<td data-key="{escape(str(key))}" class="{kind} {more}">{escape(text)}</td>')
        body.append(f'<tr data-cell="{index[name]}">{"".join(fields)}</tr>')
    head = "".join(f'<th class="{more}">{escape(heading)}</th>'
                   for heading, more in zip(("cell", *headings), ("", *extra)))
    more = '<button id="all-columns" aria-pressed="false">all columns</button>' if any(extra) else ""
    return (f'<section><h2>The numbers</h2><div class="tools">{more}'
            f'{save_buttons("table", ("CSV", "Markdown", "LaTeX"))}<span class="hint">more columns →</span></div>'
            f'<div class="scroll"><table id="table"><thead><tr>{head}</tr></thead>'
            f'<tbody>{"".join(body)}</tbody></table></div><p class="note">{escape(note)}</p></section>')


def rates_section(comparison, cells):
    summary = comparison.summary
    numbers = {row.cell: row.lr_sensitivity for row in summary.itertuples()}
    edge = words.edges(comparison, cells)
    said = RATES_WORDS
    if edge:
        said += f" Some values next to the best were not tried for {words.listed(edge)}: one of them may be better."
    some = words.worked(comparison)
    items = "".join(f"<span>{swatch(i)} {escape(cell.label)} "
                    f"<b>{words.number(numbers[cell.name], 3) if cell.name in some else 'no rate worked'}</b></span>"
                    for i, cell in enumerate(cells) if words.known(numbers.get(cell.name)))
    return (f'<section><h2>How much the learning rate matters</h2>'
            f'<div class="tools">{save_buttons("rates", ("PNG", "SVG", "CSV"))}</div>{plot("rates", "low")}'
            f'<div class="numbers" id="sensitivity">Sensitivity: {items}</div>'
            f'<p class="note">{escape(said)}</p></section>')


def surfaces_section(comparison, cells):
    """A table of losses for each cell, colored by the loss. Nothing if none has both learning rates and warm-ups."""
    surfaces, tuned = series.surfaces(comparison, cells), series.tunes_either(comparison)
    losses = [loss for surface in surfaces for loss in surface.points.loss if loss > 0]
    if not losses:
        return ""
    what = "final loss of the tuning runs" if tuned else "mean final loss"
    said = words.sensitivities(comparison)
    panels = "".join(surface_panel(surface, min(losses), max(losses), said.get(cells[surface.cells[0]].name, ""))
                     for surface in surfaces)
    return (f'<section id="surfaces"><h2>Learning rate and warm-up</h2>'
            f'<p class="note">{words.capital(what)}, by peak learning rate (columns) and warm-up (rows, in steps or as '
            f'a share of them). {SURFACES_WORDS} {BORDER_WORDS[tuned]}</p>'
            f'<div class="surfaces">{panels}</div></section>')


def surface_panel(surface, low, high, note):
    points = {(point.peak_lr, point.warmup): point for point in surface.points.itertuples()}
    rates, warmups = (sorted(set(surface.points[name]), key=series.size_of) for name in series.BOTH)
    head = "".join(f"<th>{escape(series.text_of(rate))}</th>" for rate in rates)
    rows = "".join(f"<tr><th>{escape(series.text_of(warmup))}</th>"
                   + "".join(surface_field(points.get((rate, warmup)), low, high) for rate in rates) + "</tr>"
                   for warmup in warmups)
    mark = swatch(surface.cells[0]) if len(surface.cells) == 1 else ""
    numbers = " ".join(map(str, surface.cells))
    return (f'<figure data-cells="{numbers}"><figcaption>{mark}{escape(surface.label)}</figcaption>'
            f'<table><tbody><tr><th></th>{head}</tr>{rows}</tbody></table>'
            + (f'<p class="note">{escape(note)}</p>' if note else "") + "</figure>")


def surface_field(point, low, high):
    """A loss on a ground that is darker the nearer it is to `low`, or what became of the runs."""
    if point is None:
        return "<td></td>"
    if not words.known(point.loss):
        lost = [state for state in point.states if state != "finished"]
        of = f"{len(lost)}/{len(point.states)} " if len(point.states) > 1 else ""
        return f'<td class="unfinished">{of}{escape(" ".join(sorted(set(lost))))}</td>'
    share = 1 - math.log(point.loss / low) / math.log(high / low) if high > low else 1
    kind = ' class="chosen"' if point.chosen else ""
    return f'<td{kind} style="--share: {100 * share:.0f}%">{words.number(point.loss, 3)}</td>'


def profiles_section(profiles, note):
    parts = [f'<section><h2>Layer by layer</h2><p class="note">{note}</p>']
    for number, (which, panels) in enumerate(profiles):
        parts.append(f'<h3>{escape(which.title)}</h3><p class="note">{escape(which.note)}</p><div class="panels">')
        for name, (step, _) in panels.items():
            place = f"profile-{number}-{name}"
            parts.append(f'<figure><figcaption>{name}: step {step:,.0f} {save_buttons(place, ("PNG", "SVG", "CSV"))}'
                         f"</figcaption>{plot(place)}</figure>")
        parts.append("</div>")
    return "".join(parts) + "</section>"


def commands_section(comparison, cells):
    parts = ['<section id="commands"><h2>The commands</h2><p class="note">The command behind each run.</p>']
    for i, cell in enumerate(cells):
        runs = comparison.runs[comparison.runs.cell == cell.name]
        parts.append(f"<details><summary>{swatch(i)} {escape(cell.label)}: "
                     f"{len(runs)} {'runs' if len(runs) > 1 else 'run'}</summary>")
        for run in runs.sort_values("stage", kind="stable").itertuples():
            rate = f", learning rate {run.peak_lr:g}" if words.known(getattr(run, "peak_lr", None)) else ""
            what = f"{run.stage}, seed {run.seed}{rate}: {run.state}"
            parts.append(f'<div class="command"><div><span class="note">{escape(what)}</span>'
                         f"<pre>{escape(run.command)}</pre></div>"
                         f"<button data-copy>copy</button></div>")
        parts.append("</details>")
    return "".join(parts) + "</section>"


def course_section(plots):
    """The plots of learning rate and gradient norm."""
    figures = "".join(f'<figure><figcaption>{words.capital(plots[name]["title"])} '
                      f'{save_buttons(name, ("PNG", "SVG", "CSV"))}</figcaption>{plot(name)}</figure>'
                      for name in plots if name != "loss")
    return f'<section><h2>Learning rate and gradient norm</h2><div class="panels wide">{figures}</div></section>'


def samples_section(samples):
    if not samples:
        return ('<section><h2>Samples</h2><p class="note">This run kept no samples. '
                "<code>train --sample-every 500</code> writes one every 500 steps.</p></section>")
    spread = np.linspace(0, len(samples) - 1, min(len(samples), SAMPLES_SHOWN)).round().astype(int)

    def listing(some):
        return '<dl class="samples">' + "".join(f"<dt>step {step:,}</dt><dd>{escape(text)}</dd>"
                                                for step, text in some) + "</dl>"

    rest = (f"<details><summary>All {len(samples)} samples</summary>{listing(samples)}</details>"
            if len(samples) > len(spread) else "")
    return f'<section id="samples"><h2>Samples</h2>{listing([samples[i] for i in spread])}{rest}</section>'


# ---- Pages ----------------------------------------------------------------------------------------

def of_comparison(comparison):
    """The page of a comparison."""
    cells = series.cells_of(comparison)
    scale, floor = series.scale_of(comparison), series.floor_of(comparison)
    curves = [curve for cell in cells for curve in series.curves_of(comparison, cell, scale)]
    plots = {"loss": figures.curves_plot(cells, curves, scale.title, scale.excess, None if scale.excess else floor)}
    rates = figures.rates(comparison, cells, scale)
    profiles = figures.profiles(comparison, cells)
    groups = scaling.groups_with_laws(comparison, cells)
    of_sizes = figures.scaling_plot(groups, scale, floor)
    later = {name: figure for name, figure in (("rates", rates), ("scaling", of_sizes)) if figure}
    counted = "flops" in comparison.runs and comparison.runs.flops.notna().any()
    sections = [head_section(comparison.name, words.headline(comparison, cells, groups)), legend(cells),
                loss_section(scale, curves, plots, floor, counted), scaling_section(groups, floor) if of_sizes else "",
                recipe_section(comparison), table_section(comparison, cells),
                rates_section(comparison, cells) if rates else "",
                surfaces_section(comparison, cells),
                profiles_section(profiles, PROFILES_WORDS + SEEDS_WORDS) if profiles else "",
                commands_section(comparison, cells),
                footer("curves.csv, runs.csv and summary.csv")]
    return document(f"{comparison.name}: {len(cells)} cells compared", "".join(sections),
                    data_of(cells, plots, later, profiles))


def of_runs(runs):
    """The page of several runs that are no comparison."""
    cells = series.cells_of(runs)
    scale, floor = series.scale_of(runs), series.floor_of(runs)
    curves = [curve for cell in cells for curve in series.curves_of(runs, cell, scale)]
    plots = {"loss": figures.curves_plot(cells, curves, scale.title, scale.excess, None if scale.excess else floor)}
    sections = [head_section(runs.name, words.runs_headline(runs, cells)), legend(cells),
                loss_section(scale, curves, plots, floor), recipe_section(runs), runs_section(runs, cells),
                footer("metrics.csv and config.toml of each run")]
    return document(f"{runs.name}: {len(cells)} runs", "".join(sections), data_of(cells, plots, {}, []))


def of_run(run, samples):
    """The page of a single run."""
    cells = series.cells_of(run)
    scale, floor = series.scale_of(run), series.floor_of(run)
    curves = series.curves_of(run, cells[0], scale)
    plots = {"loss": figures.curves_plot(cells, curves, scale.title, scale.excess, None if scale.excess else floor)}
    for column, role, log in (("lr", "val", False), ("grad_norm", "train", True)):
        curve, title = series.course(run, cells[0], column, role), COURSES[column]
        if curve:
            y = curve.drawn().y
            limits = {"linear": (0, 1.05 * y.max()), "log": (0.9 * y.min(), 1.1 * y.quantile(0.99))}
            plots[column] = figures.curves_plot(cells, [curve], title, log, limits=limits)
    profiles = figures.profiles(run, cells)
    sections = [head_section(run.name, words.run_headline(run, cells[0])), loss_section(scale, curves, plots, floor),
                recipe_section(run), course_section(plots), samples_section(samples),
                profiles_section(profiles, PROFILES_WORDS) if profiles else "", footer("metrics.csv and the files")]
    return document(f"{run.name}: report", "".join(sections), data_of(cells, plots, {}, profiles))


def data_of(cells, plots, later, profiles):
    for number, (_, panels) in enumerate(profiles):
        later.update({f"profile-{number}-{name}": figure for name, (_, figure) in panels.items()})
    return {"cells": [{"label": cell.label, **vars(cell.style)} for cell in cells], "plots": plots,
            "figures": {name: as_json(figure) for name, figure in later.items()}}


def footer(files):
    return f"<footer>Made by train_gpt's dev/report from {files} next to this page.</footer>"


def document(title, body, data, script="page.js"):
    """A complete page that fetches nothing."""
    # A script element ends at </script, and does not at all after <!-- and <script.
    inside = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><style>{(HERE / "page.css").read_text(encoding="utf-8")}</style>'
            f"<script>{plotly.offline.get_plotlyjs()}</script></head><body><main>{body}</main>"
            f'<script type="application/json" id="data">{inside}</script>'
            f'<script>{(HERE / script).read_text(encoding="utf-8")}</script></body></html>\n')
