"""A transformer block: an attention branch and a feed-forward branch, sequential or parallel. A decoder that reads an
encoder has a third branch between them: cross attention.

Parallel branches have two norms (GPT-NeoX, Black et al. 2022, arXiv 2204.06745, §2.1) or share one (PaLM, Chowdhery et
al. 2022, arXiv 2204.02311, §2).
"""

from layers import activation, attention, linear, mix, moe, ngpt, residual


def declare_ffn(name, c):
    if c.experts:
        return moe.declare(name, c)
    inputs = ["gate", "up"] if c.gated else ["up"]
    rows = linear.declare(name, c, dict.fromkeys(inputs, c.hidden), c.channels, c.bias)
    rows += [(f"{name}.hidden.gain", (c.hidden * len(inputs),))] * c.up_gain
    rows += residual.norm_rows(name, c, "norm_inner", c.hidden)
    return rows + linear.declare(name, c, {"down": c.channels}, c.hidden, c.bias)


def declare(name, c):
    rows = mix.declare(f"{name}.stream_mix") if c.stream_mix else []
    rows += residual.declare(f"{name}.attention", c, attention.declare(f"{name}.attention", c))
    if c.encoder:
        rows += residual.declare(f"{name}.cross", c, attention.declare(f"{name}.cross", c))
    rows += residual.declare(f"{name}.ffn", c, declare_ffn(f"{name}.ffn", c), c.block != "parallel-shared")
    placement = residual.PLACEMENTS[c.placement]
    rows += [(f"{name}.scale.gain", (1,))] * (placement.gain == "block")
    rows += [(f"{name}.gpas.gate", (1,))] * placement.gpas
    return rows + [(f"{name}.branch_warmup", (1,))] * (c.branch_warmup != "none")


def ffn(p, c, name, x):
    if c.experts:
        return moe.apply(p, c, name, x)
    up = linear.apply(p, x, f"{name}.up.weight", f"{name}.up.bias")
    gate = linear.apply(p, x, f"{name}.gate.weight", f"{name}.gate.bias") if c.gated else None
    if c.up_gain:
        gate, up = ngpt.hidden(p, c, name, gate, up)
    if c.gated:
        hidden = activation.gated(c.activation, gate, up)
    else:
        hidden = activation.FORWARD[c.activation](up)
    hidden = residual.inner(p, c, name, hidden)
    return linear.apply(p, hidden, f"{name}.down.weight", f"{name}.down.bias")


def apply(p, c, name, x, carried):
    """`carried` holds what crosses layers: the first block's input, the first layer's values, and what
    cross attention reads."""
    if c.stream_mix:
        x = mix.apply(p, f"{name}.stream_mix", x, carried["x"])

    def attend(u):
        return attention.apply(p, c, f"{name}.attention", u, carried)

    def look_up(u):
        return attention.cross(p, c, f"{name}.cross", u, carried["memory"])

    def feed_forward(u):
        return ffn(p, c, f"{name}.ffn", u)

    if c.block == "parallel":  # x + A + F, from x + A and x + F
        with_attention = residual.apply(p, c, f"{name}.attention", x, attend)
        return with_attention + residual.apply(p, c, f"{name}.ffn", x, feed_forward) - c.skip_scale * x
    if c.block == "parallel-shared":  # one branch for both; for placements with one norm and no gain
        return residual.apply(p, c, f"{name}.attention", x, lambda u: attend(u) + feed_forward(u))
    bottom = x if c.placement == "b2t" else None
    x = residual.apply(p, c, f"{name}.attention", x, attend)
    if c.encoder:
        x = residual.apply(p, c, f"{name}.cross", x, look_up)
    return residual.apply(p, c, f"{name}.ffn", x, feed_forward, bottom)
