#!/usr/bin/env python3
"""Draws the pictures of the pages in layers/ that need no training run: python dev/pictures/draw.py [NAME...]

Each function draws NAME.png in this folder, from the formulas of the page that shows it.
"""

import math
import sys
from pathlib import Path

import numpy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "studies"))
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


PICTURES = {each.__name__: each for each in (sphere, cubes, attention, rope, schedules, activations, pointwise,
                                             cross_entropy)}


def main():
    for name in sys.argv[1:] or PICTURES:
        path = HERE / f"{name}.png"
        PICTURES[name]().savefig(path)
        print(path)


if __name__ == "__main__":
    main()
