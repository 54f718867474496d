"""Norm placements in a residual branch, each as its paper writes it.

x is the residual stream, F the branch (attention or feed-forward), a the factor on the skip path, l the number of the
block from 1. n(part, z) applies the branch's norm called `part` to z. g(z) is z times the learned gain of the branch.
norm_inner is inside F, before its last matrix.
"""

import math
from dataclasses import dataclass
from typing import Callable, Optional, Tuple

import parametrization
import torch
from layers import ngpt, norm, streams


@dataclass(frozen=True)
class Depths:
    """The depth of a stack, and of the one that it is read by or reads."""

    layers: int
    encoder: int = 0  # layers of the encoder that this stack reads
    decoder: int = 0  # layers of the decoder that reads this stack

    def alone(self):
        assert not self.encoder and not self.decoder, "the paper has no constants for an encoder and a decoder"
        return self.layers


def deepnorm_alpha(d):
    """DeepNet, fig. 2: decoder-only, encoder (N layers) and decoder (M layers)"""
    if d.decoder:
        return 0.81 * (d.layers**4 * d.decoder) ** (1 / 16)
    return ((3 if d.encoder else 2) * d.layers) ** 0.25


def deepnorm_beta(d):
    if d.decoder:
        return 0.87 * (d.layers**4 * d.decoder) ** (-1 / 16)
    return ((12 if d.encoder else 8) * d.layers) ** -0.25


def magneto_gamma(d):
    """Magneto, fig. 2"""
    if d.decoder:
        return math.sqrt(math.log(3 * d.decoder) * math.log(2 * d.layers) / 3)
    return math.sqrt(math.log((3 if d.encoder else 2) * d.layers))


@dataclass
class Placement:
    norms: Tuple[str, ...]  # the norms of one branch
    formula: Callable
    final_norm: bool
    skip: Callable = lambda depths: 1.0
    gain: Optional[str] = None  # per "channel" of each branch, or one per "block"
    matrices: Callable = lambda depths: 1.0  # initial factor of v, o and the feed-forward matrices
    gpas: bool = False  # a learned factor on the stream after each branch, one per block
    skip_gain: bool = False  # a learned gain on the skip path
    # several: "hyper" | "static" | "mhc" | "independent" | "gated" | "dual" | "siamese" | "depth" | "depth-normed";
    # one, on the "sphere"
    streams: str = ""
    end: str = "sum"  # of mixed streams, or their "mean", or a learned "read"


PLACEMENTS = {
    # Vaswani et al. 2017, arXiv 1706.03762, §3.1: "LayerNorm(x + Sublayer(x))"
    "post": Placement(("norm_sum",), lambda x, F, n, a, l, g: n("norm_sum", a * x + F(x)), False),
    # Radford et al. 2019 (GPT-2), §2.3: normalization moves to the input of each sub-block, and one more
    # comes after the last block. Xiong et al. 2020, arXiv 2002.04745, table 1.
    "pre": Placement(("norm_in",), lambda x, F, n, a, l, g: a * x + F(n("norm_in", x)), True),
    # Ding et al. 2021 (CogView), arXiv 2105.13290, Sandwich-LN: a second normalization ends each branch.
    # Kim et al. 2025 (Peri-LN), arXiv 2502.02732, is the same block.
    "sandwich": Placement(
        ("norm_in", "norm_out"), lambda x, F, n, a, l, g: a * x + n("norm_out", F(n("norm_in", x))), True
    ),
    # Wang et al. 2022 (DeepNet), arXiv 2203.00555, fig. 2 and §3: LN(α x + G(x))
    "deepnorm": Placement(
        ("norm_sum",),
        lambda x, F, n, a, l, g: n("norm_sum", a * x + F(x)),
        False,
        deepnorm_alpha,
        matrices=deepnorm_beta,
    ),
    # OLMo 2 (2025), arXiv 2501.00656: h = x + Norm(Attention(x)), then h + Norm(MLP(h))
    "reordered": Placement(("norm_out",), lambda x, F, n, a, l, g: a * x + n("norm_out", F(x)), True),
    # He et al. 2015, arXiv 1512.03385, eq. 1, with nothing added.
    "none": Placement((), lambda x, F, n, a, l, g: a * x + F(x), False),
    # Zeng et al. 2022 (GLM-130B), arXiv 2210.02414: DeepNorm(x) = LayerNorm(α x + Network(x)), α = (2N)^(1/2), and
    # ffn, v and out drawn with the factor (2N)^(-1/2)
    "glm-deepnorm": Placement(
        ("norm_sum",),
        lambda x, F, n, a, l, g: n("norm_sum", a * x + F(x)),
        False,
        lambda depths: math.sqrt(2 * depths.alone()),
        matrices=lambda depths: 1 / math.sqrt(2 * depths.alone()),
    ),
    # Chen & Wei 2026 (Keel), arXiv 2601.19895: LN(α x + F(LN(x))); here α is left to the user
    "pre-post": Placement(
        ("norm_in", "norm_sum"), lambda x, F, n, a, l, g: n("norm_sum", a * x + F(n("norm_in", x))), False
    ),
    # The same with Keel's α, the number of sublayers
    "keel": Placement(
        ("norm_in", "norm_sum"),
        lambda x, F, n, a, l, g: n("norm_sum", a * x + F(n("norm_in", x))),
        False,
        lambda depths: 2 * depths.alone(),
    ),
    # Zhuo et al. 2025 (HybridNorm), arXiv 2503.04598: Y = X + MHA(X), FFN(Norm(Y)) + Norm(Y), with norms of q, k and v
    # in MHA. Norm(Y) is the output of attention's branch here. See `at`.
    "hybridnorm": Placement((), None, True),
    "hybridnorm-star": Placement((), None, True),
    # Li et al. 2024, arXiv 2412.13795: the first ⌊aL⌋ layers are Post-LN, the others Pre-LN. See `at`.
    "mix-ln": Placement((), None, True),
    # Sun et al. 2025, arXiv 2502.05795: the output of each layer normalization times 1/√l
    "lns": Placement(("norm_in",), lambda x, F, n, a, l, g: a * x + F(n("norm_in", x) / math.sqrt(l)), True),
    # Wang et al. 2022 (Magneto), arXiv 2210.06423, §2.1: Pre-LN with a second norm before the output
    # matrix; v, out and ffn are multiplied by γ
    "sub-ln": Placement(
        ("norm_in", "norm_inner"),
        lambda x, F, n, a, l, g: a * x + F(n("norm_in", x)),
        True,
        matrices=magneto_gamma,
    ),
    # Touvron et al. 2021 (CaiT), arXiv 2103.17239, eq. 4: x + diag(λ) F(η(x))
    "layerscale": Placement(
        ("norm_in",), lambda x, F, n, a, l, g: a * x + g(F(n("norm_in", x))), True, gain="channel"
    ),
    # Bachlechner et al. 2020, arXiv 2003.04887, eq. 3: x + α F(x); the authors' layer has one α for both its branches
    "rezero": Placement((), lambda x, F, n, a, l, g: a * x + g(F(x)), False, gain="block"),
    # Takase et al. 2022 (B2T), arXiv 2206.00330, Post-LN whose feed-forward branch is LN(x_inp + x + FFN(x)),
    # with x_inp the input of the block; `apply` adds it. The authors' rescaling_init: weights by M^(-1/2),
    # with M the layers of the own stack
    "b2t": Placement(
        ("norm_sum",),
        lambda x, F, n, a, l, g: n("norm_sum", a * x + F(x)),
        False,
        matrices=lambda depths: depths.layers**-0.5,
    ),
    # Shleifer et al. 2021 (NormFormer), arXiv 2110.09456: x + LN(MHA(LN(x))), with a factor on each head, then
    # x + W2 LN(act(W1 LN(x))). The second branch is sub-ln's. See `at`.
    "normformer": Placement(
        ("norm_in", "norm_out"), lambda x, F, n, a, l, g: a * x + n("norm_out", F(n("norm_in", x))), True
    ),
    # Several streams, see layers/streams.py
    "hyper": Placement(("norm_in",), None, True, streams="hyper"),
    "hyper-static": Placement(("norm_in",), None, True, streams="static"),
    "mhc": Placement(("norm_in",), None, True, streams="mhc"),
    "resi-dual": Placement(("norm_sum",), None, True, streams="dual"),
    # Chen et al. 2025 (GPAS), arXiv 2506.22049: Pre-LN, and x ← x − SiLU(g)·sg(x) after each branch, sg the
    # stop-gradient; the authors' code has one g for both branches of a block
    "gpas": Placement(("norm_in",), lambda x, F, n, a, l, g: a * x + F(n("norm_in", x)), True, gpas=True),
    # Loshchilov et al. 2024 (nGPT), arXiv 2410.01131
    "ngpt": Placement((), None, False, streams="sphere"),
    "siamese": Placement(("norm_in", "norm_sum"), None, True, streams="siamese"),
    "attnres": Placement(("norm_in",), None, True, streams="depth"),
    "attnres-normed": Placement(("norm_in",), None, True, streams="depth-normed"),
    # Liu et al. 2020 (Admin), arXiv 2004.08249, §4: x_i = LN(b_i), b_i = ω_i ⊙ x_{i−1} + f_i(x_{i−1}). See `apply`.
    "admin": Placement(("norm_sum",), None, False, skip_gain=True),
    # DeepseekV4Model, Glm5NextTextModel and HYV4Model of transformers 5.24
    "mhc-read": Placement(("norm_in",), None, True, streams="mhc", end="read"),
    "mhc-mean": Placement(("norm_in",), None, True, streams="mhc", end="mean"),
    "hyper-independent": Placement(("norm_in",), None, True, streams="independent", end="read"),
    "gated-residual": Placement((), None, False, streams="gated", end="read"),  # Qwen4ExpTextModel
}
ALIASES = {"post-ln": "post", "pre-ln": "pre", "peri": "sandwich", "olmo2": "reordered"}


def block_of_base(c, name):
    return parametrization.base_layer(c, int(name.split(".")[1]))


def at(c, name):
    """The placement of a branch such as "block.3.attention", or of what is in it."""
    branch = name.split(".")[2]
    if c.placement == "hybridnorm-star" and block_of_base(c, name) == 0:
        return PLACEMENTS["pre"]
    if c.placement.startswith("hybridnorm"):
        return PLACEMENTS["none" if branch == "ffn" else "post"]
    if c.placement == "normformer" and branch == "ffn":
        return PLACEMENTS["sub-ln"]
    if c.placement == "sub-ln" and branch == "cross":  # as in the authors' code, which neither scales its matrices
        return PLACEMENTS["pre"]
    if c.placement != "mix-ln":
        return PLACEMENTS[c.placement]
    return PLACEMENTS["post" if block_of_base(c, name) < math.floor(c.mix_fraction * c.depths.layers) else "pre"]


def norm_rows(name, c, part, width=None):
    present = part in at(c, name).norms
    return norm.declare(f"{name}.{part}", width or c.channels, c) if present else []


def gain_name(c, name):
    """The gain of a branch: its own, its block's, or none."""
    owner = {"channel": name, "block": name.rpartition(".")[0]}.get(at(c, name).gain)
    return owner and f"{owner}.scale.gain"


def declare(name, c, branch_rows, enters=True):
    """Rows in the order of the computation: the mixing of streams, norm_in, the branch, norm_out, norm_sum, gain."""
    mixing = streams.declare(f"{name}.streams", c, at(c, name).streams)
    before = mixing + norm_rows(name, c, "norm_in") if enters else []
    behind = norm_rows(name, c, "norm_out") + norm_rows(name, c, "norm_sum")
    gain = [(f"{name}.scale.gain", (c.channels,))] if at(c, name).gain == "channel" else []
    gain += [(f"{name}.skip.gain", (c.channels,))] * at(c, name).skip_gain
    return before + branch_rows + behind + gain


def inner(p, c, name, z):
    """Applies norm_inner of a branch if there is one."""
    return norm.apply(p, c, f"{name}.norm_inner", z) if "norm_inner" in at(c, name).norms else z


def warmup(c, layer, updates):
    """The factor on the branches of a block. Chen et al. 2026 (ProRes), arXiv 2603.05369: min(t/(T·l), 1); Liu et al.
    2023 (BranchNorm), arXiv 2305.02790: min(t/T, 1)."""
    number = 1 + parametrization.base_layer(c, layer) if c.branch_warmup == "prores" else 1
    return min(updates / (c.branch_warmup_steps * number), 1)


def set_warmups(p, c, updates):
    for name in p:
        if name.endswith(".branch_warmup"):
            stack = c.encoder if name.startswith("encoder.") else c
            p[name].data.fill_(warmup(stack, int(name.split(".")[-2]), updates))


def scale_stream(p, name, s):
    """GPAS: the gradient of s is that of the result."""
    silu = torch.nn.functional.silu(p[name])
    y = s - silu * s.detach()

    def terms(dy):
        (slope,) = torch.autograd.grad(silu, p[name], retain_graph=True)
        return [(name, slope.abs() * (dy * s.detach()).abs().sum())]

    p.watch(y, terms)
    return y


def gained(p, weight, z):
    """z times a learned gain, which has a number for each channel or one for all"""
    y = p[weight] * z

    def terms(dy):
        dgain = (dy * z.detach()).abs().sum((0, 1))
        return [(weight, dgain if p[weight].numel() > 1 else dgain.sum(0, keepdim=True))]

    p.watch(y, terms)
    return y


def apply(p, c, name, x, branch, bottom=None):
    """`bottom`, the input of the block, joins the sum under b2t. The branch scale multiplies what the branch adds, and
    so does the factor of a warm-up."""
    placement = at(c, name)
    block = name.rpartition(".")[0]
    branch_scale = c.branch_scale * (p[f"{block}.branch_warmup"] if c.branch_warmup != "none" else 1)
    ends_in = "norm_out" if "norm_out" in placement.norms else "gain" if placement.gain else "branch"

    def scaled(part, z):
        return branch_scale * z if part == ends_in else z

    def F(u):
        return scaled("branch", branch(u))

    def n(part, z):
        z = bottom + z if part == "norm_sum" and bottom is not None else z
        return scaled(part, norm.apply(p, c, f"{name}.{part}", z))

    def g(z):
        return scaled("gain", gained(p, gain_name(c, name), z))

    if placement.skip_gain:
        return n("norm_sum", c.skip_scale * gained(p, f"{name}.skip.gain", x) + F(x))
    rule = placement.streams
    if rule == "sphere":
        return ngpt.step(p, c, f"{name}.streams", x, F)
    if rule == "dual":
        return streams.dual(c, x, F, lambda z: n("norm_sum", z))
    if rule == "siamese":
        l, ends = 1 + block_of_base(c, name), (lambda u: F(n("norm_in", u)), lambda z: n("norm_sum", z))
        return streams.siamese(p, c, f"{name}.streams", x, *ends, l)
    if rule == "gated":
        return streams.gated(p, c, f"{name}.streams", x, F)
    if rule in streams.DEPTH:
        return streams.depth(p, c, f"{name}.streams", x, lambda u: F(n("norm_in", u)), rule)
    if rule:
        rules = {"mhc": streams.mhc, "independent": streams.independent}
        mix = rules.get(rule, lambda *rest: streams.hyper(*rest, rule))
        return mix(p, c, f"{name}.streams", x, lambda u: F(n("norm_in", u)))
    y = placement.formula(x, F, n, c.skip_scale, 1 + block_of_base(c, name), g)
    return scale_stream(p, f"{block}.gpas.gate", y) if placement.gpas else y
