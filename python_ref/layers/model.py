"""The whole model: the table of its tensors and the loss of a batch.

A stack is what lies between tokens and the head: embedding, blocks and the final norm. An encoder (Vaswani et al. 2017,
arXiv 1706.03762, §3.1) is a second one. Its embedding of tokens is the decoder's, as in T5 (arXiv 1910.10683) and in
the first Transformer (§3.4).
"""

import torch

from layers import activation, attention, block, cross_entropy, embedding, linear, ngpt, norm, residual, streams
from layers.parameters import ENCODER


def table_of_stack(c):
    rows = []
    if c.position == "learned":
        rows += embedding.declare("embedding.position", c.context, c.channels)
    if c.position == "relative":
        rows += [("relative.weight", (c.relative_buckets, c.heads))]
    if c.token_types:
        rows += embedding.declare("embedding.token_type", c.token_types, c.channels)
    if c.embedding_norm:
        rows += norm.declare("embedding.norm", c.channels, c)
    rule, end = residual.PLACEMENTS[c.placement].streams, residual.PLACEMENTS[c.placement].end
    rows += streams.declare_first(c, rule)
    for layer in range(c.layers):
        rows += block.declare(f"block.{layer}", c)
    rows += streams.declare_last(c, rule, end)
    if c.final_norm:
        rows += norm.declare("final_norm", c.channels, c)
    return rows


def table(c):
    """[(name, shape), ...] in the order of the C++ table."""
    narrow = c.embedding_channels != c.channels
    rows = embedding.declare("embedding.token", c.vocab_size, c.embedding_channels)
    if narrow:
        rows += [("embedding.project.weight", (c.channels, c.embedding_channels))]
    if c.encoder:
        rows += [(ENCODER + name, shape) for name, shape in table_of_stack(c.encoder)]
    rows += table_of_stack(c)
    if c.head_transform:
        rows += [("head.transform.weight", (c.channels, c.channels))]
        rows += [("head.transform.bias", (c.channels,))] if c.bias else []
        rows += norm.declare("head.norm", c.channels, c)
    if narrow:
        rows += [("head.project.weight", (c.embedding_channels, c.channels))]
    if not c.tied:
        rows += [("head.weight", (c.vocab_size, c.embedding_channels))]
    if c.head_bias:
        rows += [("head.bias", (c.vocab_size,))]
    if c.logit_gain:
        rows += [("head.logits.gain", (c.vocab_size,))]
    return rows


def stack(p, c, tokens, memory=None):
    """tokens (B,T) -> (B,T,C)   memory: what cross attention reads"""
    x = embedding.apply(p, c, tokens)
    if c.embedding_norm:
        x = norm.apply(p, c, "embedding.norm", x)
    rule, end = residual.PLACEMENTS[c.placement].streams, residual.PLACEMENTS[c.placement].end
    carried = {"x": x, "memory": memory}
    x = streams.enter(p, c, rule, x)
    for layer in range(c.layers):
        x = block.apply(p, c, f"block.{layer}", x, carried)
    return streams.leave(p, c, rule, end, x, lambda z: norm.apply(p, c, "final_norm", z) if c.final_norm else z)


def encode(p, c):
    """The output of the encoder (B,S,C), and which of its places each token of the batch sees (B,T,S)."""
    source = p.source
    place = torch.arange(source.tokens.shape[1])
    seen = (source.first[..., None] <= place) & (place < source.end[..., None])
    return attention.Memory(stack(p.encoder(), c.encoder, source.tokens), seen)


def classifier(p, c, x):
    name = "embedding.token.weight" if c.tied else "head.weight"
    weight, of_parameter = embedding.words(p, c, name)
    z = linear.forward(x, weight)
    x, weight = x.detach(), weight.detach()
    p.watch(z, lambda dz: [(name, of_parameter(linear.uncancelled(x, weight, dz)[1]))])
    if c.logit_gain:
        z = ngpt.logits(p, c, z)
    if "head.bias" not in p:
        return z
    z = z + p["head.bias"]
    p.watch(z, lambda dz: [("head.bias", dz.abs().sum((0, 1)))])
    return z


def logits(p, c, tokens):
    p.lora_alpha = c.lora_alpha
    x = stack(p, c, tokens, encode(p, c) if c.encoder else None)
    if c.head_transform:  # BERT
        x = linear.apply(p, x, "head.transform.weight", "head.transform.bias")
        x = norm.apply(p, c, "head.norm", activation.FORWARD[c.activation](x))
    if "head.project.weight" in p:
        x = linear.apply(p, x, "head.project.weight")
    z = c.logit_scale * classifier(p, c, x)
    return c.logit_cap * torch.tanh(z / c.logit_cap) if c.logit_cap else z  # Gemma 2, arXiv 2408.00118, §2


def loss(p, c, tokens, targets):
    """tokens, targets (B,T); -1 in targets is ignored. p.begins tells several examples in a row apart, p.source has
    what an encoder reads. The losses of the routers are in p.losses."""
    p.losses = []
    return cross_entropy.forward(logits(p, c, tokens).flatten(0, 1), targets.flatten())[1]
