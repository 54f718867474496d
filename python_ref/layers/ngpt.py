"""The parts of nGPT (Loshchilov et al. 2024, arXiv 2410.01131), as the authors' code has them (NVIDIA/ngpt, ed19eb2).

Learned factors are stored times C^-½ and used times C^½, except those on hidden channels, which are stored as they are:
there √C makes up for the length 1 of the rows.
"""

import math

import torch

import parametrization


def unit(x, dim=-1):
    return x / x.norm(dim=dim, keepdim=True)


def unit_uncancelled(x, du):
    """Σ|terms| of dx"""
    u = unit(x).abs()
    return (du + u * (u * du).sum(-1, keepdim=True)) / x.norm(dim=-1, keepdim=True)


def step(p, c, name, x, F):
    """Block.forward: from x toward F(x) on the sphere."""
    rate = f"{name}.rate"
    factor = c.eigen_rate_init * parametrization.branch(c) * math.sqrt(c.channels)
    start, end = unit(x), unit(F(x))
    moved = (factor * p[rate]).abs() * (end - start)

    p.watch(moved, lambda d: [(rate, factor * (d * (end - start).detach()).abs().sum((0, 1)))])
    return unit(start + moved)


def unit_heads(p, c, name, q, k):
    """q, k (B,T,H,D) after RoPE"""
    gain, root = f"{name}.qk.gain", math.sqrt(c.channels)
    heads = []
    for x in q, k:
        y = unit(x)
        scaled = (root * p[gain]).view(c.heads, c.head_dim) * y
        p.watch(scaled, lambda d, y=y.detach(): [(gain, root * (d * y).abs().sum((0, 1)).flatten())])
        heads.append(scaled)
    return heads


def hidden(p, c, name, gate, up):
    """Gate and up times their factors. gate is None if there is none"""
    gain, root = f"{name}.hidden.gain", math.sqrt(c.channels)
    x = up if gate is None else torch.cat([gate, up], -1)
    y = root * p[gain] * x
    p.watch(y, lambda d: [(gain, root * (d * x.detach()).abs().sum((0, 1)))])
    return (None, y) if gate is None else y.chunk(2, -1)


def logits(p, c, z):
    """Logits times a factor for each token"""
    gain, root = "head.logits.gain", math.sqrt(c.channels)
    y = root * p[gain] * z
    p.watch(y, lambda d: [(gain, root * (d * z.detach()).abs().sum((0, 1)))])
    return y


ROWS = "embedding.token.weight", "head.weight", ".q.weight", ".k.weight", ".v.weight", ".gate.weight", ".up.weight"
COLUMNS = ".o.weight", ".down.weight"


def is_normed(c, name):
    return c.normed_weights and name.endswith(ROWS + COLUMNS)


@torch.no_grad()
def normalize_weights(p, c):
    """normalize_matrices() of train.py: length 1 along the dimension of the stream"""
    for name, w in p.items():
        if is_normed(c, name):
            w.copy_(unit(w, 1 if name.endswith(ROWS) else 0))
