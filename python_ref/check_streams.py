"""Compares mHC of layers/streams.py with DeepseekV4HyperConnection of transformers 5.23 or newer, and SiameseNorm with
the order in which its authors' block computes.

    python python_ref/check_streams.py

The class of mHC computes in float32; so do both there. The twin itself is checked in float64 by the reference files.
"""

import torch
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection

from config import Config
from layers import norm, residual, streams
from layers.parameters import Parameters

torch.manual_seed(1)
worst = 0.0
for S in (1, 2, 4):
    C = 24
    config = DeepseekV4Config(hidden_size=C, hc_mult=S, rms_norm_eps=1e-5)
    assert (config.hc_sinkhorn_iters, config.hc_eps) == (streams.SINKHORN_ROUNDS, streams.EPS)
    theirs = DeepseekV4HyperConnection(config)
    ours = {"weight": theirs.fn, "bias": theirs.base, "scale": theirs.scale}
    for parameter in ours.values():
        torch.nn.init.normal_(parameter, std=0.5)
    h, f = torch.randn(2, 5, S, C), torch.randn(2, 5, C)
    results = []
    for mine in (False, True):
        x = h.clone().requires_grad_()
        if mine:
            pre, post, comb = streams.mhc_coefficients(x, *ours.values(), config.rms_norm_eps)
            read = (pre[..., None] * x).sum(2)
        else:
            post, comb, read = theirs(x)
        y = post[..., None] * (read * f)[..., None, :] + comb.transpose(-1, -2) @ x  # DeepseekV4DecoderLayer
        gradients = torch.autograd.grad(y.square().sum(), [x, *ours.values()])
        results.append([y, read, post, comb, *gradients])
    for a, b in zip(*results):
        worst = max(worst, ((a - b).norm() / b.norm().clamp(min=1e-3)).item())
print(f"mHC against transformers' DeepseekV4HyperConnection: {worst:.1e} relative at worst")
assert worst < 5e-6


def siamese_here(p, c, x, branches):
    h = streams.enter(p, c, "siamese", x)
    for name, F in branches:
        h = residual.apply(p, c, name, h, F)
    return streams.leave(p, c, "siamese", h, lambda z: norm.apply(p, c, "final_norm", z))


def siamese_by_authors(p, c, x, branches):
    """deit-model-siamesenorm.py of Qwen-Applications/SiameseNorm, 70efa00: each branch first normalizes x, and one more
    norm of x comes at the end."""
    y, norms_of_x = x, ["streams.first_norm"] + [f"{name}.norm_sum" for name, _ in branches]
    for norm_of_x, (name, F) in zip(norms_of_x, branches):
        x = norm.apply(p, c, norm_of_x, x)
        u = x + norm.apply(p, c, f"{name}.streams.second_norm", y)
        z = F(norm.apply(p, c, f"{name}.norm_in", u))
        x, y = x + z / (2 * (int(name.split(".")[1]) + 1)) ** 0.5, y + z
    x = norm.apply(p, c, norms_of_x[-1], x) + norm.apply(p, c, "streams.second_norm", y)
    return norm.apply(p, c, "final_norm", x)


torch.set_default_dtype(torch.float64)
c = Config.from_options({"placement": "siamese", "layers": 3, "heads": 2, "channels": 8, "vocab-size": 5})
names = [f"block.{layer}.{branch}" for layer in range(3) for branch in ("attention", "ffn")]
parts = [f"{name}.{part}" for name in names for part in ("streams.second_norm", "norm_in", "norm_sum")]
p = Parameters()
for part in ["streams.first_norm", *parts, "streams.second_norm", "final_norm"]:
    for name, shape in norm.declare(part, c.channels, c):
        p[name] = torch.randn(shape, requires_grad=True)
matrices = [torch.randn(c.channels, c.channels) for _ in names]
branches = [(name, lambda u, W=W: torch.tanh(u @ W)) for name, W in zip(names, matrices)]
x = torch.randn(2, 5, c.channels, requires_grad=True)
results = []
for path in (siamese_here, siamese_by_authors):
    end = path(p, c, x, branches)
    results.append([end, *torch.autograd.grad(end.square().sum(), [x, *p.values()])])
worst = max(((a - b).norm() / b.norm()).item() for a, b in zip(*results))
print(f"SiameseNorm against the order of its authors' block: {worst:.1e} relative at worst")
assert worst < 1e-13
