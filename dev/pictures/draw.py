#!/usr/bin/env python3
"""Draws the pictures of the pages in layers/ that need no training run: python dev/pictures/draw.py [NAME...]

Each function draws NAME.png in this folder, from the formulas of the page that shows it.
"""

import math
import sys
from pathlib import Path

import numpy
from PIL import Image

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "studies"), str(HERE.parents[1] / "python_ref")]
import rng  # noqa: E402
from common import plt  # noqa: E402

DARK, MIDDLE, LIGHT = "#1f4e79", "#d95f02", "0.65"  # distinct in gray, too


# ---- LayerNorm as geometry (layers/norm/normalization.md) ----------------------------------------------------

ROOT3 = 3**0.5
# Two axes of the plane at right angles to (1, 1, 1).
ACROSS = numpy.array([[1, -1, 0], [1, 1, -2]]) / numpy.array([[2**0.5], [6**0.5]])
GAIN = numpy.array([0.6, 1.4, 1.1])


def rows_of_three():
    """Eight rows of three channels, with a mean that is not 0."""
    random = numpy.random.default_rng(4)
    angles = numpy.arange(8) * numpy.pi / 4 + random.uniform(-0.25, 0.25, 8)
    sizes = random.uniform(0.6, 2.5, 8)
    means = random.uniform(0.3, 1.2, 8)
    return (sizes * numpy.array([numpy.cos(angles), numpy.sin(angles)])).T @ ACROSS + means[:, None]


def circle():
    turn = numpy.linspace(0, 2 * numpy.pi, 200)
    return ROOT3 * numpy.array([numpy.cos(turn), numpy.sin(turn)]).T @ ACROSS


def space(axis, title):
    axis.set(title=title, xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), zlim=(-2.6, 2.6), xticks=[], yticks=[], zticks=[])
    axis.set_axis_off()
    axis.computed_zorder = False  # what is drawn later is in front
    axis.set_box_aspect((1, 1, 1), zoom=1.35)
    axis.set_proj_type("ortho")
    axis.view_init(elev=15, azim=-8)
    for one, name in zip(numpy.eye(3), ("x₁", "x₂", "x₃")):
        axis.plot(*numpy.outer(one, [0, 2.2]), color="0.5", linewidth=0.8)
        axis.text(*(2.5 * one), name, color="0.4", ha="center", va="center")


def plane(axis):
    corners = 2.5 * numpy.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) @ ACROSS
    axis.plot_trisurf(*corners.T, triangles=[[0, 1, 2], [0, 2, 3]], color="0.9", alpha=0.5, linewidth=0,
                      shade=False)


def points(axis, at, color, names=True):
    axis.scatter(*at.T, color=color, s=22, depthshade=False)
    for number, one in enumerate(at if names else ()):
        axis.text(*(one + 0.22), str(number + 1), fontsize=8)


def moves(axis, begin, end, color):
    for a, b in zip(begin, end):
        axis.plot(*numpy.array([a, b]).T, color=color, linewidth=1)


def sphere():
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.9), subplot_kw={"projection": "3d"})
    x = rows_of_three()
    flat = x - x.mean(axis=1, keepdims=True)
    hat = flat / flat.std(axis=1, keepdims=True)
    y = GAIN * hat
    space(axes[0], "1. remove the part along 1")
    plane(axes[0])
    axes[0].plot(*numpy.outer([1, 1, 1], [-1.6, 1.6]), color="black", linewidth=1.2, linestyle="--")
    axes[0].text(1.75, 1.75, 1.75, "1")
    moves(axes[0], x, flat, LIGHT)
    points(axes[0], x, LIGHT, names=False)
    points(axes[0], flat, DARK)
    space(axes[1], "2. bring it to length √3")
    plane(axes[1])
    axes[1].plot(*circle().T, color="black", linewidth=1.2)
    moves(axes[1], flat, hat, LIGHT)
    points(axes[1], flat, LIGHT, names=False)
    points(axes[1], hat, DARK)
    space(axes[2], "3. stretch each axis by its gain")
    axes[2].plot(*circle().T, color=LIGHT, linewidth=1)
    axes[2].plot(*(GAIN * circle()).T, color="black", linewidth=1.2)
    moves(axes[2], hat, y, LIGHT)
    points(axes[2], hat, LIGHT, names=False)
    points(axes[2], y, DARK)
    return figure


# ---- The cube of numbers that a norm reads (layers/norm/normalization.md) ------------------------------------

def cube(axis, marked, title):
    """A (B, T, C) array as a cube: channels to the right, tokens to the front, sequences upward."""
    B, T, C = marked.shape
    full = numpy.ones((C, T, B), bool)
    colors = numpy.where(marked.transpose(2, 1, 0), MIDDLE, "#f2f2f2")
    axis.voxels(full, facecolors=colors, edgecolor="0.35", linewidth=0.6, shade=False)
    axis.set_axis_off()
    axis.set_box_aspect((C, T, B), zoom=1.0)
    axis.set_proj_type("ortho")
    axis.view_init(elev=24, azim=-62)
    axis.set_title(title)
    axis.text(C / 2, -0.9, -0.5, "channels C", ha="center", va="top", fontsize=9)
    axis.text(C + 0.7, T / 2, -0.5, "tokens T", ha="left", va="top", fontsize=9)
    axis.text(-0.2, -0.2, B / 2, "sequences\nB  ", ha="right", va="center", fontsize=9)


def cubes():
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), subplot_kw={"projection": "3d"})
    B, T, C = 3, 4, 5
    channel, row = numpy.zeros((2, B, T, C), bool)
    channel[:, :, 4] = True
    row[2, 0, :] = True
    cube(axes[0], channel, "BatchNorm: one channel, all B·T rows")
    cube(axes[1], row, "LayerNorm, RMSNorm: one row, all C channels")
    return figure


# ---- Attention maps (layers/attention/attention.md) ----------------------------------------------------------

def weights(scores):
    T = len(scores)
    scores = numpy.where(numpy.tri(T, dtype=bool), scores, -numpy.inf)
    grown = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def attention():
    """Weights of random queries and keys: plain, scores ten times as large, ALiBi, a window."""
    T, D = 12, 16
    q, k = numpy.random.default_rng(1).standard_normal((2, T, D))
    S = q @ k.T / D**0.5
    distance = numpy.subtract.outer(range(T), range(T))
    maps = {"scores q·k/√D": S, "10 times as large": 10 * S, "ALiBi, slope ½": S - distance / 2,
            "window of 3 keys": numpy.where(distance < 3, S, -numpy.inf)}
    figure, axes = plt.subplots(1, 4, figsize=(10, 3.1), sharey=True)
    for axis, (title, scores) in zip(axes, maps.items()):
        drawn = axis.imshow(numpy.ma.masked_where(distance < 0, weights(scores)), cmap="Greys", vmin=0, vmax=1)
        axis.set_title(title, fontsize=10)
        axis.set(xlabel="key j", xticks=range(0, T, 3), yticks=range(0, T, 3))
        axis.plot(*numpy.array([[a + b for a in range(T) for b in (-0.5, 0.5)],
                                [a - 0.5 for a in range(T) for _ in (0, 1)]]), color="black", linewidth=0.8)
        axis.grid(False)
    axes[0].set_ylabel("query i")
    figure.colorbar(drawn, ax=axes, label="weight P", shrink=0.8)
    return figure


# ---- RoPE's circles (layers/embedding/position.md) -----------------------------------------------------------

def turned(pair, angle):
    (a, b), cos, sin = pair, numpy.cos(angle), numpy.sin(angle)
    return numpy.array([a * cos - b * sin, a * sin + b * cos])


def arrow(axis, tip, color, name, line="-"):
    axis.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0,
                                               "linewidth": 1.8, "linestyle": line})
    axis.text(*(1.2 * tip / numpy.hypot(*tip)), name, color=color, ha="center", va="center")


def unit_circle(axis, title):
    axis.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.6"))
    axis.set(title=title, xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axis.title.set_fontsize(10)


def rope():
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.7))
    for axis, frequency in zip(axes, (1, 0.1)):
        unit_circle(axis, f"ω = {frequency} radian per token")
        for t in range(6):
            tip = turned((1, 0), t * frequency)
            axis.plot(*tip, "o", color=DARK)
            axis.text(*(1.16 * tip), str(t), ha="center", va="center")
    axes[0].set_ylabel("b")
    unit_circle(axes[2], "two tokens apart: the same angle")
    q, k = turned((1, 0), 0.2), turned((1, 0), -0.1)
    for start, line, radius in (1, "-", 0.35), (4, "--", 0.45):
        arrow(axes[2], turned(q, 0.6 * (start + 2)), DARK, f"q at {start + 2}", line)
        arrow(axes[2], turned(k, 0.6 * start), MIDDLE, f"k at {start}", line)
        turns = numpy.linspace(-0.1 + 0.6 * start, 0.2 + 0.6 * (start + 2), 30)
        axes[2].plot(*(radius * numpy.array([numpy.cos(turns), numpy.sin(turns)])), line, color="0.3", linewidth=1)
    for axis in axes:
        axis.set_xlabel("a")
    return figure


# ---- Learning-rate schedules (layers/training/optimizer.md) --------------------------------------------------

def schedules():
    """The defaults: 3e-3 falls to 3e-4 in 3000 steps, 100 of them warm-up."""
    top, low, W, S = 3e-3, 3e-4, 100, 3000
    s = numpy.arange(S)
    done = numpy.clip((s - W) / (S - W), 0, 1)
    after = {"cosine": low + (1 + numpy.cos(numpy.pi * done)) / 2 * (top - low), "linear": top + done * (low - top),
             "constant": numpy.full(S, top)}
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.3), sharey=True, gridspec_kw={"width_ratios": [2, 1]})
    for axis in axes:
        for (name, rate), line in zip(after.items(), ("-", "--", ":")):
            axis.plot(s, numpy.where(s < W, top * (s + 1) / (W + 1), rate), line, label=name, linewidth=2)
        axis.set(xlabel="step s", ylim=(0, 1.08 * top))
    axes[0].set(ylabel="learning rate", yticks=[0, low, 1e-3, 2e-3, top])
    axes[0].set_yticklabels(["0", "3e-4", "1e-3", "2e-3", "3e-3"])
    axes[0].legend(title="--schedule")
    axes[1].set(xlim=(-4, 160), title="the warm-up")
    axes[1].annotate("step 0: lr/101", (0, top / 101), xytext=(12, 2), textcoords="offset points", fontsize=9)
    axes[1].axvline(W, color="0.5", linewidth=0.8)
    axes[1].annotate("W = 100", (W, top / 2), xytext=(4, 0), textcoords="offset points", fontsize=9)
    return figure


# ---- Activation functions and their derivatives (layers/feed_forward/activation.md) --------------------------

LINES = ("-", "--", "-.")
ROOT2 = 2**0.5


def erf(x):
    return numpy.vectorize(math.erf)(x)


def gelu(x):
    return x * (1 + erf(x / ROOT2)) / 2


def silu(x):
    return x / (1 + numpy.exp(-x))


def slope(f, x, h=1e-6):
    return (f(x + h) - f(x - h)) / (2 * h)


def activations():
    x = numpy.linspace(-4, 3, 701)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8))
    for (name, f), line in zip({"ReLU": lambda x: numpy.maximum(x, 0), "GELU": gelu, "SiLU": silu}.items(), LINES):
        axes[0].plot(x, f(x), line, label=name, linewidth=2)
        axes[1].plot(x, slope(f, x), line, label=name, linewidth=2)
    axes[0].set(xlabel="x", title="f(x)", ylim=(-0.5, 2.5))
    axes[1].set(xlabel="x", title="f'(x), the factor of the gradient")
    axes[0].legend()
    for f, where, place in (gelu, -0.752, (-1.9, 0.45)), (silu, -1.278, (-3.6, 0.45)):
        axes[0].annotate(f"{f(numpy.array(where)):.3f} at {where}", (where, f(numpy.array(where))), xytext=place,
                         fontsize=8, arrowprops={"arrowstyle": "-", "color": "0.4"})
    return figure


# ---- DyT and Derf, and what they do to the size of a row (layers/norm/norm_pointwise.md) ---------------------

def pointwise():
    x = numpy.linspace(-8, 8, 401)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    for (name, f), line in zip({"DyT: tanh(x/2)": numpy.tanh, "Derf: erf(x/2)": erf}.items(), LINES):
        axes[0].plot(x, f(x / 2), line, label=name, linewidth=2)
    axes[0].set(xlabel="x", ylabel="f")
    axes[0].legend()
    row = numpy.random.default_rng(0).standard_normal(4096)
    sizes = numpy.geomspace(0.01, 100, 60)
    rms = {name: [(f(row * size / 2) ** 2).mean() ** 0.5 for size in sizes]
           for name, f in (("DyT, α = ½", numpy.tanh), ("Derf, α = ½", erf))}
    for (name, values), line in zip((rms | {"RMSNorm": numpy.ones(60)}).items(), LINES):
        axes[1].plot(sizes, values, line, label=name, linewidth=2)
    axes[1].set(xscale="log", yscale="log", xlabel="rms of a row before", ylabel="rms after")
    axes[1].legend()
    return figure


# ---- Cross-entropy and its gradient (layers/cross_entropy/cross_entropy.md) ----------------------------------

def cross_entropy():
    """The loss by the probability of the right token, and the gradient of the first worked row."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4))
    p = numpy.linspace(0.005, 1, 400)
    axes[0].plot(p, -numpy.log(p), color=DARK, linewidth=2)
    axes[0].plot(1 / 3, numpy.log(3), "o", color=MIDDLE)
    axes[0].annotate("guessing among 3: log 3", (1 / 3, numpy.log(3)), xytext=(8, 6), textcoords="offset points")
    axes[0].set(xlabel="probability p of the right token", ylabel="loss −log p, nats", ylim=(0, 5.5))
    logits, target = numpy.array([1.0, 2, 3]), 2
    p = numpy.exp(logits) / numpy.exp(logits).sum()
    gradient = p - (numpy.arange(3) == target)
    places = numpy.arange(3)
    for shift, values, color, hatch, name in ((-0.2, p, LIGHT, "", "p"), (0.2, gradient, DARK, "//", "p − [v = t]")):
        bars = axes[1].bar(places + shift, values, 0.38, color=color, hatch=hatch, edgecolor="white", label=name)
        axes[1].bar_label(bars, fmt="%.3f", fontsize=8)
    axes[1].axhline(0, color="black", linewidth=0.8)
    axes[1].set(xticks=places, xticklabels=["token 0", "token 1", "token 2 = target"], ylim=(-0.5, 0.85))
    axes[1].legend(loc="upper left")
    return figure


# ---- Which numbers meet in a linear layer (layers/linear/linear.md) -------------------------------------------

SOFT = "#f7c59f"  # behind black text; light gray when printed so


def matrix(axis, values, left, top, name="", marked=(), color=SOFT, form=".2f"):
    """A matrix with one number per cell of 1 × 1, its name below it; y grows downward. marked: what has a color."""
    on = numpy.zeros(values.shape, bool)
    for part in marked:
        on[part] = True
    for (row, column), value in numpy.ndenumerate(values):
        axis.add_patch(plt.Rectangle((left + column, top + row), 1, 1, edgecolor="0.4", linewidth=0.8,
                                     facecolor=color if on[row, column] else "white"))
        axis.text(left + column + 0.5, top + row + 0.5, f"{value:{form}}".replace("-", "−"), ha="center",
                  va="center", fontsize=9, color="white" if on[row, column] and color == DARK else "black")
    axis.text(left + values.shape[1] / 2, top + len(values) + 0.15, name, ha="center", va="top")


def blank(axis, width, height, *titles):
    """An area for matrices. titles: (x, text) of what stands above them."""
    axis.set(xlim=(-0.1, width + 0.1), ylim=(height, -0.8), aspect="equal")
    axis.set_axis_off()
    for x, text in titles:
        axis.text(x, -0.2, text, ha="center", va="bottom")


def product(axis, title, names, first, second, result, at):
    """first · second = result, the result in the corner between the row and the column that meet in it."""
    (row, column), inner = at, len(second)
    corner = inner + 0.3
    blank(axis, 5.3, 6, (2.65, title))
    matrix(axis, first, 0, corner, names[0], [numpy.s_[row, :]], form=".4g")
    matrix(axis, second, corner, 0, "", [numpy.s_[:, column]], form=".4g")
    axis.text(corner - 0.2, inner / 2, names[1], ha="right", va="center")
    matrix(axis, result, corner, corner, names[2], [at], DARK, ".4g")


def linear():
    """The page's example."""
    x, target = numpy.array([[1.0, 2, 3], [3, 0, -1]]), numpy.array([[4.1, 1.3], [0.6, 4.3]])
    weight, bias = numpy.array([[0.5, -1, 2], [1.5, 0.25, -0.5]]), numpy.array([0.1, -0.2])
    y = x @ weight.T + bias
    dy = y - target
    figure, axes = plt.subplots(1, 3, figsize=(10, 4.2))
    product(axes[0], "y = x weightᵀ + bias\nsums over the I inputs", ("x (N,I)", "weightᵀ", "y (N,O)"),
            x, weight.T, y, (0, 1))
    product(axes[1], "dx = dy weight\nsums over the O outputs", ("dy (N,O)", "weight", "dx (N,I)"),
            dy, weight, dy @ weight, (0, 1))
    product(axes[2], "dweight += dyᵀ x\nsums over the N rows", ("dyᵀ", "x", "dweight (O,I)"),
            dy.T, x, dy.T @ x, (1, 2))
    return figure


# ---- Rows that are gathered, and gradients that are scattered (layers/embedding/embedding.md) -----------------

def softmax(logits):
    grown = numpy.exp(logits - logits.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)


def rows_move(axis, sources, targets, begin, end):
    for source, target in zip(sources, targets):
        axis.annotate("", (end, target + 0.5), (begin, source + 0.5),
                      arrowprops={"arrowstyle": "-|>", "color": DARK, "shrinkA": 1, "shrinkB": 1, "linewidth": 1.3})


def embedding():
    """The page's example."""
    tokens, targets = numpy.array([2, 0, 2]), numpy.array([0, 2, 1])
    weight = numpy.array([[0.2, -0.4, 0.6], [-0.8, 0.4, 1], [1, 0.6, -0.2], [0.4, -1, 0.8]])
    dx = numpy.array([[0.1, 0.2, -0.1], [-0.3, 0.4, 0.5], [0.3, -0.6, 0.2]])
    x, dweight = weight[tokens], numpy.zeros_like(weight)
    numpy.add.at(dweight, tokens, dx)
    dlogits = (softmax(x @ weight.T) - numpy.eye(4)[targets]) / 3
    as_embedding = numpy.zeros_like(weight)
    numpy.add.at(as_embedding, tokens, dlogits @ weight)
    as_classifier = dlogits.T @ x

    figure, axes = plt.subplots(2, 1, figsize=(10, 5.7))
    blank(axes[0], 21.3, 5, (5.1, "forward copies rows"), (16.5, "backward adds rows"))
    twice = [numpy.s_[2, :]], [numpy.s_[0, :], numpy.s_[2, :]]
    for left, values, parts, name in ((0.7, weight, twice[0], "weight (V,C)"), (6.5, x, twice[1], "x (N,C)"),
                                      (12, dx, twice[1], "dx (N,C)"), (18, dweight, twice[0], "dweight (V,C)")):
        matrix(axes[0], values, left, 2 - len(values) / 2, name, parts)
    for row in range(4):
        axes[0].text(0.5, row + 0.5, row, ha="right", va="center", fontsize=9, color="0.4")
        axes[0].text(21.2, row + 0.5, row, ha="left", va="center", fontsize=9, color="0.4")
    rows_move(axes[0], tokens, numpy.arange(3) + 0.5, 3.7, 6.5)
    rows_move(axes[0], numpy.arange(3) + 0.5, tokens, 15, 18)

    blank(axes[1], 21.3, 5, (10.5, "tied: the matrix has two uses, and their gradients add up"))
    some = [numpy.s_[0, :], numpy.s_[2, :]]
    matrix(axes[1], as_embedding, 2, 0, "as embedding: sparse", some)
    matrix(axes[1], as_classifier, 9, 0, "as classifier: every row", [numpy.s_[:, :]])
    matrix(axes[1], as_embedding + as_classifier, 16, 0, "dweight", [numpy.s_[:, :]])
    for where, sign in ((7, "+"), (14, "=")):
        axes[1].text(where, 2, sign, ha="center", va="center", fontsize=16)
    return figure


# ---- Tokens sorted to experts, and the router's gradient (layers/moe/moe.md) ----------------------------------

def moe():
    N, E, k = 6, 3, 2
    s = softmax(numpy.random.default_rng(3).standard_normal((N, E)))
    chosen = numpy.sort(numpy.argsort(-s, axis=1)[:, :k], axis=1)
    pairs = sorted((expert, token) for token in range(N) for expert in chosen[token])
    p = numpy.take_along_axis(s, chosen, axis=1)
    p /= p.sum(axis=1, keepdims=True)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), gridspec_kw={"width_ratios": [1.75, 1]})
    axis, shown = axes[0], 1
    axis.set(xlim=(-1.5, 14.4), ylim=(13.1, -1.1))
    axis.set_axis_off()
    for token in range(N):
        for expert in range(E):
            axis.add_patch(plt.Rectangle((expert, 2 * token), 1, 2, edgecolor="0.4", linewidth=0.8,
                                         facecolor=SOFT if expert in chosen[token] else "white"))
            axis.text(expert + 0.5, 2 * token + 1, f"{s[token, expert]:.2f}", ha="center", va="center", fontsize=9)
        axis.text(-0.2, 2 * token + 1, f"u{token}", ha="right", va="center")
        axis.add_patch(plt.Rectangle((13, 2 * token), 1.2, 2, edgecolor="0.4", linewidth=0.8,
                                     facecolor=DARK if token == shown else "white"))
        axis.text(13.6, 2 * token + 1, f"f{token}", ha="center", va="center",
                  color="white" if token == shown else "black")
    for row, (expert, token) in enumerate(pairs):
        bold = {"color": DARK, "linewidth": 2, "zorder": 3} if token == shown else {"color": "0.8", "linewidth": 0.8}
        axis.add_patch(plt.Rectangle((5.6, row), 2, 1, edgecolor="0.4", linewidth=0.8,
                                     facecolor=("0.93", "0.82", "0.7")[expert]))
        axis.text(6.6, row + 0.5, f"u{token}", ha="center", va="center", fontsize=9)
        axis.plot([3, 5.6], [2 * token + 1, row + 0.5], **bold)
        axis.plot([9.6, 13], [row + 0.5, 2 * token + 1], **bold)
        if token == shown:
            weight = p[token][list(chosen[token]).index(expert)]
            axis.text(10.6, row + 0.5 + (2 * token + 0.5 - row) * 0.3, f"× {weight:.2f}", fontsize=9, ha="center",
                      va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5}, zorder=4)
    for expert in range(E):
        rows = [row for row, pair in enumerate(pairs) if pair[0] == expert]
        axis.add_patch(plt.Rectangle((7.6, rows[0]), 2, len(rows), edgecolor="0.4", linewidth=0.8,
                                     facecolor=("0.93", "0.82", "0.7")[expert]))
        axis.text(8.6, rows[0] + len(rows) / 2, f"expert {expert}", ha="center", va="center", fontsize=9)
    for where, name in ((1.5, "router s, k = 2"), (7.6, "R = N·k rows, by expert"), (13.4, "f")):
        axis.text(where, -0.3, name, ha="center", va="bottom")

    # The first token of the page's example.
    s, t, of = softmax(numpy.array([1.0, 2, 0])), numpy.zeros(3), numpy.array([1, 0])
    weights = s[of] / s[of].sum()
    t[of] = weights * 0.5 * numpy.array([0.6, -0.4])
    divided = t.copy()
    divided[of] -= weights * t.sum()
    t_whole = numpy.zeros(3)
    t_whole[of] = s[of] * 0.5 * numpy.array([0.6, -0.4])
    places = numpy.arange(3)
    whole = t_whole - s * t_whole.sum()
    for shift, values, color, hatch, name in ((-0.2, divided, DARK, "", "weights add up to 1"),
                                              (0.2, whole, LIGHT, "//", "weights of the softmax")):
        bars = axes[1].bar(places + shift, values, 0.38, color=color, hatch=hatch, edgecolor="white", label=name)
        axes[1].bar_label(bars, [f"{value:.3f}" for value in values], fontsize=8, padding=2)
    axes[1].axhline(0, color="black", linewidth=0.8)
    axes[1].set(xticks=places, xticklabels=["expert 0", "expert 1", "expert 2\n(not chosen)"], ylim=(-0.15, 0.2),
                title="gradient of the router's logits")
    axes[1].title.set_fontsize(10)
    axes[1].legend(loc="upper left", fontsize=9)
    return figure


# ---- ScaleNorm's sphere (layers/norm/norm_scale.md) -----------------------------------------------------------

def globe(axis, sizes=(1, 1, 1)):
    turn, height = numpy.linspace(0, 2 * numpy.pi, 100), numpy.linspace(-1, 1, 7)[1:-1]
    for z in numpy.append(height, 0):
        ring = numpy.array([numpy.cos(turn), numpy.sin(turn), 0 * turn]) * (1 - z * z) ** 0.5
        ring[2] = z
        axis.plot(*(ROOT3 * ring * numpy.array(sizes)[:, None]), color="0.8", linewidth=0.7)
    for angle in numpy.arange(0, numpy.pi, numpy.pi / 4):
        ring = numpy.array([numpy.cos(angle) * numpy.cos(turn), numpy.sin(angle) * numpy.cos(turn), numpy.sin(turn)])
        axis.plot(*(ROOT3 * ring * numpy.array(sizes)[:, None]), color="0.8", linewidth=0.7)


def scale_norm():
    figure = plt.figure(figsize=(10, 3.9))
    x = rows_of_three()
    on_sphere = ROOT3 * x / numpy.linalg.norm(x, axis=1, keepdims=True)
    flat = x - x.mean(axis=1, keepdims=True)
    on_circle = ROOT3 * flat / numpy.linalg.norm(flat, axis=1, keepdims=True)
    for place, title, end in ((1, "ScaleNorm: onto the sphere", on_sphere),
                              (2, "LayerNorm: onto one circle of it", on_circle)):
        axis = figure.add_subplot(1, 3, place, projection="3d")
        space(axis, title)
        axis.title.set_fontsize(10)
        globe(axis)
        if place == 2:
            axis.plot(*circle().T, color="black", linewidth=1.2)
        moves(axis, x, end, "0.5")
        points(axis, x, LIGHT, names=False)
        points(axis, end, DARK)
    # The first row of the page's example, in the plane of x and dy: u is the direction to the right.
    x, dy, g = numpy.array([1.0, 2, 2]), numpy.array([0.3, -0.6, 0.9]), 2
    r = 1 / numpy.linalg.norm(x)
    u = x * r
    along, across = dy @ u, numpy.linalg.norm(dy - (dy @ u) * u)
    axis = figure.add_subplot(1, 3, 3)
    axis.add_patch(plt.Circle((0, 0), g, fill=False, color="0.6"))
    axis.plot([0, 3], [0, 0], color=LIGHT, linewidth=1.2)
    axis.plot(3, 0, "o", color=LIGHT)
    axis.plot(g, 0, "o", color=DARK)
    for begin, step, color, line, name, place in (
            ((g, 0), (along, across), "0.3", "-", "dy", (2.4, 1.1)),
            ((g, 0), (0, across), "0.3", ":", "across", (1.1, 0.95)),
            ((3, 0), (0, g * r * across), MIDDLE, "-", "dx", (3.12, 0.5))):
        axis.annotate("", numpy.add(begin, step), begin, arrowprops={
            "arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.6, "linestyle": line})
        axis.text(*place, name, color=color, va="center")
    axis.text(1.9, -0.08, "y", ha="right", va="top", color=DARK)
    axis.text(3.08, -0.08, "x", ha="left", va="top", color="0.4")
    axis.set(title="backward: dx is at right angles to x", xlim=(-0.4, 3.9), ylim=(-1.6, 2.4), aspect="equal",
             xticks=[0, 2, 3], yticks=[])
    axis.set_xticklabels(["0", "g = 2", "|x| = 3"])
    axis.title.set_fontsize(10)
    axis.grid(False)
    axis.spines["left"].set_visible(False)
    return figure


# ---- QK-norm: scores that do not grow (layers/norm/qk_norm.md) ------------------------------------------------

def qk_norm():
    """Random queries and keys times a factor: the largest score, the entropy, and what passes the softmax backward."""
    T, D = 64, 64
    q, k, dP = numpy.random.default_rng(2).standard_normal((3, T, D))
    factors = numpy.geomspace(0.25, 16, 40)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3))
    for normed, color, line, name in ((False, MIDDLE, "--", "without"), (True, DARK, "-", "with QK-norm")):
        rows = []
        for factor in factors:
            Q, K = factor * q, factor * k
            if normed:
                Q, K = (each / (each**2).mean(axis=1, keepdims=True) ** 0.5 for each in (Q, K))
            S = Q @ K.T / D**0.5
            P = softmax(S)
            dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
            entropy = -(P * numpy.log(P + 1e-300)).sum(axis=1).mean() / numpy.log(T)
            rows.append((abs(S).max(), entropy, numpy.linalg.norm(dS, axis=1).mean()))
        for axis, values in zip(axes, zip(*rows)):
            axis.plot(factors, values, line, color=color, label=name, linewidth=2)
        if not normed:
            at_four = rows[abs(factors - 4).argmin()][1]
            axes[1].annotate(f"{at_four:.0%}", (4, at_four), xytext=(6, 8), textcoords="offset points", fontsize=9)
            axes[1].plot(4, at_four, "o", color=color)
    axes[0].axhline(D**0.5, color="0.4", linewidth=1, linestyle=":")
    axes[0].annotate("bound √D", (factors[-1], D**0.5), xytext=(0, 4), textcoords="offset points", fontsize=9,
                     ha="right")
    axes[0].set(yscale="log", title="largest score of 64 × 64")
    axes[1].set(ylim=(0, 1.05), title="entropy of a query's weights / log T")
    axes[2].set(ylim=(0, None), title="|dS| for a random dP")
    for axis in axes:
        axis.set(xscale="log", xlabel="size of q and of k", xticks=[0.25, 1, 4, 16])
        axis.set_xticklabels(["¼", "1", "4", "16"])
        axis.minorticks_off()
        axis.title.set_fontsize(10)
    axes[0].legend(loc="upper left")
    return figure


# ---- Dropout's masks (layers/dropout/dropout.md) --------------------------------------------------------------

def dropout_bits(step, line, count):
    """The 24 random bits of each element of a line, as layers/dropout/dropout.cpp computes them: seed 1, the first
    sequence, layer 0, the site `embedding`."""
    key = rng.key(1, rng.word("dropout"), step, 0, 0, 0, line)
    low, high = numpy.uint32(key & 0xFFFFFFFF), numpy.uint32(key >> 32)
    h = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9) + low
    h = (h ^ (h >> numpy.uint32(16))) * numpy.uint32(0x85EBCA6B) ^ high
    h = (h ^ (h >> numpy.uint32(13))) * numpy.uint32(0xC2B2AE35)
    return (h ^ (h >> numpy.uint32(16))) >> numpy.uint32(8)


def multipliers(p, step, lines, count):
    bits = numpy.array([dropout_bits(step, line, count) for line in range(lines)])
    return (bits >= p * 2**24) / (1 - p)


def dropout():
    figure, axes = plt.subplots(1, 4, figsize=(10, 3.2), gridspec_kw={"width_ratios": [1, 1, 1, 1.7]})
    for axis, (step, title) in zip(axes, ((0, "step 0, forward"), (0, "step 0, backward"), (1, "step 1"))):
        axis.imshow(multipliers(0.25, step, 16, 12) > 0, cmap="Greys_r", vmin=-0.15, vmax=1)
        axis.set(title=title, xticks=[], yticks=[], xlabel="channels")
        axis.title.set_fontsize(10)
        axis.grid(False)
    axes[0].set_ylabel("positions; black: dropped")
    shares = numpy.array([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    curve = numpy.linspace(0, 0.5, 50)
    y = [multipliers(p, 0, 200, 256) for p in shares]  # of x = 1
    axes[3].plot(curve, 1 + 0 * curve, color=DARK, label="mean: x")
    axes[3].plot(curve, 1 / (1 - curve), "--", color=MIDDLE, label="mean square: x²/(1 − p)")
    axes[3].plot(shares, [each.mean() for each in y], "o", color=DARK)
    axes[3].plot(shares, [(each**2).mean() for each in y], "s", color=MIDDLE)
    axes[3].set(xlabel="p", title="y = x·k for x = 1", ylim=(0, 2.2))
    axes[3].title.set_fontsize(10)
    axes[3].legend(loc="lower left")
    return figure


# ---- A small gain at the start (layers/residual/gain.md) ------------------------------------------------------

def branches(weights, gains, x):
    """Branches x + λ·W₂ tanh(W₁x). Returns the stream before each and at the end, their outputs without λ, and tanh."""
    streams, outputs, hidden = [x], [], []
    for (W1, W2), gain in zip(weights, gains):
        hidden.append(numpy.tanh(streams[-1] @ W1.T))
        outputs.append(hidden[-1] @ W2.T)
        streams.append(streams[-1] + gain * outputs[-1])
    return streams, outputs, hidden


def branches_backward(weights, gains, x, dy):
    """The gradients of the streams, of the gains, and of each W₂."""
    streams, outputs, hidden = branches(weights, gains, x)
    ds, dgains, dW2 = [dy(streams[-1])], [], []
    for (W1, W2), gain, f, h in reversed(list(zip(weights, gains, outputs, hidden))):
        dgains.insert(0, (ds[0] * f).sum())
        dW2.insert(0, gain * ds[0].T @ h)
        ds.insert(0, ds[0] + (gain * ds[0] @ W2 * (1 - h * h)) @ W1)
    return ds, numpy.array(dgains), dW2


def gain():
    random = numpy.random.default_rng(5)
    L, N, C = 48, 32, 64
    weights = random.standard_normal((L, 2, C, C)) / C**0.5
    x, direction, target = random.standard_normal((3, N, C))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.5))
    for size, line, color in ((1, "-.", "0.4"), (0.1, "--", MIDDLE), (0, "-", DARK)):
        ds, *_ = branches_backward(weights, numpy.full(L, size), x, lambda y: direction)
        sizes = [numpy.linalg.norm(d) / numpy.linalg.norm(direction) for d in ds]
        axes[0].plot(range(L + 1), sizes, line, color=color, label=f"λ = {size}: × {sizes[0]:.3g}", linewidth=2)
    axes[0].set(xlabel="branches below", title="gradient of the stream, relative to the top", yscale="log",
                ylim=(0.8, 60))
    axes[0].title.set_fontsize(10)
    axes[0].legend()
    gains, steps = numpy.zeros(8), range(11)
    sizes = []
    for _ in steps:  # gradient descent on the mean of ½(y − target)²
        _, dgains, dW2 = branches_backward(weights[:8], gains, x, lambda y: (y - target) / N)
        sizes.append((abs(gains).mean(), numpy.linalg.norm(dW2)))
        gains = gains - 0.01 * dgains
        weights[:8, 1] -= 0.01 * numpy.array(dW2)
    for values, line, color, name in zip(zip(*sizes), ("-o", "--s"), (DARK, MIDDLE), ("|λ|", "gradient of W₂")):
        axes[1].plot(steps, numpy.array(values) / values[-1], line, color=color, label=name)
    axes[1].set(xlabel="step of gradient descent", title="from λ = 0: sizes relative to step 10", ylim=(0, None))
    axes[1].title.set_fontsize(10)
    axes[1].legend()
    return figure


# ---- A branch under five placements (layers/residual/residual.md) ---------------------------------------------

def standard(x):
    return (x - x.mean()) / x.std()


def standard_backward(dy, x):
    """dx of a LayerNorm of one row without gain."""
    return (dy - dy.mean() - standard(x) * (dy * standard(x)).mean()) / x.std()


def box(axis, x, y, name, color="white"):
    axis.text(x, y, name, ha="center", va="center", fontsize=10, color="white" if color == DARK else "black",
              bbox={"boxstyle": "round,pad=0.35", "facecolor": color, "edgecolor": "black"}, zorder=4)


def residual():
    """The second row of the page's example: F shifts a row and doubles it."""
    x, dy = numpy.array([2.0, 4, 9]), numpy.array([0.5, -1, 2])
    figure, axes = plt.subplots(1, 5, figsize=(10, 4.3))
    rows = (("post", "N(x + F(x))", "s", 1), ("deepnorm, α = 2", "N(αx + F(x))", "s", 2),
            ("pre", "x + F(N(x))", "i", 1), ("reordered", "x + N(F(x))", "o", 1),
            ("sandwich", "x + N(F(N(x)))", "io", 1))
    for axis, (name, formula, norms, alpha) in zip(axes, rows):
        u = standard(x) if "i" in norms else x
        f = 2 * numpy.roll(u, -1)
        o = standard(f) if "o" in norms else f
        ds = standard_backward(dy, alpha * x + o) if "s" in norms else dy
        du = 2 * numpy.roll(standard_backward(ds, f) if "o" in norms else ds, 1)
        back = standard_backward(du, x) if "i" in norms else du

        axis.set(title=f"{name}\n{formula}", xlim=(-0.8, 2), ylim=(-1.7, 6.3))
        axis.title.set_fontsize(10)
        axis.set_axis_off()
        free = "s" not in norms
        axis.plot([0, 0], [0, 6], color=DARK, linewidth=4 if free else 1.2, solid_capstyle="butt")
        axis.plot([0, 1.3, 1.3, 0], [0.4, 0.4, 4.3, 4.3], color="black", linewidth=1.2)
        box(axis, 1.3, 2.35, "F", "0.85")
        box(axis, 0, 4.3, "+")
        for letter, place in ("i", (1.3, 1.2)), ("o", (1.3, 3.5)), ("s", (0, 5.3)):
            if letter in norms:
                box(axis, *place, "N", SOFT)
        if alpha != 1:
            box(axis, 0, 2.35, "× α")
        axis.text(0, -0.1, "x", ha="center", va="top")
        axis.text(0, 6.05, "y", ha="center", va="bottom")
        axis.text(0.6, -0.75, f"skip path {numpy.linalg.norm(alpha * ds):.2f}\nbranch {numpy.linalg.norm(back):.2f}",
                  ha="center", va="top", fontsize=9)
    figure.supxlabel(f"Size of what each path brings back to x, for a dy of size {numpy.linalg.norm(dy):.2f}",
                     fontsize=10)
    return figure


# ---- Several residual streams (layers/streams/streams.md) -----------------------------------------------------

def wires(axis, title, S, branches, between=None):
    """Streams from left to right. branches: (streams read, their coefficient; streams written) of each branch. between
    draws what lies on the streams at a branch's place."""
    axis.set(title=title, xlim=(-0.5, 3 * len(branches) + 0.1), ylim=(S + 0.9, -0.6))
    axis.title.set_fontsize(10)
    axis.set_axis_off()
    for s in range(S):
        axis.plot([0, 3 * len(branches)], [s, s], color="0.4", linewidth=1.4)
        axis.text(-0.1, s, "x" + "₀₁₂₃"[s], ha="right", va="center")
    for number, (read, write) in enumerate(branches):
        left, right = 3 * number + 0.6, 3 * number + 2.3
        axis.plot([left, left, right, right], [min(read), S + 0.2, S + 0.2, min(write)], color="black", linewidth=1)
        axis.plot([left] * len(read), read, "o", color="white", markeredgecolor="black", markersize=7, zorder=3)
        axis.plot([right] * len(write), write, "o", color=DARK, markersize=7, zorder=3)
        box(axis, 3 * number + 1.45, S + 0.2, "F", "0.85")
        if between:
            between(axis, 3 * number)


def mixes(axis, at):
    axis.add_patch(plt.Rectangle((at + 1, -0.3), 0.8, 3.6, facecolor=SOFT, edgecolor="black", zorder=3))
    axis.text(at + 1.4, 1.5, "mixing", rotation=90, ha="center", va="center", fontsize=9, zorder=4)


def sinkhorn(a, rounds=20):
    m = numpy.exp(a)
    for _ in range(rounds):
        m = m / m.sum(axis=-1, keepdims=True)
        m = m / m.sum(axis=-2, keepdims=True)
    return m


def streams():
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.2))
    every = range(4)
    wires(axes[0, 0], "hyper-connections at the start: reads one, writes all", 4, [([k], every) for k in range(3)])
    wires(axes[0, 1], "mHC: reads all, mixes all, writes all", 4, [(every, every)] * 3, mixes)
    wires(axes[1, 0], "ResiDual: Post-LN, and a plain sum", 2, [([0], [0, 1])] * 3,
          lambda axis, at: box(axis, at + 2.7, 0, "N", SOFT))
    L, draws, axis = 48, 200, axes[1, 1]
    noise = 0.3 * numpy.random.default_rng(0).standard_normal((draws, L, 4, 4))
    for name, carry, line, color in (("I + noise", numpy.eye(4) + noise, "--", MIDDLE),
                                     ("doubly stochastic", sinkhorn(3 * numpy.eye(4) + noise), "-", DARK)):
        total, sizes = numpy.eye(4), []
        for branch in range(L):
            total = total @ carry[:, branch]
            sizes.append(numpy.median(numpy.linalg.norm(total, ord=2, axis=(1, 2))))
        axis.plot(range(1, L + 1), sizes, line, color=color, label=name, linewidth=2)
    axis.set(yscale="log", xlabel="branches", ylim=(0.8, None),
             title="largest singular value of the product of all carry")
    axis.title.set_fontsize(10)
    axis.legend(title="carry")
    return figure


PICTURES = {each.__name__: each for each in (
    sphere, cubes, attention, rope, schedules, activations, pointwise, cross_entropy, linear, embedding, moe,
    scale_norm, qk_norm, dropout, gain, residual, streams)}


def main():
    for name in sys.argv[1:] or PICTURES:
        path = HERE / f"{name}.png"
        PICTURES[name]().savefig(path)
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)  # a third of the size
        print(path)


if __name__ == "__main__":
    main()
