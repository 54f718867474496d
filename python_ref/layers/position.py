"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864, eq. 34), pairs (i, i + R/2) of the first R of a head's D
numbers; sinusoids (Vaswani et al. 2017, arXiv 1706.03762, §3.5); ALiBi's slopes (Press et al. 2021, arXiv 2108.12409).

x (B,T,H,D)   the pair i of the row at position t is rotated by the angle t · theta^(-2i/R)
ids (1,T) or (B,T): the positions
"""

import math

import torch


def ids(T, begins=None):
    """0, 1, ... in each row, or in each example of a row that holds several."""
    row = torch.arange(T)[None]
    return row if begins is None else row - begins


def rope(x, theta=10000.0, fraction=1.0, ids=None):
    R = int(x.shape[3] * fraction + 1e-3) // 2 * 2  # whole pairs
    t = torch.arange(x.shape[1])[None] if ids is None else ids
    frequency = theta ** (-2 * torch.arange(R // 2, dtype=torch.float64) / R)
    angle = t.to(torch.float64)[..., None] * frequency  # (1 or B, T, R/2)
    cos, sin = (f(angle).to(x.dtype)[:, :, None, :] for f in (torch.cos, torch.sin))
    a, b, rest = x[..., : R // 2], x[..., R // 2 : R], x[..., R:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], dim=-1)


def sinusoids(T, C):
    """(T,C): column 2i is sin(t / 10000^(2i/C)), column 2i + 1 is the cosine of the same angle."""
    t = torch.arange(T, dtype=torch.float64)
    columns = [(torch.sin, torch.cos)[c % 2](t / 10000 ** ((c - c % 2) / C)) for c in range(C)]
    return torch.stack(columns, dim=-1)


def alibi_slopes(heads):
    """2^(-8/n), 2^(-16/n), ... for n heads, a power of two (§3). For other n, as in the paper's code: the slopes of
    the next lower power of two, then every second slope of twice that many heads."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[::2][: heads - power]
