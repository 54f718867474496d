"""Compares GatedNorm of layers/norm.py with AXK2GatedRMSNorm of transformers 5.24 or newer.

    python python_ref/check_norms.py

The class computes its RMSNorm and its sigmoid in float32; so do both here. The twin itself is checked in float64 by the
reference files.
"""

import torch
from transformers.models.axk2.configuration_axk2 import AXK2Config
from transformers.models.axk2.modeling_axk2 import AXK2GatedRMSNorm

from layers import norm

torch.manual_seed(1)
worst = 0.0
for C, rank in (24, 16), (33, 3), (8, 1):
    config = AXK2Config(hidden_size=C, gated_norm_rank=rank, rms_norm_eps=1e-5)
    theirs = AXK2GatedRMSNorm(config)
    gain, down, up = theirs.norm.weight, theirs.mlp.fc1.weight, theirs.mlp.fc2.weight
    assert sum(p.numel() for p in theirs.parameters()) == C + 2 * rank * C  # no biases
    torch.nn.init.normal_(gain, mean=1, std=0.3)
    for matrix in (down, up):
        torch.nn.init.normal_(matrix, std=0.5)
    x, dy = torch.randn(2, 5, C, requires_grad=True), torch.randn(2, 5, C)
    results = []
    for y in (norm.forward(x, gain, None, "gatednorm", 1e-5, down=down, up=up), theirs(x)):
        results.append([y, *torch.autograd.grad(y, [x, gain, down, up], dy)])
    for a, b in zip(*results):
        worst = max(worst, ((a - b).norm() / b.norm()).item())
print(f"GatedNorm against transformers' AXK2GatedRMSNorm: {worst:.1e} relative at worst")
assert worst < 2e-6
