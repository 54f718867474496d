"""Causal attention with grouped heads (Vaswani et al. 2017, arXiv 1706.03762, eq. 1; groups: Ainslie et al.
2023, arXiv 2305.13245): query head h reads key and value head h / (H/KV).

q (B,T,H,D)   k, v (B,T,KV,D)   out (B,T,H·D)
"""

import math

import torch

from layers import linear, norm, position, residual


def declare(name, c):
    out = c.heads * c.head_dim
    width = {"q": out, "k": c.kv_heads * c.head_dim, "v": c.kv_heads * c.head_dim}
    rows = [(f"{name}.{part}.weight", (w, c.channels)) for part, w in width.items()]
    if c.bias:
        rows += [(f"{name}.{part}.bias", (w,)) for part, w in width.items()]
    rows += declare_qk_norm(name, c)
    rows += residual.norm_rows(name, c, "norm_inner", out)
    rows += [(f"{name}.o.weight", (c.channels, out))]
    return rows + [(f"{name}.o.bias", (c.channels,))] if c.bias else rows


def declare_qk_norm(name, c):
    """Qwen3 (arXiv 2505.09388): a norm of each head, its gain shared by the heads. OLMo 2 (arXiv 2501.00656): over all."""
    if c.qk_norm == "none":
        return []
    rows = []
    for part, heads in ("q_norm", c.heads), ("k_norm", c.kv_heads):
        rows += norm.declare(f"{name}.{part}", c.head_dim * (1 if c.qk_norm == "head" else heads), c)
    return rows


def forward(q, k, v):
    B, T, H, D = q.shape
    group = H // k.shape[2]
    q = q.transpose(1, 2)  # (B, H, T, D)
    k = k.repeat_interleave(group, dim=2).transpose(1, 2)
    v = v.repeat_interleave(group, dim=2).transpose(1, 2)
    scores = q @ k.transpose(2, 3) / math.sqrt(D)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    p = scores.masked_fill(future, -math.inf).softmax(-1)
    return (p @ v).transpose(1, 2).reshape(B, T, H * D)


def forward_qkv(qkv, heads, kv_heads, head_dim):
    """The same with a row holding the heads of q, then of k, then of v: (B,T,(H+2KV)·D)."""
    parts = qkv.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], dim=-1)
    return forward(*(part.unflatten(-1, (-1, head_dim)) for part in parts))


def apply(p, c, name, x):
    q, k, v = (linear.apply(p, x, f"{name}.{part}.weight", f"{name}.{part}.bias") for part in "qkv")
    if c.qk_norm == "full":
        q, k = norm.apply(p, c, f"{name}.q_norm", q), norm.apply(p, c, f"{name}.k_norm", k)
    q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in (q, k, v))
    if c.qk_norm == "head":
        q, k = norm.apply(p, c, f"{name}.q_norm", q), norm.apply(p, c, f"{name}.k_norm", k)
    if c.position == "rope":
        q, k = position.rope(q, c.rope_theta), position.rope(k, c.rope_theta)
    mixed = residual.inner(p, c, name, forward(q, k, v))
    return linear.apply(p, mixed, f"{name}.o.weight", f"{name}.o.bias")
