"""Where the normalizations of a residual branch sit: each placement as its paper writes it.

x the residual stream, F the branch (attention or feed-forward), a the factor on the skip path,
n(part, z) the normalization of this branch named `part`, applied to z.
"""

from dataclasses import dataclass
from typing import Callable, Tuple

from layers import norm


@dataclass
class Placement:
    norms: Tuple[str, ...]  # of one branch
    formula: Callable
    final_norm: bool
    skip: Callable = lambda layers: 1.0


PLACEMENTS = {
    # Vaswani et al. 2017, arXiv 1706.03762, §3.1: "LayerNorm(x + Sublayer(x))"
    "post": Placement(("norm_sum",), lambda x, F, n, a: n("norm_sum", a * x + F(x)), False),
    # Radford et al. 2019 (GPT-2), §2.3: normalization moves to the input of each sub-block, and one more
    # comes after the last block. Xiong et al. 2020, arXiv 2002.04745, table 1.
    "pre": Placement(("norm_in",), lambda x, F, n, a: a * x + F(n("norm_in", x)), True),
    # Ding et al. 2021 (CogView), arXiv 2105.13290, Sandwich-LN: a second normalization ends each branch.
    # Kim et al. 2025 (Peri-LN), arXiv 2502.02732, is the same block.
    "sandwich": Placement(
        ("norm_in", "norm_out"), lambda x, F, n, a: a * x + n("norm_out", F(n("norm_in", x))), True
    ),
    # Wang et al. 2022 (DeepNet), arXiv 2203.00555, fig. 2 and §3: LN(α x + G(x)); decoder-only with M layers:
    # α = (2M)^(1/4)
    "deepnorm": Placement(
        ("norm_sum",),
        lambda x, F, n, a: n("norm_sum", a * x + F(x)),
        False,
        lambda layers: (2 * layers) ** 0.25,
    ),
    # OLMo 2 (2025), arXiv 2501.00656: h = x + Norm(Attention(x)), then h + Norm(MLP(h))
    "reordered": Placement(("norm_out",), lambda x, F, n, a: a * x + n("norm_out", F(x)), True),
    # He et al. 2015, arXiv 1512.03385, eq. 1, with nothing added.
    "none": Placement((), lambda x, F, n, a: a * x + F(x), False),
}
ALIASES = {"post-ln": "post", "pre-ln": "pre", "peri": "sandwich", "olmo2": "reordered"}


def deepnorm_beta(layers):
    """DeepNet's gain on v, o and the feed-forward matrices: β = (8M)^(-1/4), decoder-only."""
    return (8 * layers) ** -0.25


def declare(name, c, branch_rows):
    """Rows of the table in the order of the computation: norm_in, the branch, norm_out, norm_sum."""

    def rows(part):
        present = part in PLACEMENTS[c.placement].norms
        return norm.declare(f"{name}.{part}", c.channels, c) if present else []

    return rows("norm_in") + branch_rows + rows("norm_out") + rows("norm_sum")


def apply(p, c, name, x, branch):
    def n(part, z):
        return norm.apply(p, c, f"{name}.{part}", z)

    return PLACEMENTS[c.placement].formula(x, branch, n, c.skip_scale)
