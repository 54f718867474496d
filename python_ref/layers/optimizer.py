"""PyTorch's AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) and clipping by the global norm."""

import torch


def adamw(tensors, lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1):
    """Tensors of two and more dimensions decay, vectors do not."""
    tensors = list(tensors)
    groups = [
        {"params": [t for t in tensors if t.dim() >= 2], "weight_decay": weight_decay},
        {"params": [t for t in tensors if t.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=(beta1, beta2), eps=eps)


def set_lr(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr


def clip(tensors, max_norm):
    """-> the norm before clipping. A limit of 0 turns clipping off."""
    return torch.nn.utils.clip_grad_norm_(list(tensors), max_norm if max_norm > 0 else float("inf")).item()
