"""How a model depends on its width and depth, compared with a base model.

mup: Yang et al. 2022, arXiv 2203.03466, table 8; completep: Dey et al. 2025, arXiv 2505.01618, table 1 with α = 1, and
for Adam's epsilon Mlodozeniec et al. 2025, arXiv 2512.22382, table 1; nugpt: Shigida, Hanin & Gromov 2026, arXiv
2604.27077, section 3.1. What these tables lack (norms after the sum, numbers per head, nugpt's epsilon) is derived in
layers/config/README.md. Factors are of AdamW.
"""

from layers import norm

NUMBERS = ".alpha", ".shift", ".own", ".first", ".gate", ".scale"
NUGPT = {  # powers of the width: of the rate and of the gradient
    "embedding.token.weight": (-0.5, 0), "head.weight": (-0.75, 0), ".weight": (-0.75, -0.5), ".hidden.gain": (0, -0.5),
    "head.logits.gain": (-0.5, 0.5), ".qk.gain": (-0.5, 0), ".rate": (-0.5, 0),
}


def of_nugpt(name):
    return next(powers for end, powers in NUGPT.items() if name.endswith(end))


def scales_depth(c):
    return c.parametrization in ("completep", "nugpt")


def m_n(c):
    """The width ratio"""
    return 1.0 if c.parametrization == "sp" else c.channels / c.base_channels


def m_l(c):
    """The depth ratio"""
    return c.layers / c.base_layers if scales_depth(c) else 1.0


def m_d(c):
    """The ratio of the head sizes: heads may grow in number or in size."""
    return 1.0 if c.parametrization == "sp" else m_n(c) * c.base_heads / c.heads


def logits(c):
    """Under FixNorm, the numbers of a row are m_N^-½ as large. Those of nGPT and its stream are, and have no alignment
    at the start: cosines fall as C^-½."""
    if c.parametrization == "nugpt":
        return m_n(c) ** 0.5
    return m_n(c) ** (-0.5 if c.fix_norm else -1)


def branch(c):
    """Under nugpt, part of α."""
    return 1 / m_l(c)


def scores(c):
    """1/√D becomes √D₀/D, D₀ the head size of the base model."""
    return m_d(c) ** -0.5


def base_layer(c, layer):
    """The block of the base model at the relative depth of block `layer`."""
    return layer * c.base_layers // c.layers if scales_depth(c) else layer


def is_gain_of_scalenorm(c, name):
    norm_of, _, part = name.rpartition(".")
    return part == "gain" and "norm" in norm_of and norm.at(c, norm_of)[0] == "scalenorm"


def is_gate_of_norm(c, name, part):
    norm_of, _, leaf = name.rpartition(".")
    return leaf == part and "norm" in norm_of and norm.at(c, norm_of)[0] == "gatednorm"


def learning_rate(c, name, dims):
    if c.parametrization == "nugpt":
        return m_n(c) ** of_nugpt(name)[0]
    of_size = m_n(c) ** 0.5 if is_gain_of_scalenorm(c, name) else 1.0  # the gain is √C
    if is_gate_of_norm(c, name, "down"):
        return 1 / m_n(c)
    if is_gate_of_norm(c, name, "up") or name.endswith("streams.up"):
        return 1.0
    if "norm_sum." in name or name.endswith(("stream_mix.own", "stream_mix.first", "gpas.gate", ".skip.gain")):
        return of_size / m_l(c)  # acts on the whole stream in each block
    if c.placement == "attnres-normed" and name.endswith("streams.query"):  # its products have the factor C^-½
        return m_n(c) ** -0.5
    if dims == 2 and not name.startswith(("embedding.", "relative.", "head.weight")):
        return 1 / m_n(c)
    return of_size


def weight_decay(c, name, dims):
    """Table 1: λ·m_N for hidden weights, so that lr·λ stays."""
    return 1 / learning_rate(c, name, dims)


def epsilon(c, name, dims):
    """As the gradient: 1/m_N in what is as wide as the stream, 1/m_L behind the factor of a branch."""
    part = name.split(".", 2)[2] if name.startswith("block.") else name
    on_stream = "norm_sum." in part or part.startswith(("stream_mix.", "gpas.")) or part.endswith(".skip.gain")
    depth = m_l(c) if part != name and not on_stream else 1.0
    heads = c.heads / c.base_heads if c.parametrization != "sp" else 1.0
    if c.parametrization == "nugpt":
        return m_n(c) ** of_nugpt(name)[1] / depth
    if part.startswith("relative.") or part.endswith((".sinks", "head_scale.gain")):
        width = heads
    elif part.endswith("streams.query"):
        width = m_n(c) ** 0.5 if c.placement == "attnres-normed" else 1.0
    elif part == "head.bias" or "router." in part or part.endswith(NUMBERS) or is_gate_of_norm(c, part, "down"):
        width = 1.0
    elif is_gain_of_scalenorm(c, part):
        width = m_n(c) ** 0.5
    elif c.qk_norm in ("head", "qkv") and any(f".{x}_norm." in part for x in "qkv"):
        width = m_d(c)
    else:
        width = m_n(c)
    return 1 / (width * depth)
