"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864, eq. 34), pairs (i, i + D/2).

x (B,T,H,D)   the pair i of the row at position t turns by the angle t · theta^(-2i/D)
"""

import torch


def rope(x, theta=10000.0, offset=0):
    T, D = x.shape[1], x.shape[3]
    frequency = theta ** (-2 * torch.arange(D // 2, dtype=torch.float64) / D)
    angle = torch.outer(offset + torch.arange(T, dtype=torch.float64), frequency)  # (T, D/2)
    cos, sin = (f(angle).to(x.dtype)[None, :, None, :] for f in (torch.cos, torch.sin))
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
