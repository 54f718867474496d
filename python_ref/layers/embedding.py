"""Token embedding times a scale, plus a learned or fixed position embedding if there is one.

tokens (B,T) ints   weight (V,C)   position (Tctx,C) or None   out (B,T,C)   ids (1,T) or (B,T): the positions
"""

import torch

from layers import position as positions


def declare(name, rows, channels):
    return [(f"{name}.weight", (rows, channels))]


def forward(tokens, weight, position=None, scale=1.0, ids=None):
    out = weight[tokens.long()] * scale
    ids = positions.ids(tokens.shape[1]) if ids is None else ids
    return out if position is None else out + position[ids]


def uncancelled(tokens, dout, weight, position=None, ids=None):
    """Σ|dout| over the positions that use each row."""
    dtoken = torch.zeros_like(weight).index_add_(0, tokens.flatten().long(), dout.abs().flatten(0, 1))
    if position is None:
        return dtoken, None
    ids = (positions.ids(tokens.shape[1]) if ids is None else ids).expand_as(tokens)
    return dtoken, torch.zeros_like(position).index_add_(0, ids.flatten(), dout.abs().flatten(0, 1))


def apply(p, c, tokens):
    weight, position = p["embedding.token.weight"], p.get("embedding.position.weight")
    fixed = positions.sinusoids(tokens.shape[1], c.channels) if c.position == "sinusoidal" else None
    ids = positions.ids(tokens.shape[1], p.begins)
    out = forward(tokens, weight, position if fixed is None else fixed.to(weight.dtype), c.embedding_scale, ids)

    def terms(dout):
        names = "embedding.token.weight", "embedding.position.weight"
        found = uncancelled(tokens, dout, weight.detach(), None if position is None else position.detach(), ids)
        found = [found[0] * c.embedding_scale, found[1]]
        return [(n, t) for n, t in zip(names, found) if t is not None]

    p.watch(out, terms)
    return out
