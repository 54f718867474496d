"""Several residual streams: hyper-connections, mHC, ResiDual and SiameseNorm, each as its paper writes it; attention
residuals as in their authors' pseudocode; independent hyper-connections, and the ends "mean" and "read" of streams, as
in the classes of transformers.

h (B,T,S,C) are the streams. F is the branch with its norm before it. Under attention residuals S grows: h are the
finished sums and the current one.
"""

import math

import torch

from layers import norm

SINKHORN_ROUNDS, EPS = 20, 1e-6
DEPTH = "depth", "depth-normed"
ONE = "", "sphere"


def see_carry(name, carry):
    """Gets what each row carries from stream to stream (B,T,S,S). Diagnostics replace it."""


def count(c, rule):
    return {"": 1, "sphere": 1, "dual": 2, "siamese": 2}.get(rule, c.streams)


def declare(name, c, rule):
    S, C = count(c, rule), c.channels
    if rule == "mhc":
        return declare_gates(name, c, [S, S, S * S])
    if rule == "independent":
        return declare_gates(name, c, [S, S])
    if rule == "gated":
        return declare_gated(name, c, c.gated_residual_rank + S)
    if rule == "siamese":
        return norm.declare(f"{name}.second_norm", C, c)
    if rule == "sphere":
        return [(f"{name}.rate", (C,))]
    if rule in DEPTH and number(name) > 0:
        return declare_query(name, c, rule)
    if rule not in ("hyper", "static"):
        return []
    rows = [(f"{name}.read", (S,)), (f"{name}.carry", (S * S,)), (f"{name}.write", (S,))]
    if rule == "static":
        return rows
    return rows + norm.declare(f"{name}.norm", C, c) + [(f"{name}.weight", (S + 2, C)), (f"{name}.scale", (2,))]


def declare_gates(name, c, parts):
    M = sum(parts)
    return [(f"{name}.weight", (M, c.streams * c.channels)), (f"{name}.bias", (M,)), (f"{name}.scale", (len(parts),))]


def declare_gated(name, c, rows):
    norms = [row for s in range(c.streams) for row in norm.declare(f"{name}.{s}.stream_norm", c.channels, c)]
    wide = c.streams * c.channels
    return norms + [(f"{name}.weight", (rows, wide)), (f"{name}.up", (wide, c.gated_residual_rank))]


def hyper(p, c, name, h, F, rule):
    """HyperConnection of Zhu et al. 2024, arXiv 2409.19606, appendix J: width_connection, F, depth_connection.

    alpha (S,S+1) is [A_m, A_r], beta (S) is B. The factor on the skip path is ours; it is 1 in the paper.
    """
    S = h.shape[2]
    read, carry, write = (p[f"{name}.{part}"] for part in ("read", "carry", "write"))
    static = torch.cat([read[:, None], carry.view(S, S), write[:, None]], 1)  # row s: A_m, A_r and B of stream s
    if rule == "static":
        both = static.expand(*h.shape[:2], S, S + 2)
    else:
        normed = norm.apply(p, c, f"{name}.norm", h)
        z = normed @ p[f"{name}.weight"].T
        s = p[f"{name}.scale"]
        scales = torch.cat([s[:1].expand(S + 1), s[1:]])
        both = scales * torch.tanh(z) + static
    alpha, beta = both[..., :-1], both[..., -1]
    see_carry(name, alpha[..., 1:])
    mix = alpha.transpose(-1, -2) @ h
    f = F(mix[..., 0, :])
    y = torch.einsum("btc,bts->btsc", f, beta) + c.skip_scale * mix[..., 1:, :]

    def terms_of(dboth, first):
        """Those of the coefficients from `first` on, from the absolute terms of their gradients (B,T,S,j)."""
        sums = dboth.sum((0, 1))
        rows = [(f"{name}.read", sums[:, 0]), (f"{name}.carry", sums[:, 1:].flatten())]
        rows = rows if first == 0 else [(f"{name}.write", sums[:, 0])]
        if rule == "static":
            return rows
        t = torch.tanh(z.detach())[..., first : first + dboth.shape[-1]]
        scale, weight = torch.zeros(2, dtype=t.dtype), torch.zeros(S + 2, h.shape[3], dtype=t.dtype)
        scale[int(first > 0)] = (dboth * t.abs()).sum()
        dz = dboth * s[int(first > 0)].detach().abs() * (1 - t.square())
        weight[first : first + t.shape[-1]] = torch.einsum("btsj,btsc->jc", dz, normed.detach().abs())
        return rows + [(f"{name}.scale", scale), (f"{name}.weight", weight)]

    p.watch(mix, lambda d: terms_of(torch.einsum("btjc,btsc->btsj", d.abs(), h.detach().abs()), 0))
    p.watch(y, lambda d: terms_of(torch.einsum("btsc,btc->bts", d.abs(), f.detach().abs())[..., None], S + 1))
    return y


def sinkhorn(a):
    """Doubly stochastic matrices from a (...,S,S), as in transformers' DeepseekV4HyperConnection."""
    m = torch.softmax(a, -1) + EPS
    m = m / (m.sum(-2, keepdim=True) + EPS)
    for _ in range(SINKHORN_ROUNDS - 1):
        m = m / (m.sum(-1, keepdim=True) + EPS)
        m = m / (m.sum(-2, keepdim=True) + EPS)
    return m


def gates(h, parts, weight, bias, scale, eps, watch=None):
    """scale·z + bias, split into parts, each with a scale of its own. z is a product of all streams, normalized."""
    x = h.flatten(-2)
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    z = x @ weight.T
    scales = torch.cat([scale[i : i + 1].expand(part) for i, part in enumerate(parts)])
    a = scales * z + bias
    if watch:
        watch(x, z, a, scales)
    return a.split(parts, -1)


def mhc_coefficients(h, weight, bias, scale, eps, watch=None):
    """Xie et al. 2025, arXiv 2512.24880, eq. 7 to 9 -> pre (...,S), post (...,S), comb (...,S,S) from stream to stream.

    The order of weight and bias, and EPS, are those of transformers' DeepseekV4HyperConnection. There comb is the
    transpose of the paper's matrix.
    """
    S = h.shape[-2]
    pre, post, comb = gates(h, [S, S, S * S], weight, bias, scale, eps, watch)
    return torch.sigmoid(pre) + EPS, 2 * torch.sigmoid(post), sinkhorn(comb.unflatten(-1, (S, S)))


def independent_coefficients(h, weight, bias, scale, eps, watch=None):
    """HYV4HyperConnection -> pre (...,S), post (...,S)"""
    S = h.shape[-2]
    pre, post = gates(h, [S, S], weight, bias, scale, eps, watch)
    return torch.sigmoid(pre) + EPS, 2 * torch.sigmoid(post) + EPS


def read_coefficients(h, weight, bias, scale, eps, watch=None):
    """DeepseekV4HyperHead, HYV4HyperHead -> pre (...,S)"""
    (pre,) = gates(h, [h.shape[-2]], weight, bias, scale, eps, watch)
    return torch.sigmoid(pre) + EPS


def watched(p, c, name, h, coefficients):
    weight, bias, scale = (p[f"{name}.{part}"] for part in ("weight", "bias", "scale"))
    S = h.shape[2]
    parts = [S, S, S * S][: len(scale)]

    def watch(x, z, a, scales):
        def terms(da):
            each = (da * z.detach()).abs().sum((0, 1))
            dz = (da * scales.detach()).abs()
            return [
                (f"{name}.bias", da.abs().sum((0, 1))),
                (f"{name}.scale", torch.stack([part.sum() for part in each.split(parts)])),
                (f"{name}.weight", torch.einsum("btk,bti->ki", dz, x.detach().abs())),
            ]

        p.watch(a, terms)

    return coefficients(h, weight, bias, scale, c.norm_eps, watch)


def mixed(h, weights):
    return (weights[..., None] * h).sum(2)


def mhc(p, c, name, h, F):
    pre, post, comb = watched(p, c, name, h, mhc_coefficients)
    see_carry(name, comb)
    f = F(mixed(h, pre))
    return post[..., None] * f[..., None, :] + c.skip_scale * comb.transpose(-1, -2) @ h


def independent(p, c, name, h, F):
    pre, post = watched(p, c, name, h, independent_coefficients)
    f = F(mixed(h, pre))
    return post[..., None] * f[..., None, :] + c.skip_scale * h


def gated_read(p, c, name, h):
    """Qwen4ExpTextGatedResidual, whose matrices input_mix_weight_down and block_inject_weight are one here -> (B,T,C),
    and what is left of z after the gates"""
    S, r = h.shape[2], c.gated_residual_rank
    weight, up = p[f"{name}.weight"], p[f"{name}.up"]
    v = torch.stack([norm.apply(p, c, f"{name}.{s}.stream_norm", h[..., s, :]) for s in range(S)], 2)
    z = v.flatten(-2) @ weight.T / S
    u = torch.nn.functional.silu(z[..., :r])
    a = u @ up.T
    wide = v.detach().flatten(-2).abs() / S
    p.watch(z, lambda dz: [(f"{name}.weight", torch.einsum("btk,bti->ki", dz.abs(), wide))])
    p.watch(a, lambda da: [(f"{name}.up", torch.einsum("bti,btr->ir", da.abs(), u.detach().abs()))])
    return (torch.sigmoid(a).unflatten(-1, (S, -1)) * v).mean(2), z[..., r:]


def gated(p, c, name, h, F):
    x, z = gated_read(p, c, name, h)
    return 2 * torch.sigmoid(z)[..., None] * F(x)[..., None, :] + c.skip_scale * h


def dual(c, h, F, norm_sum):
    """Xie et al. 2023, arXiv 2304.14802, and the authors' resi_dual_layers.py: x = LN(x + f), res = res + f."""
    x, res = h[..., 0, :], h[..., 1, :]
    f = F(x)
    return torch.stack([norm_sum(c.skip_scale * x + f), c.skip_scale * res + f], 2)


def siamese(p, c, name, h, F, norm_sum, l):
    """Li et al. 2026, arXiv 2602.08064, and Block of the authors' deit-model-siamesenorm.py. Their branch begins with
    the norm of the first stream; here that is norm_sum, the end of the branch before it."""
    x, y = h[..., 0, :], h[..., 1, :]
    z = F(x + norm.apply(p, c, f"{name}.second_norm", y))
    return torch.stack([norm_sum(c.skip_scale * x + z / math.sqrt(2 * l)), c.skip_scale * y + z], 2)


def number(name):
    """Of a branch, such as "block.3.ffn" with what is in it"""
    _, layer, branch = name.split(".")[:3]
    return 2 * int(layer) + (branch == "ffn")


def declare_query(name, c, rule):
    keys = norm.declare(f"{name}.norm", c.channels, c) if rule == "depth" else []
    return keys + [(f"{name}.query", (1, c.channels))]


def attend(p, c, name, v, rule):
    """block_attn_res in the README of MoonshotAI/Attention-Residuals (Kimi Team 2026, arXiv 2603.15031): V = v, K =
    norm(V), softmax of the products of K with a query over the sources, and the mean of V. `depth-normed`:
    Inkling2BlockAttentionResidual of transformers. v (B,T,K,C) -> (B,T,C)"""
    w, C = p[f"{name}.query"][0], c.channels
    normed = norm.normalized(v, "rmsnorm", c.norm_eps)[0]
    gain = p.get(f"{name}.norm.gain", torch.ones((), dtype=v.dtype))
    gain = gain + 1 if c.norm_unit_offset and f"{name}.norm.gain" in p else gain
    scale, values = (1, v) if rule == "depth" else (C**-0.5, normed)
    keys = normed * gain
    weights = torch.softmax(scale * keys @ w, -1)
    h = torch.einsum("btk,btkc->btc", weights, values)

    def terms(dh):
        a = weights.detach()
        da = torch.einsum("btc,btkc->btk", dh.abs(), values.detach().abs())
        dz = scale * a * (da + (a * da).sum(-1, keepdim=True))
        dw = torch.einsum("btk,btkc->c", dz, keys.detach().abs())
        dgain = torch.einsum("btk,btkc->c", dz, normed.detach().abs()) * w.detach().abs()
        return [(f"{name}.query", dw[None])] + [(f"{name}.norm.gain", dgain)] * (f"{name}.norm.gain" in p)

    p.watch(h, terms)
    return h


def depth(p, c, name, v, F, rule):
    """The authors' forward: a branch that begins a block starts a new sum, another one adds to the last."""
    h = attend(p, c, name, v, rule) if number(name) > 0 else v[..., 0, :]
    f = F(h)[..., None, :]
    if number(name) % c.residual_block == 0:
        return torch.cat([v, f], 2)
    return torch.cat([v[:, :, :-1], c.skip_scale * v[:, :, -1:] + f], 2)


def declare_first(c, rule):
    return norm.declare("streams.first_norm", c.channels, c) if rule == "siamese" else []


def declare_last(c, rule, end):
    if rule in DEPTH:
        return declare_query("streams", c, rule)
    if rule == "gated":
        return declare_gated("streams", c, c.gated_residual_rank)
    if end == "read":
        return declare_gates("streams", c, [c.streams])
    return norm.declare("streams.second_norm", c.channels, c) if rule == "siamese" else []


def enter(p, c, rule, x):
    """Each stream starts as a copy. The first of SiameseNorm goes through the norm of the first branch."""
    if rule == "siamese":
        return torch.stack([norm.apply(p, c, "streams.first_norm", x), x], 2)
    if rule in DEPTH:
        return x[:, :, None]
    return x if rule in ONE else x[:, :, None].expand(-1, -1, count(c, rule), -1)


def leave(p, c, rule, end, h, final_norm):
    """The sum of the streams, or their mean, or a learned read, normalized; of ResiDual the first stream plus the norm
    of the second, of SiameseNorm the norm of such a sum. Under attention residuals a mean as that of a branch."""
    if rule in DEPTH:
        return final_norm(attend(p, c, "streams", h, rule))
    if rule == "siamese":
        return final_norm(h[..., 0, :] + norm.apply(p, c, "streams.second_norm", h[..., 1, :]))
    if rule == "dual":
        return h[..., 0, :] + final_norm(h[..., 1, :])
    if rule in ONE:
        return final_norm(h)
    if rule == "gated":
        return final_norm(gated_read(p, c, "streams", h)[0])
    if end == "read":
        return final_norm(mixed(h, watched(p, c, "streams", h, read_coefficients)))
    return final_norm(h.mean(2) if end == "mean" else h.sum(2))
