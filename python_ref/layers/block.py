"""A transformer block: an attention branch and a feed-forward branch."""

from layers import activation, attention, linear, residual


def declare_ffn(name, c):
    inputs = ["gate", "up"] if c.gated else ["up"]
    rows = [(f"{name}.{part}.weight", (c.hidden, c.channels)) for part in inputs]
    if c.bias:
        rows += [(f"{name}.{part}.bias", (c.hidden,)) for part in inputs]
    rows += [(f"{name}.down.weight", (c.channels, c.hidden))]
    return rows + [(f"{name}.down.bias", (c.channels,))] if c.bias else rows


def declare(name, c):
    rows = residual.declare(f"{name}.attention", c, attention.declare(f"{name}.attention", c))
    return rows + residual.declare(f"{name}.ffn", c, declare_ffn(f"{name}.ffn", c))


def ffn(p, c, name, x):
    up = linear.apply(p, x, f"{name}.up.weight", f"{name}.up.bias")
    if c.gated:
        gate = linear.apply(p, x, f"{name}.gate.weight", f"{name}.gate.bias")
        hidden = activation.gated(c.activation, gate, up)
    else:
        hidden = activation.FORWARD[c.activation](up)
    return linear.apply(p, hidden, f"{name}.down.weight", f"{name}.down.bias")


def apply(p, c, name, x):
    x = residual.apply(p, c, f"{name}.attention", x, lambda u: attention.apply(p, c, f"{name}.attention", u))
    return residual.apply(p, c, f"{name}.ffn", x, lambda u: ffn(p, c, f"{name}.ffn", u))
