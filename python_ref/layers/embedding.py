"""Token embedding, plus a learned position embedding where there is one.

tokens (B,T) ints   weight (V,C)   position (Tctx,C) or None   out (B,T,C)
"""

import torch


def declare(name, rows, channels):
    return [(f"{name}.weight", (rows, channels))]


def forward(tokens, weight, position=None):
    out = weight[tokens.long()]
    return out if position is None else out + position[: tokens.shape[1]]


def uncancelled(tokens, dout, weight, position=None):
    """Σ|dout| over the places each row was used at."""
    dtoken = torch.zeros_like(weight).index_add_(0, tokens.flatten().long(), dout.abs().flatten(0, 1))
    if position is None:
        return dtoken, None
    dposition = torch.zeros_like(position)
    dposition[: tokens.shape[1]] = dout.abs().sum(0)
    return dtoken, dposition


def apply(p, tokens):
    weight, position = p["embedding.token.weight"], p.get("embedding.position.weight")
    out = forward(tokens, weight, position)

    def terms(dout):
        names = "embedding.token.weight", "embedding.position.weight"
        found = uncancelled(tokens, dout, weight.detach(), None if position is None else position.detach())
        return [(n, t) for n, t in zip(names, found) if t is not None]

    p.watch(out, terms)
    return out
