"""Linear: y = x wᵀ + b.     x (...,I)   weight (O,I)   bias (O) or None   y (...,O)"""


def forward(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def uncancelled(x, weight, dy):
    """-> dx, dweight, dbias with every term made positive"""
    x, dy = x.abs().flatten(0, -2), dy.abs().flatten(0, -2)
    return dy @ weight.abs(), dy.T @ x, dy.sum(0)


def apply(p, x, weight, bias=None):
    """Linear by the names of its parameters. A bias that is not in the table is absent."""
    y = forward(x, p[weight], p.get(bias))

    def terms(dy):
        _, dweight, dbias = uncancelled(x.detach(), p[weight].detach(), dy)
        return [(weight, dweight)] + ([(bias, dbias)] if bias in p else [])

    p.watch(y, terms)
    return y
