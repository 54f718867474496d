"""Attention with grouped heads (Vaswani et al. 2017, arXiv 1706.03762, eq. 1; groups: Ainslie et al.
2023, arXiv 2305.13245): query head h reads key and value head h / (H/KV).

Options: scores capped by c·tanh(s/c) (Gemma 2, arXiv 2408.00118); slope·(i - j) subtracted from scores (ALiBi, Press
et al. 2021, arXiv 2108.12409); a window, in which query i sees the keys i - window < j <= i (Mistral 7B, arXiv
2310.06825, §2); `bidirectional`, with which a query sees later keys, too, its window is i - window < j < i + window,
and ALiBi subtracts slope·|i - j| (BERT, Devlin et al. 2019, arXiv 1810.04805); rows of several examples, in which a
query sees only keys of its own example (a mask of blocks on the diagonal): begins (B,T) says where the example of each
token begins.

In cross attention q comes from the decoder, k and v from the output of the encoder (Vaswani et al. 2017, §3.2.3).
seen (B,T,S) says which keys a query sees, at least one, and the order of keys means nothing.

relative (B,H,T,T) is added to the scores: T5's buckets (Raffel et al. 2020, arXiv 1910.10683, §2.1).

A sink (gpt-oss, OpenAI 2025, arXiv 2508.10925) is one more score in the softmax of each query, without a key or a
value: softmax([scores, sink]) without its last number. sinks (H)

Around it, if the model has them:
- a norm of each head of q, k and v (HybridNorm, Zhuo et al. 2025, arXiv 2503.04598);
- the value residual (ResFormer, Zhou et al. 2024, arXiv 2410.17897): v of a later layer becomes a·v + b·v1, with v1 the
  values of the first layer;
- a gate (Qiu et al. 2025, arXiv 2505.06708): the output times σ(u Wᵀ), before o, with a number for each head or for
  each number of the output;
- a factor on each head (NormFormer, Shleifer et al. 2021, arXiv 2110.09456): Concat(c1·h1, ..., cn·hn) W^O.

q (B,T,H,D)   k, v (B,T,KV,D)   out (B,T,H·D)
"""

import math
from dataclasses import dataclass

import torch

from layers import linear, mix, ngpt, norm, position, residual
from layers.layer_set import has_layer


@dataclass
class Memory:
    """What cross attention reads."""

    x: torch.Tensor  # (B,S,C) the output of the encoder
    seen: torch.Tensor  # (B,T,S)


def crosses(name):
    return name.endswith(".cross")


def declare(name, c):
    out, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    read = {"q": out}, {"k": kv, "v": kv}  # cross attention's q has another input than its k and v
    rows = []
    for width in read if crosses(name) else [read[0] | read[1]]:
        rows += linear.declare(name, c, width, c.channels, c.qkv_bias)
    rows += declare_qk_norm(name, c)
    if c.value_residual == "learned" and name != "block.0.attention" and not crosses(name):
        rows += mix.declare(f"{name}.value_mix")
    if c.output_gate != "none":
        gates = c.heads * (c.head_dim if c.output_gate == "elementwise" else 1)
        rows += [(f"{name}.output_gate.weight", (gates, c.channels))]
        rows += [(f"{name}.output_gate.bias", (gates,))] if c.qkv_bias else []
    rows += [(f"{name}.head_scale.gain", (c.heads,))] if c.head_scale else []
    rows += [(f"{name}.sinks", (c.heads,))] if c.attention_sinks else []
    rows += residual.norm_rows(name, c, "norm_inner", out)
    return rows + linear.declare(name, c, {"o": c.channels}, out, c.o_bias)


def declare_qk_norm(name, c):
    """Qwen3 (arXiv 2505.09388) normalizes each head, with one gain for all; OLMo 2 (arXiv 2501.00656) all together.
    HybridNorm does as Qwen3, with v too."""
    if c.qk_norm == "unit":
        return [(f"{name}.qk.gain", (c.heads * c.head_dim,))]
    if c.qk_norm == "none":
        return []
    rows = []
    for part, heads in ("q_norm", c.heads), ("k_norm", c.kv_heads):
        rows += norm.declare(f"{name}.{part}", c.head_dim * (heads if c.qk_norm == "full" else 1), c)
    if c.qk_norm == "qkv":
        rows += norm.declare(f"{name}.v_norm", c.head_dim, c)
    return rows


def window_of(c, layer):
    return c.window if has_layer(c.window_layers, layer) else 0


def rope_of(c, layer, T):
    if c.window_rope_theta and window_of(c, layer):  # Gemma 3 (arXiv 2503.19786, §2)
        return c.window_rope_theta, position.NO_SCALING
    factors = c.rope_long if T > c.rope_original else c.rope_short  # of one example
    return c.rope_theta, position.Scaling(c.rope_scaling, c.rope_factor, c.rope_original, c.rope_slow, c.rope_fast,
                                          c.rope_magnitude, tuple(float(s) for s in factors.split(",") if s),
                                          c.rope_truncate)


def options(c, layer):
    """The arguments of `forward` for the scores of this layer."""
    return {
        "scale": c.attention_scale,
        "cap": c.attention_cap,
        "window": window_of(c, layer),
        "slopes": position.alibi_slopes(c.heads) if c.position == "alibi" else None,
        "bidirectional": c.attention == "bidirectional",
    }


def capped(q, k, scale=None, cap=0):
    scores = q @ k.transpose(2, 3)
    scores = scores / math.sqrt(q.shape[3]) if scale is None else scores * scale
    return cap * torch.tanh(scores / cap) if cap else scores


def weights(
    q, k, scale=None, cap=0, window=0, slopes=None, relative=None, bidirectional=False, begins=None, sinks=None
):
    """(B,H,T,T) from queries and keys of all heads, (B,H,T,D)"""
    T = q.shape[2]
    scores = capped(q, k, scale, cap)
    scores = scores if relative is None else scores + relative
    distance = torch.arange(T)[:, None] - torch.arange(T)  # i - j
    distance = distance.abs() if bidirectional else distance
    if slopes is not None:
        scores = scores - torch.tensor(slopes, dtype=q.dtype)[:, None, None] * distance
    hidden = (distance < 0) | (distance >= (window or T))
    if begins is not None:
        hidden = hidden | (begins[:, :, None] != begins[:, None, :])[:, None]  # (B, 1, T, T)
    return softmax(scores.masked_fill(hidden, -math.inf), sinks)


def softmax(scores, sinks):
    if sinks is None:
        return scores.softmax(-1)
    return torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]


def cross_weights(q, k, seen, scale=None, cap=0, sinks=None):
    """(B,H,T,S) from queries (B,H,T,D) and keys (B,H,S,D)"""
    return softmax(capped(q, k, scale, cap).masked_fill(~seen[:, None], -math.inf), sinks)


def forward(q, k, v, weights_of=None, **options):
    group = q.shape[2] // k.shape[2]
    k, v = (part.repeat_interleave(group, dim=2).transpose(1, 2) for part in (k, v))
    return ((weights_of or weights)(q.transpose(1, 2), k, **options) @ v).transpose(1, 2).flatten(2)


def forward_qkv(qkv, heads, kv_heads, head_dim, **options):
    """Attention on rows that hold the heads of q, then of k, then of v: (B,T,(H+2KV)·D)."""
    parts = qkv.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], dim=-1)
    return forward(*(part.unflatten(-1, (-1, head_dim)) for part in parts), **options)


def mixed_values(p, c, name, v, carried):
    """Keeps the first layer's values in `carried`, and mixes them into later layers' values."""
    if c.value_residual == "none":
        return v
    if name == "block.0.attention":
        carried["values"] = v
        return v
    if c.value_residual == "fixed":
        return 0.5 * v + 0.5 * carried["values"]
    return mix.apply(p, f"{name}.value_mix", v, carried["values"])


def with_sinks(p, c, name, q, k, v, how, weights_of=weights):
    if not c.attention_sinks:
        return forward(q, k, v, weights_of, **how)
    sinks = f"{name}.sinks"
    out = forward(q, k, v, weights_of, **how, sinks=p[sinks])

    def terms(dout):  # each product of dout and out has the sink's share of weight, 1 - Σ of the keys'
        keys = k.repeat_interleave(c.heads // c.kv_heads, dim=2)
        p_keys = weights_of(*(x.detach().transpose(1, 2) for x in (q, keys)), **how, sinks=p[sinks].detach())
        products = (dout * out.detach()).abs().unflatten(-1, (c.heads, -1)).sum(-1).transpose(1, 2)  # (B,H,T)
        return [(sinks, ((1 - p_keys.sum(-1)) * products).sum((0, 2)))]

    p.watch(out, terms)
    return out


def gated(p, c, name, x, out):
    if c.output_gate == "none":
        return out
    gate = torch.sigmoid(linear.apply(p, x, f"{name}.output_gate.weight", f"{name}.output_gate.bias"))
    return out * (gate if c.output_gate == "elementwise" else gate.repeat_interleave(c.head_dim, dim=-1))


def scaled(p, c, name, out):
    if not c.head_scale:
        return out
    weight, heads = f"{name}.head_scale.gain", out.unflatten(-1, (c.heads, c.head_dim))
    y = p[weight][:, None] * heads
    p.watch(y, lambda dy: [(weight, (dy * heads.detach()).abs().sum((0, 1, 3)))])
    return y.flatten(-2)


def projected(p, c, name, x, source):
    """q of x, k and v of the source: (B,T,H,D), (B,S,KV,D), (B,S,KV,D)"""
    read = {"q": x, "k": source, "v": source}
    q, k, v = (linear.apply(p, u, f"{name}.{part}.weight", f"{name}.{part}.bias") for part, u in read.items())
    if c.qk_norm == "full":
        q, k = norm.apply(p, c, f"{name}.q_norm", q), norm.apply(p, c, f"{name}.k_norm", k)
    q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in (q, k, v))
    if c.qk_norm in ("head", "qkv"):
        q, k = norm.apply(p, c, f"{name}.q_norm", q), norm.apply(p, c, f"{name}.k_norm", k)
    if c.qk_norm == "qkv":
        v = norm.apply(p, c, f"{name}.v_norm", v)
    return q, k, v


def finish(p, c, name, x, mixed):
    """What follows the weighted sum of values. x is what the branch reads."""
    out = gated(p, c, name, x, mixed)
    out = scaled(p, c, name, out)
    return linear.apply(p, residual.inner(p, c, name, out), f"{name}.o.weight", f"{name}.o.bias")


def relative(p, c, B, T):
    if c.position != "relative":
        return None
    buckets = position.buckets(T, c.relative_buckets, c.relative_distance, c.attention == "bidirectional")
    table = p["relative.weight"]
    added = table[buckets].permute(2, 0, 1).expand(B, -1, -1, -1)

    def terms(d):
        rows = d.abs().sum(0).flatten(1).T
        return [("relative.weight", torch.zeros_like(table).index_add(0, buckets.flatten(), rows))]

    p.watch(added, terms)
    return added


def apply(p, c, name, x, carried):
    q, k, v = projected(p, c, name, x, x)
    v = mixed_values(p, c, name, v, carried)
    layer = int(name.split(".")[1])
    if c.position == "rope" and has_layer(c.rope_layers, layer):
        theta, scaling = rope_of(c, layer, q.shape[1])
        assert scaling.kind != "longrope" or p.begins is None
        ids = position.ids(q.shape[1], p.begins)
        q, k = (position.rope(u, theta, c.rope_fraction, ids, scaling) for u in (q, k))
    if c.qk_norm == "unit":
        q, k = ngpt.unit_heads(p, c, name, q, k)
    more = {"begins": p.begins, "relative": relative(p, c, *x.shape[:2])}
    return finish(p, c, name, x, with_sinks(p, c, name, q, k, v, options(c, layer) | more))


def cross(p, c, name, x, memory):
    q, k, v = projected(p, c, name, x, memory.x)
    how = {"seen": memory.seen, "scale": c.attention_scale, "cap": c.attention_cap}
    return finish(p, c, name, x, with_sinks(p, c, name, q, k, v, how, cross_weights))
