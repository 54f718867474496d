"""A sum of two inputs, each times a learned number: y = a·x + b·z.

The value residual of ResFormer (Zhou et al. 2024, arXiv 2410.17897) mixes the first layer's values in this way;
nanochat (gpt.py, 92d63d4: resid_lambdas and x0_lambdas) the first block's input.
"""


def declare(name):
    return [(f"{name}.own", (1,)), (f"{name}.first", (1,))]


def apply(p, name, x, z):
    own, first = p[f"{name}.own"], p[f"{name}.first"]
    y = own * x + first * z

    def terms(dy):
        pairs = (f"{name}.own", x), (f"{name}.first", z)
        return [(part, (dy * input.detach()).abs().sum().reshape(1)) for part, input in pairs]

    p.watch(y, terms)
    return y
