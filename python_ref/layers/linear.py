"""Linear: y = x wᵀ + b.     x (...,I)   weight (O,I)   bias (O) or None   y (...,O)

A low-rank adapter (LoRA, Hu et al. 2021, arXiv 2106.09685, eq. 3) adds (alpha/r)·x aᵀ bᵀ.   a (r,I)   b (O,r)
"""


def forward(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def uncancelled(x, weight, dy):
    """-> dx, dweight, dbias with every term made positive"""
    x, dy = x.abs().flatten(0, -2), dy.abs().flatten(0, -2)
    return dy @ weight.abs(), dy.T @ x, dy.sum(0)


def declare(name, c, parts, inputs, biased):
    """Matrices with the same input. parts: {name: rows}"""
    rows = [(f"{name}.{part}.weight", (out, inputs)) for part, out in parts.items()]
    rows += [(f"{name}.{part}.bias", (out,)) for part, out in parts.items() if biased]
    for part, out in parts.items():
        if c.lora and part in c.lora_on.split(","):
            rows += [(f"{name}.{part}.lora_a", (c.lora, inputs)), (f"{name}.{part}.lora_b", (out, c.lora))]
    return rows


def adapted(p, x, name, y):
    """y, and what the adapter of the matrix adds if there is one"""
    a, b = f"{name}.lora_a", f"{name}.lora_b"
    if a not in p:
        return y
    scale = p.lora_alpha / p[a].shape[0]
    low = forward(x, p[a])
    added = scale * forward(low, p[b])
    p.watch(low, lambda d: [(a, uncancelled(x.detach(), p[a].detach(), d)[1])])
    p.watch(added, lambda d: [(b, scale * uncancelled(low.detach(), p[b].detach(), d)[1])])
    return y + added


def apply(p, x, weight, bias=None):
    """Linear by the names of its parameters. A bias that is not in the table is absent."""
    y = forward(x, p[weight], p.get(bias))

    def terms(dy):
        _, dweight, dbias = uncancelled(x.detach(), p[weight].detach(), dy)
        return [(weight, dweight)] + ([(bias, dbias)] if bias in p else [])

    p.watch(y, terms)
    return adapted(p, x, weight.removesuffix(".weight"), y)
