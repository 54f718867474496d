"""Compares mHC of layers/streams.py with DeepseekV4HyperConnection of transformers 5.23 or newer.

    python python_ref/check_streams.py

The class computes in float32; so do both here. The twin itself is checked in float64 by the reference files.
"""

import torch
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection

from layers import streams

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
