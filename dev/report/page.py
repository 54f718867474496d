"""The page: one HTML file with plotly.js, data and style in it."""

import json
from html import escape
from pathlib import Path

import plotly.offline

import figures
import series
import words

HERE = Path(__file__).parent

TABLE_WORDS = """Final loss is the validation loss at the last step: the mean over the seeds ± the half width of its 95 %
t interval. The difference to the baseline is taken seed by seed (same seed, same batches), then averaged. “Not
distinguishable” means that the 95 % t interval of this paired difference contains 0. Where a seed did not get through
there is no mean, but how many did. The intervals are not corrected for the number of cells: of twenty equal ones, one
is expected to look different. A click on a heading sorts."""


def as_json(figure):
    """Without what Plotly's default template adds: page.js sets all of it."""
    figure = json.loads(figure.to_json())
    figure["layout"].pop("template", None)
    return figure


def swatch(index):
    return f'<span data-swatch="{index}"></span>'


def definitions(pairs):
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


RATES_WORDS = """Each point is one run of the tuning, on one seed; the largest point of a curve is its best rate. A run
that diverged (×) or failed (▽) stands at the loss it had before training; □ marks one that was stuck. Sensitivity is
the mean, over the rates tried, of how much worse than at the best rate the run ends: 0 would mean that the rate does
not matter (Wortsman et al. 2023, arXiv 2309.14322)."""

PROFILES_WORDS = """Measured on the weights before the step named: lines are means over the seeds, bands reach from the
lowest to the highest. A cell that did not get as far as a step is absent from its panel."""


# ---- Sections --------------------------------------------------------------------------------------

def head_section(comparison, cells):
    first, *others = words.headline(comparison, cells)
    return (f'<p class="name">{escape(comparison.name)}</p><h1 id="headline">{escape(first)}</h1>'
            f'<p class="lead">{escape(" ".join(others))}</p>')


def recipe_section(comparison):
    recipe = words.recipe(comparison)
    parts = ['<section class="box" id="recipe"><h2>The recipe</h2>', definitions(recipe["facts"])]
    if recipe["differed"]:
        parts += ["<h3>What differed</h3>", definitions(recipe["differed"])]
    if recipe["followed"]:
        parts += ['<h3>What followed from that</h3><p class="note">Worked out by the program, where no one set it.</p>',
                  definitions(recipe["followed"])]
    if recipe["equal"]:
        options = "".join(f"<div><span>{escape(k)}</span> {escape(v)}</div>" for k, v in recipe["equal"])
        parts.append(f'<details><summary>What was equal in all runs: {len(recipe["equal"])} options</summary>'
                     f'<div class="options">{options}</div></details>')
    if not recipe["configs"]:
        parts.append('<p class="note">The runs left no config.toml: their options are not known.</p>')
    return "".join(parts) + "</section>"


def legend(cells):
    def note(cell):
        lost = len(cell.lost)
        return f" <i>{len(cell.runs) - lost}/{len(cell.runs)}</i>" if lost else ""

    buttons = "".join(f'<button data-toggle="{i}" title="on or off; twice: this one alone">{swatch(i)}'
                      f"<span>{escape(cell.label)}{note(cell)}</span></button>" for i, cell in enumerate(cells))
    return f'<div class="legend" id="legend" role="group" aria-label="curves">{buttons}</div>'


def loss_section(scale, curves, floor, timed):
    seeds = any(len(curve.seeds) > 1 for curve in curves)
    said = ["Bold: validation loss, the mean over the seeds that finished. "
            "The band reaches from the lowest seed to the highest." if seeds else "Bold: validation loss."]
    if all(curve.role == "lost" for curve in curves):
        said = ["No run got through."]
    said.append("Thin: training loss, smoothed over a fiftieth of the run.")
    if scale.excess:
        which = f"the floor, {words.number(floor)} nats per token," if floor else "each corpus's floor,"
        said.append(f"The axis counts from {which} which no model can go below.")
    states = {curve.state for curve in curves if curve.role == "lost"}
    meanings = {"diverged": "× the run diverged", "stuck": "□ it never got away from where it began",
                "failed": "▽ it ended with an error"}
    marks = [text for state, text in meanings.items() if state in states]
    if marks:
        said.append(f"Runs that did not get through are drawn one by one (training loss): {', '.join(marks)}.")
    if timed:
        said.append("Seconds are training time" + (", the mean over the seeds." if seeds else "."))
    else:
        said.append("Seconds were not measured: several runs shared the machine.")
    off = "" if timed else " disabled"
    return (f'<section><h2>Loss</h2><p class="note">{" ".join(said)}</p>'
            f'<div class="switch" role="group" aria-label="horizontal axis"><button data-x="step">steps</button>'
            f'<button data-x="seconds"{off}>seconds</button></div><div class="plot" id="loss"></div></section>')


def table_section(comparison, cells):
    headings, rows = words.table(comparison)
    index = {cell.name: i for i, cell in enumerate(cells)}
    means = dict(zip(comparison.summary.cell, comparison.summary["mean"]))
    order = sorted(rows, key=lambda cell: means[cell] if words.known(means[cell]) else float("inf"))
    body = []
    for name in order:
        cell = cells[index[name]]
        fields = [f'<td data-key="{escape(cell.label)}">{swatch(index[name])}{escape(cell.label)}</td>']
        for text, key in rows[name]:
            kind = text if text in ("better", "worse") else "unfinished" if text.endswith(" finished") and \
                len(cell.lost) else ""
            key = "" if isinstance(key, float) and not words.known(key) else key
            fields.append(f'<td data-key="{escape(str(key))}" class="{kind}">{escape(text)}</td>')
        body.append(f"<tr>{''.join(fields)}</tr>")
    targets = sorted({words.number(x) for x in comparison.summary.target if words.known(x)})
    aimed = targets and "steps to target" in headings
    note = TABLE_WORDS + (f" The target is a loss of {words.listed(targets)}." if aimed else "")
    head = "".join(f"<th>{escape(heading)}</th>" for heading in ("cell", *headings))
    return (f'<section><h2>The numbers</h2><p class="note">{escape(note)}</p><div class="scroll"><table id="table">'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>")


def rates_section(comparison, cells):
    summary = comparison.summary
    numbers = {row.cell: row.lr_sensitivity for row in summary.itertuples()}
    said = [RATES_WORDS]
    edge = [cell.label for cell in cells if (summary[summary.cell == cell.name].at_edge == 1).any()]
    if edge:
        said.append(f"The best rate lies at an edge of what was tried for {words.listed(edge)}: "
                    "a better one may lie beyond.")
    some = words.worked(comparison)
    items = "".join(f"<span>{swatch(i)} {escape(cell.label)} "
                    f"<b>{words.number(numbers[cell.name], 3) if cell.name in some else 'no rate worked'}</b></span>"
                    for i, cell in enumerate(cells) if words.known(numbers.get(cell.name)))
    return (f'<section><h2>How much the learning rate matters</h2><p class="note">{" ".join(said)}</p>'
            f'<div class="plot low" id="rates"></div>'
            f'<div class="numbers" id="sensitivity">Sensitivity: {items}</div></section>')


def profiles_section(profiles):
    parts = [f'<section><h2>Layer by layer</h2><p class="note">{PROFILES_WORDS}</p>']
    for number, (which, panels) in enumerate(profiles):
        parts.append(f'<h3>{escape(which.title)}</h3><p class="note">{escape(which.note)}</p><div class="panels">')
        parts += [f'<figure><figcaption>{name}: step {step:,.0f}</figcaption><div class="plot" '
                  f'id="profile-{number}-{name}"></div></figure>' for name, (step, _) in panels.items()]
        parts.append("</div>")
    return "".join(parts) + "</section>"


def commands_section(comparison, cells):
    parts = ['<section id="commands"><h2>The commands</h2><p class="note">The exact command behind each curve.</p>']
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


# ---- All of it -------------------------------------------------------------------------------------

def build(comparison):
    cells = series.cells_of(comparison)
    scale = series.scale_of(comparison)
    floor = series.floor_of(comparison)
    curves = [curve for cell in cells for curve in series.curves_of(comparison, cell, scale)]
    timed = bool(curves) and all(curve.points.seconds.notna().all() for curve in curves)
    rates = figures.rates(comparison, cells, scale)
    profiles = figures.profiles(comparison, cells)

    later = {"rates": rates} if rates else {}
    for number, (_, panels) in enumerate(profiles):
        later.update({f"profile-{number}-{name}": figure for name, (_, figure) in panels.items()})
    data = {
        "cells": [{"label": cell.label, **vars(cell.style)} for cell in cells],
        "loss": {x: as_json(figures.loss(cells, curves, scale, x, floor)) for x in ("step", *["seconds"] * timed)},
        "figures": {name: as_json(figure) for name, figure in later.items()},
    }
    sections = [head_section(comparison, cells), recipe_section(comparison), legend(cells),
                loss_section(scale, curves, floor, timed), table_section(comparison, cells),
                rates_section(comparison, cells) if rates else "", profiles_section(profiles) if profiles else "",
                commands_section(comparison, cells),
                "<footer>Made by train_gpt's dev/report from curves.csv, runs.csv and summary.csv, which lie beside "
                "this page.</footer>"]
    title = f"{comparison.name}: {len(cells)} cells compared"
    return document(title, "".join(sections), data)


def document(title, body, data, script="page.js"):
    """A whole page; nothing is fetched."""
    inside = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><style>{(HERE / "page.css").read_text(encoding="utf-8")}</style>'
            f"<script>{plotly.offline.get_plotlyjs()}</script></head><body><main>{body}</main>"
            f'<script type="application/json" id="data">{inside}</script>'
            f'<script>{(HERE / script).read_text(encoding="utf-8")}</script></body></html>\n')
