"""LayerNorm (Ba et al. 2016, arXiv 1607.06450) and RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467,
eq. 4), both over the last dimension, with eps inside the root and the biased variance.
"""


def declare(name, channels, bias):
    rows = [(f"{name}.gain", (channels,))]
    return rows + [(f"{name}.bias", (channels,))] if bias else rows


def normalized(x, kind, eps):
    """-> xhat, 1/deviation"""
    centred = x - x.mean(-1, keepdim=True) if kind == "layernorm" else x
    r = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    return centred * r, r


def forward(x, gain, bias=None, kind="layernorm", eps=1e-5):
    y = normalized(x, kind, eps)[0] * gain
    return y if bias is None else y + bias


def uncancelled(x, gain, dy, kind, eps):
    """-> dx, dgain, dbias with every term made positive"""
    xhat, r = normalized(x, kind, eps)
    dxhat = (dy * gain).abs()
    dx = dxhat + xhat.abs() * (dxhat * xhat.abs()).mean(-1, keepdim=True)
    if kind == "layernorm":
        dx = dx + dxhat.mean(-1, keepdim=True)
    rows = tuple(range(x.dim() - 1))
    return r * dx, (dy * xhat).abs().sum(rows), dy.abs().sum(rows)


def apply(p, config, name, x):
    gain, bias = p[f"{name}.gain"], p.get(f"{name}.bias")
    y = forward(x, gain, bias, config.norm, config.norm_eps)

    def terms(dy):
        _, dgain, dbias = uncancelled(x.detach(), gain.detach(), dy, config.norm, config.norm_eps)
        return [(f"{name}.gain", dgain)] + ([] if bias is None else [(f"{name}.bias", dbias)])

    p.watch(y, terms)
    return y
