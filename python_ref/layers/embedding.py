"""Token embedding times a scale, projected to the channels of the stream if it is narrow, plus a learned or fixed
position embedding if there is one, plus the first token type if there are types (BERT).

tokens (B,T) ints   weight (V,C)   position (Tctx,C) or None   out (B,T,C)   ids (1,T) or (B,T): the positions
"""

import torch

from layers import linear
from layers import position as positions


def declare(name, rows, channels):
    return [(f"{name}.weight", (rows, channels))]


def forward(tokens, weight, position=None, scale=1.0, ids=None):
    out = weight[tokens.long()] * scale
    ids = positions.ids(tokens.shape[1]) if ids is None else ids
    return out if position is None else out + position[ids]


def uncancelled_rows(ids, dout, table):
    """Σ|dout| over the positions that use each row."""
    return torch.zeros_like(table).index_add_(0, ids.flatten().long(), dout.abs().flatten(0, 1))


def uncancelled(tokens, dout, weight, position=None, ids=None):
    """The same of both tables."""
    ids = (positions.ids(tokens.shape[1]) if ids is None else ids).expand_as(tokens)
    return uncancelled_rows(tokens, dout, weight), None if position is None else uncancelled_rows(ids, dout, position)


def unit_rows(weight):
    """Rows of length 1 (FixNorm): Nguyen & Chiang 2018, arXiv 1710.01329; Nguyen & Salazar 2019, arXiv 1910.05895"""
    return torch.nn.functional.normalize(weight, dim=-1, eps=0.0)


def unit_uncancelled(weight, dunit):
    """dweight with every term made positive, from such a dunit"""
    unit = unit_rows(weight).abs()
    return (dunit + unit * (unit * dunit).sum(-1, keepdim=True)) / weight.norm(dim=-1, keepdim=True)


def words(p, c, name):
    """The matrix that the embedding and the classifier read -> the matrix, and what makes uncancelled terms of its
    gradient those of the parameter's"""
    if not c.fix_norm:
        return p[name], lambda terms: terms
    return unit_rows(p[name]), lambda terms: unit_uncancelled(p[name].detach(), terms)


def apply(p, c, tokens):
    names = "embedding.token.weight", "embedding.position.weight"
    position = p.get(names[1])
    weight, of_parameter = words(p, c, names[0])
    out = forward(tokens, weight, scale=c.embedding_scale)
    like, scale = weight.detach(), c.embedding_scale
    p.watch(out, lambda dout: [(names[0], of_parameter(scale * uncancelled_rows(tokens, dout, like)))])
    if "embedding.project.weight" in p:
        out = linear.apply(p, out, "embedding.project.weight")
    ids = positions.ids(tokens.shape[1], p.begins)
    if c.position == "sinusoidal":
        out = out + positions.sinusoids(tokens.shape[1], c.channels).to(weight.dtype)[ids]
    if position is not None:
        out = out + position[ids]
        p.watch(out, lambda dout: [(names[1], uncancelled_rows(ids.expand_as(tokens), dout, position.detach()))])
    return with_type(p, c, out)


def with_type(p, c, x):
    """Every token has the first type."""
    if not c.token_types:
        return x
    name = "embedding.token_type.weight"
    first = torch.zeros(x.shape[:2], dtype=torch.int64)
    out = x + p[name][first]
    p.watch(out, lambda dout: [(name, uncancelled_rows(first, dout, p[name].detach()))])
    return out
