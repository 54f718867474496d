"""The page's Plotly figures. page.js gives each trace the colour of its cell (meta.cell) and hides what is off."""

import math

import plotly.graph_objects as go

import series

WIDTH = {"val": 2.6, "train": 1.0, "lost": 1.3}
CROSSES = {"diverged": "x", "stuck": "square-open", "failed": "star-triangle-down"}


def rounded(values):
    """Seven digits are more than can be seen, and half the size."""
    return [float(f"{v:.7g}") for v in values]


def axis(title, log=False, limits=None):
    result = {"title": {"text": title}}
    if log:
        result["type"] = "log"
    if limits is not None:
        result["range"] = [math.log10(limit) for limit in limits] if log else list(limits)
        if log:  # ticks at 1, 2, 5, or only at 1, or at every digit: left alone, Plotly sets them too close
            decades = math.log10(limits[1] / limits[0])
            result["dtick"] = 1 if decades > 3 else "D2" if decades > 0.7 else "D1"
    return result


def band(index, x, low, high):
    """Down one side and up the other, as one outline."""
    return go.Scatter(x=rounded(x) + rounded(x)[::-1], y=rounded(low) + rounded(high)[::-1], fill="toself",
                      mode="none", hoverinfo="skip", meta={"cell": index, "role": "band"}, showlegend=False)


def when(x):
    return "step %{x:,.0f}" if x == "step" else "%{x:,.1f} s"


def curve_traces(index, curve, x):
    points, name = curve.points, curve.cell.label
    traces = []
    n = len(curve.seeds)
    if n > 1 and curve.role == "val":
        traces.append(band(index, points[x], points.low, points.high))
    spread = "<br>seeds from %{customdata[0]:.4g} to %{customdata[1]:.4g}" if n > 1 else ""
    what = {"val": "validation", "train": "training, smoothed", "lost": f"training, {curve.state}"}[curve.role]
    seeds = f"{n} seeds" if n > 1 else f"seed {curve.seeds[0]}" if curve.seeds[0] else "1 run"
    traces.append(go.Scatter(
        x=rounded(points[x]), y=rounded(points["mean"]), mode="lines", name=name, showlegend=False,
        customdata=[list(pair) for pair in zip(rounded(points.low), rounded(points.high))],
        line={"width": WIDTH[curve.role], "dash": curve.cell.style.dash},
        opacity={"val": 1, "train": 0.45, "lost": 0.75}[curve.role], meta={"cell": index, "role": curve.role},
        hovertemplate=f"<b>{name}</b><br>{what}, {seeds}<br>{when(x)}: %{{y:.4f}}{spread}<extra></extra>"))
    return traces


def cross(index, curve, x, top):
    """Where a run ended that did not get through."""
    x_end, y_end = curve.end(x, top)
    at = f" at step {curve.stopped_at:,.0f}" if curve.stopped_at == curve.stopped_at else ""
    return go.Scatter(
        x=[x_end], y=[y_end], mode="markers", cliponaxis=False, showlegend=False,
        marker={"symbol": CROSSES[curve.state], "size": 11, "line": {"width": 2}},
        meta={"cell": index, "role": "cross"},
        hovertemplate=f"<b>{curve.cell.label}</b><br>seed {curve.seeds[0]} {curve.state}{at}<extra></extra>")


def loss(cells, curves, scale, x, floor=None):
    """x: step or seconds."""
    low, high = series.height(curves, scale, floor)
    index = {cell.name: i for i, cell in enumerate(cells)}
    order = {"train": 0, "lost": 1, "val": 2}
    figure = go.Figure()
    for curve in sorted(curves, key=lambda curve: order[curve.role]):
        figure.add_traces(curve_traces(index[curve.cell.name], curve, x))
    for curve in curves:
        if curve.role == "lost":
            figure.add_trace(cross(index[curve.cell.name], curve, x, high))
    if floor is not None and not scale.excess:
        figure.add_hline(y=floor, line={"dash": "dot", "width": 1.5, "color": "#888888"})
        figure.add_annotation(x=0, xref="paper", y=floor, yref="y", text=f"floor {floor:.4g}", showarrow=False,
                              xanchor="left", yanchor="bottom")
    end = 1.015 * max((curve.points[x].iloc[-1] for curve in curves), default=1)
    figure.update_layout(xaxis=axis({"step": "step", "seconds": "seconds of training"}[x], limits=(0, end)),
                         yaxis=axis(scale.title, scale.excess, (low, high)))
    return figure


def rates(comparison, cells, scale):
    """Final loss against the learning rate, of the tuning runs; None where nothing was tuned."""
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
        for _, figure in panels.values():  # one height for all: the change over time can be seen
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
