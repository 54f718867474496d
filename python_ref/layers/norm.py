"""Normalizations, each as its paper writes it. x (..., C); gain, bias (C).

LayerNorm (Ba et al. 2016, arXiv 1607.06450) and RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467, eq. 4), both over
the last dimension, with eps inside the root and the biased variance. With a unit offset their gain is 1 + w (Gemma).
ScaleNorm (Nguyen & Salazar 2019, arXiv 1910.05895, eq. 5): g·x/‖x‖; C·eps is added to ‖x‖² (the paper has no eps).
BatchNorm (Ioffe & Szegedy 2015, arXiv 1502.03167): over all but the last dimension; running statistics as in PyTorch.
DyT (Zhu et al. 2025, arXiv 2503.10622) and Derf (Chen et al. 2025, arXiv 2512.10938): tanh(αx), erf(αx + s).
GatedNorm (Qiu et al. 2026, arXiv 2601.22966): v·σ(up SiLU(down v)) with v = RMSNorm(x), gain included.
"""

import math

import torch
import torch.nn.functional as F

SITES = {"norm_in": "in", "norm_inner": "inner", "norm_out": "out", "norm_sum": "sum", "final_norm": "final"}
PLAIN = {"nonparametric-layernorm": "layernorm", "simple-rmsnorm": "rmsnorm"}  # without a gain and a bias
KINDS = ("layernorm", "rmsnorm", "scalenorm", "batchnorm", "dyt", "derf", "gatednorm")
WITHOUT_BIAS = "rmsnorm", "scalenorm", "gatednorm"  # unless asked for
MORE = "alpha", "shift", "down", "up"  # parts of some kinds
MOMENTUM = 0.1


def at(c, name):
    """-> the kind of the norm called so, and whether it has a gain and a bias"""
    if name.endswith("streams.norm") and c.placement == "attnres":  # of the keys
        return "rmsnorm", c.norm_gain, False
    site = SITES.get(name.rpartition(".")[2])
    own = getattr(c, f"norm_{site}") if site else "same"
    if own == "same":
        return c.norm, c.norm_gain, c.norm_bias
    if own in PLAIN:
        return PLAIN[own], False, False
    return own, True, c.bias and own not in WITHOUT_BIAS


def is_gain(name):
    return name.endswith(".gain") and "norm" in name.split(".")[-2]


def is_output(name):
    """Whether the output of the norm goes on as it is, not through a matrix alone"""
    stream = ("norm_out", "norm_sum", "first_norm", "second_norm", "stream_norm", "embedding.norm")
    return name.endswith((*stream, "q_norm", "k_norm", "v_norm"))


def declare(name, channels, c):
    """[(name, shape), ...] of a norm of the config's kind at its site."""
    kind, has_gain, has_bias = at(c, name)
    if kind == "scalenorm":
        return [(f"{name}.gain", (1,))]
    rows = [(f"{name}.gain", (channels,))] * has_gain + [(f"{name}.bias", (channels,))] * has_bias
    of_kind = {"batchnorm": [("running_mean", channels), ("running_var", channels)],
               "dyt": [("alpha", 1)], "derf": [("alpha", 1), ("shift", 1)],
               "gatednorm": [("down", c.gated_norm_rank, channels), ("up", channels, c.gated_norm_rank)]}  # fmt: skip
    return rows + [(f"{name}.{part}", tuple(shape)) for part, *shape in of_kind.get(kind, [])]


def normalized(x, kind, eps, running=None):
    """-> xhat, 1/deviation. `running`: (mean, variance) to use instead of the batch's."""
    if kind == "scalenorm":
        r = 1 / torch.sqrt(x.square().sum(-1, keepdim=True) + x.shape[-1] * eps)
        return x * r, r
    over = tuple(range(x.dim() - 1)) if kind == "batchnorm" else (-1,)
    if running is not None:
        return (x - running[0]) / torch.sqrt(running[1] + eps), None
    centered = x if kind in ("rmsnorm", "gatednorm") else x - x.mean(over, keepdim=True)
    r = (centered.square().mean(over, keepdim=True) + eps).rsqrt()
    return centered * r, r


def squash(x, kind, alpha, shift=None):
    """-> f(u), f'(u) for u = αx + s"""
    if kind == "dyt":
        t = torch.tanh(alpha * x)
        return t, 1 - t.square()
    u = alpha * x + shift
    return torch.erf(u), 2 / math.sqrt(math.pi) * torch.exp(-u.square())


def gate(v, down, up):
    return torch.sigmoid(F.silu(v @ down.T) @ up.T)


def forward(
    x, gain, bias=None, kind="layernorm", eps=1e-5, *, unit_offset=False, alpha=None, shift=None, running=None,
    down=None, up=None,
):  # fmt: skip
    if kind in ("dyt", "derf"):
        y = squash(x, kind, alpha, shift)[0] * gain
    else:
        y = normalized(x, kind, eps, running)[0] * (gain + 1 if unit_offset else gain)
    y = y if bias is None else y + bias
    return y * gate(y, down, up) if kind == "gatednorm" else y


def moved(running_mean, running_var, x):
    """The running statistics after a training pass on x, with the unbiased variance."""
    rows = x.flatten(0, -2)
    mean, variance = rows.mean(0), rows.var(0, correction=1)
    return (1 - MOMENTUM) * running_mean + MOMENTUM * mean, (1 - MOMENTUM) * running_var + MOMENTUM * variance


def uncancelled_gate(v, dy, down, up):
    """-> the same of v, down and up"""
    a, open = v @ down.T, gate(v, down, up)
    sigmoid = torch.sigmoid(a)
    dz = (dy * v * open * (1 - open)).abs()
    da = dz @ up.abs() * (sigmoid + a * sigmoid * (1 - sigmoid)).abs()
    of_rows = {"up": (dz, F.silu(a)), "down": (da, v)}
    terms = {n: left.flatten(0, -2).T @ right.abs().flatten(0, -2) for n, (left, right) in of_rows.items()}
    return terms | {"v": (dy * open).abs() + da @ down.abs()}


def uncancelled(x, gain, dy, kind, eps, *, unit_offset=False, alpha=None, shift=None, bias=0, down=None, up=None):
    """-> {tensor: its gradient with every term made positive}, of x, gain, bias and the other tensors"""
    if kind == "gatednorm":
        terms = uncancelled_gate(forward(x, gain, bias, "rmsnorm", eps), dy, down, up)
        return terms | uncancelled(x, gain, terms["v"], "rmsnorm", eps)
    rows = tuple(range(x.dim() - 1))
    if kind in ("dyt", "derf"):
        f, slope = squash(x, kind, alpha, shift)
        du = (dy * gain * slope).abs()
        terms = {"x": alpha * du, "gain": (dy * f).abs().sum(rows), "bias": dy.abs().sum(rows)}
        return terms | {"alpha": (du * x.abs()).sum().reshape(1), "shift": du.sum().reshape(1)}
    xhat, r = normalized(x, kind, eps)
    dxhat = (dy * (gain + 1 if unit_offset else gain)).abs()
    if kind == "scalenorm":
        dx = dxhat + xhat.abs() * (dxhat * xhat.abs()).sum(-1, keepdim=True)
        return {"x": r * dx, "gain": (dy * xhat).abs().sum().reshape(1)}
    over = rows if kind == "batchnorm" else (-1,)
    dx = dxhat + xhat.abs() * (dxhat * xhat.abs()).mean(over, keepdim=True)
    if kind != "rmsnorm":
        dx = dx + dxhat.mean(over, keepdim=True)
    return {"x": r * dx, "gain": (dy * xhat).abs().sum(rows), "bias": dy.abs().sum(rows)}


def apply(p, c, name, x):
    """A norm of the model. BatchNorm updates its running statistics if p is training."""
    kind = at(c, name)[0]
    parts = {part: p[f"{name}.{part}"] for part in ("gain", "bias", *MORE) if f"{name}.{part}" in p}
    more = {k: parts[k] for k in MORE if k in parts}
    more["unit_offset"] = c.norm_unit_offset and "gain" in parts
    running = None
    if kind == "batchnorm":
        statistics = [p[f"{name}.running_mean"], p[f"{name}.running_var"]]
        if p.training:
            for old, new in zip(statistics, moved(*statistics, x.detach())):
                old.copy_(new)
        else:
            running = statistics
    gain = parts.get("gain", torch.ones((), dtype=x.dtype))
    y = forward(x, gain, parts.get("bias"), kind, c.norm_eps, running=running, **more)

    def terms(dy):
        fixed = {k: v.detach() if torch.is_tensor(v) else v for k, v in more.items()}
        fixed |= {"bias": parts["bias"].detach()} if kind == "gatednorm" and "bias" in parts else {}
        found = uncancelled(x.detach(), gain.detach(), dy, kind, c.norm_eps, **fixed)
        return [(f"{name}.{part}", found[part]) for part in parts]

    p.watch(y, terms)
    return y
