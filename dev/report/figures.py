"""The figures of the page. Curves go to page.js as numbers. The other figures are ready for Plotly, except for the
color of each cell (meta.cell)."""

import math

import numpy as np
import plotly.graph_objects as go

import series

CROSSES = {"diverged": "x", "stuck": "square-open", "failed": "star-triangle-down"}


def rounded(values):
    """Seven digits are more than a figure shows, and halve the size. JSON has no NaN and no infinity."""
    return [float(f"{v:.7g}") if math.isfinite(v) else None for v in values]


def axis(title, log=False, limits=None):
    result = {"title": {"text": title}}
    if log:
        result["type"] = "log"
    if limits is not None:
        result["range"] = [math.log10(limit) for limit in limits] if log else list(limits)
        if log:  # ticks at 1, 2, 5, only at 1, or at every digit; by default Plotly sets them too close
            decades = math.log10(limits[1] / limits[0])
            result["dtick"] = 1 if decades > 3 else "D2" if decades > 0.7 else "D1"
    return result


def band(index, x, low, high):
    """The outline of a band: down one side and up the other."""
    return go.Scatter(x=rounded(x) + rounded(x)[::-1], y=rounded(low) + rounded(high)[::-1], fill="toself",
                      mode="none", hoverinfo="skip", meta={"cell": index, "role": "band"}, showlegend=False)


def seeds_said(curve):
    n = len(curve.seeds)
    return f"mean of {n} seeds" if n > 1 else f"seed {curve.seeds[0]}" if curve.seeds[0] else ""


def curve_data(index, curve, flops, log, limits):
    """A curve for page.js, which smooths it, subtracts the floor and chooses the horizontal axis."""
    points = curve.points
    tokens = points.tokens.iloc[-1] / points.step.iloc[-1]
    whole = curve.drawn().reindex(points.index)
    band = len(curve.seeds) > 1 and curve.role == "val"
    return {
        "cell": index, "role": curve.role, "seeds": seeds_said(curve), "state": curve.state,
        "stopped": None if math.isnan(curve.stopped_at) else int(curve.stopped_at),
        "step": rounded(points.step), "tokens": tokens,  # a step
        "seconds": rounded(points.seconds) if points.seconds.notna().all() else None,
        "flops": flops,  # a step
        "mean": rounded(points["mean"]), "floor": curve.floor, "full": rounded([curve.full])[0],
        "half": rounded(points.half.where(series.narrow(whole, log, limits))) if band else None,
    }


def curves_plot(cells, curves, title, log, floor=None, limits=None):
    """{title, log, limits, floor, curves} of a plot whose horizontal axis the reader chooses."""
    index = {cell.name: i for i, cell in enumerate(cells)}
    limits = limits or {kind: series.height(curves, kind == "log", floor if kind == "linear" else None)
                        for kind in ("linear", "log")}
    order = {"train": 0, "lost": 1, "val": 2}
    chosen = limits["log" if log else "linear"]
    data = [curve_data(index[curve.cell.name], curve, flops_of_step(curve.cell), log, chosen)
            for curve in sorted(curves, key=lambda curve: order[curve.role])]
    return {"title": title, "log": log, "limits": limits, "floor": floor, "curves": data}


def flops_of_step(cell):
    """None if the number of parameters is not known."""
    if "parameters" not in cell.runs:
        return None
    known = (series.flops_of(cell.runs) / cell.runs.steps).dropna()
    return float(known.iloc[0]) if len(known) else None


def rates(comparison, cells, scale):
    """Final loss of the tuning runs against learning rate; None if nothing was tuned."""
    figure = go.Figure()
    marks = {"finished": None, **CROSSES}
    for i, cell in enumerate(cells):
        runs = series.tuned(comparison, cell, scale)
        if runs.empty:
            continue
        best = runs[runs.state == "finished"].y.min()
        symbols = [marks[state] or cell.style.marker for state in runs.state]
        sizes = [13 if y == best else 8 for y in runs.y]
        figure.add_trace(go.Scatter(
            x=rounded(runs.peak_lr), y=rounded(runs.y), mode="lines+markers", name=cell.label, showlegend=False,
            line={"width": 2, "dash": cell.style.dash},
            marker={"symbol": symbols, "opacity": 1, "size": sizes}, customdata=list(runs.state),
            meta={"cell": i, "role": "rate"}, cliponaxis=False,
            hovertemplate=f"<b>{cell.label}</b><br>learning rate %{{x:.3g}}: %{{y:.4f}}<br>"
            "%{customdata}<extra></extra>"))
    if not figure.data:
        return None
    values = [y for trace in figure.data for y in trace.y]
    limits = (min(values) / 1.3, max(values) * 1.3) if scale.excess else None
    ticks = sorted({rate for trace in figure.data for rate in trace.x})
    figure.update_layout(xaxis=axis("peak learning rate", log=True),
                         yaxis=axis("final " + scale.title, scale.excess, limits))
    figure.update_xaxes(tickvals=ticks, ticktext=[f"{rate:g}" for rate in ticks])
    return figure


def profiles(comparison, cells):
    """[(Profile, {start | middle | end: (step, figure)})]"""
    if comparison.diagnostics is None:
        return []
    d = comparison.diagnostics
    steps = series.profile_steps(d)
    result = []
    for which in series.profiles_present(d):
        panels = {name: (step, profile(d, cells, which, step)) for name, step in steps.items()}
        values = [v for _, figure in panels.values() for trace in figure.data for v in trace.y]
        if not values:
            continue
        low, high = min(values), max(values)
        limits = (low / 1.3, high * 1.3) if which.log else (min(0, low), max(1, high))
        for _, figure in panels.values():  # the same height for all, so that changes over time show
            figure.update_layout(yaxis=axis("", which.log, limits))
        result.append((which, panels))
    return result


def profile(diagnostics, cells, which, step):
    figure = go.Figure()
    for i, cell in enumerate(cells):
        points = series.profile(diagnostics, cell, which, step)
        if points.empty:
            continue
        if (points.high > points.low).any():
            figure.add_trace(band(i, points.layer, points.low, points.high))
        figure.add_trace(go.Scatter(
            x=[int(layer) for layer in points.layer], y=rounded(points["mean"]), mode="lines+markers", name=cell.label,
            line={"width": 2, "dash": cell.style.dash}, marker={"symbol": cell.style.marker, "size": 6},
            meta={"cell": i, "role": "profile"}, showlegend=False,
            hovertemplate=f"<b>{cell.label}</b><br>layer %{{x}}: %{{y:.4g}}<extra></extra>"))
    figure.update_layout(xaxis=axis("layer"))
    return figure


def scaling_plot(groups, scale, floor):
    """Final losses against FLOPs with the laws; None without a point."""
    figure = go.Figure()
    below = floor if scale.excess else 0.0
    for group in groups:
        if group.points.empty:
            continue
        flops, label = group.points.flops, group.label
        found = group.laws.get(("flops", bool(floor))) or group.laws.get(("flops", False))
        if found:
            x = np.geomspace(flops.min() / 1.3, flops.max() * 1.3, 60)
            figure.add_trace(go.Scatter(
                x=rounded(x), y=rounded(found.law.at(x) - below), mode="lines", showlegend=False, hoverinfo="skip",
                line={"width": 2, "dash": group.style.dash}, meta={"cell": group.cells[0], "role": "law"}))
        losses = [list(losses.values()) for losses in group.points.losses]
        mean = group.points["mean"] - below
        figure.add_trace(go.Scatter(
            x=rounded(flops), y=rounded(mean), mode="markers", name=label, showlegend=False, cliponaxis=False,
            marker={"symbol": group.style.marker, "size": 9},
            error_y={"array": rounded([max(of) - np.mean(of) for of in losses]), "symmetric": False, "thickness": 1.5,
                     "arrayminus": rounded([np.mean(of) - min(of) for of in losses]), "width": 4},
            customdata=list(zip(group.points["size"], map(int, group.points.parameters), group.points["mean"])),
            meta={"cell": group.cells[0], "role": "size", "label": label},
            hovertemplate=f"<b>{label}</b>, size %{{customdata[0]}}<br>%{{customdata[1]:,}} parameters, "
            "%{x:.3g} FLOPs<br>loss %{customdata[2]:.4f}<extra></extra>"))
    if not figure.data:
        return None
    values = [y for trace in figure.data for y in trace.y if y and y > 0]
    figure.update_layout(xaxis=axis("FLOPs of a run", log=True),
                         yaxis=axis("final " + scale.title, True, (min(values) / 1.15, max(values) * 1.15)))
    return figure
