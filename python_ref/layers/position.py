"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864, eq. 34), pairs (i, i + R/2) of the first R of a head's D
numbers; sinusoids (Vaswani et al. 2017, arXiv 1706.03762, §3.5); ALiBi's slopes (Press et al. 2021, arXiv 2108.12409);
T5's buckets of distances (Raffel et al. 2020, arXiv 1910.10683, §2.1).

x (B,T,H,D)   the pair i of the row at position t is rotated by the angle t · theta^(-2i/R)
ids (1,T) or (B,T): the positions
"""

import math
from dataclasses import dataclass

import torch


@dataclass
class Scaling:
    """How RoPE is stretched: config.py's rope_scaling, rope_factor, ..."""

    kind: str = "none"
    factor: float = 1.0
    original: float = 0.0
    slow: float = 0.0
    fast: float = 0.0
    magnitude: float = 1.0
    factors: tuple = ()  # longrope: of each pair
    truncate: bool = True  # yarn fades between whole pairs


NO_SCALING = Scaling()


def ids(T, begins=None):
    """0, 1, ... in each row, or in each example of a row that holds several."""
    row = torch.arange(T)[None]
    return row if begins is None else row - begins


def turns(theta, R, scaling):
    """Radians per position of each pair, (R/2): theta^(-2i/R), or slower if the model stretches them.

    linear: Chen et al. 2023, arXiv 2306.15595, eq. 4. yarn: Peng et al. 2023, arXiv 2309.00071, §3.2. llama3: as
    transformers reads Llama 3.1's rope_scaling. longrope: Ding et al. 2024, arXiv 2402.13753, as in Phi-3."""
    i = torch.arange(R // 2, dtype=torch.float64)
    plain = theta ** (-2 * i / R)
    if scaling.kind in ("none", "dynamic"):
        return plain
    if scaling.kind == "longrope":
        return plain / torch.tensor(scaling.factors, dtype=torch.float64)
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        in_original = plain * scaling.original / (2 * math.pi)
        kept = ((in_original - scaling.slow) / (scaling.fast - scaling.slow)).clamp(0, 1)
    else:
        low, high = (R * math.log(scaling.original / (n * 2 * math.pi)) / (2 * math.log(theta))
                     for n in (scaling.fast, scaling.slow))
        if scaling.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, R - 1)
        kept = 1 - ((i - low) / (high - low or 0.001)).clamp(0, 1)
    return plain * kept + plain / scaling.factor * (1 - kept)


def rope(x, theta=10000.0, fraction=1.0, ids=None, scaling=NO_SCALING):
    R = int(x.shape[3] * fraction + 1e-3) // 2 * 2  # whole pairs
    t = torch.arange(x.shape[1])[None] if ids is None else ids
    angle = t.to(torch.float64)[..., None] * turns(theta, R, scaling)  # (1 or B, T, R/2)
    cos, sin = (scaling.magnitude * f(angle).to(x.dtype)[:, :, None, :] for f in (torch.cos, torch.sin))
    a, b, rest = x[..., : R // 2], x[..., R // 2 : R], x[..., R:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], dim=-1)


def sinusoids(T, C):
    """(T,C): column 2i is sin(t / 10000^(2i/C)), column 2i + 1 is the cosine of the same angle."""
    t = torch.arange(T, dtype=torch.float64)
    columns = [(torch.sin, torch.cos)[c % 2](t / 10000 ** ((c - c % 2) / C)) for c in range(C)]
    return torch.stack(columns, dim=-1)


def buckets(T, count, farthest, bidirectional):
    """(T,T): the bucket of the distance from query i to key j. One for each small distance, then some of growing width,
    and from `farthest` on the last. If bidirectional, later keys have the second half of the buckets."""
    distance = torch.arange(T)[:, None] - torch.arange(T)  # i - j
    later = bidirectional * (distance < 0)
    distance = distance.abs() if bidirectional else distance.clamp(min=0)
    count = count // 2 if bidirectional else count
    exact = count // 2
    logarithm = torch.log(distance.double().clamp(min=exact) / exact) / math.log(farthest / exact)
    wide = (exact + (logarithm * (count - exact)).long()).clamp(max=count - 1)
    return count * later + torch.where(distance < exact, distance, wide)


def alibi_slopes(heads):
    """2^(-8/n), 2^(-16/n), ... for n heads, a power of two (§3). For other n, as in the paper's code: the slopes of
    the next lower power of two, then every second slope of twice that many heads."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[::2][: heads - power]
