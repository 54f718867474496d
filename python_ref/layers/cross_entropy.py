"""Softmax cross-entropy.   logits (N,V)   targets (N) ints, -1 is ignored   losses (N), mean: a scalar"""

import torch


def forward(logits, targets):
    targets = targets.long()
    counted = targets >= 0
    picked = logits.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    losses = torch.where(counted, logits.logsumexp(-1) - picked, 0.0)
    return losses, losses.sum() / counted.sum()
