"""The diagnostics of layers/training/diagnostics.hpp, computed from their formulas.

Wraps the functions of this Python implementation to see their inputs and outputs while they run.
"""

import itertools
import math
from contextlib import contextmanager

import torch

from layers import attention, block, model, moe, norm, residual, streams


WITHOUT_OFFSET = ".scale.gain", ".head_scale.gain", ".qk.gain", ".hidden.gain", ".logits.gain", ".skip.gain"


def distribution(x):
    d = x - x.mean()
    variance = d.square().mean()
    return {
        "rms": x.square().mean().sqrt().item(),
        "max": x.abs().max().item(),
        "kurtosis": (d.pow(4).mean() / variance.square()).item() - 3,
    }


def attention_numbers(
    q, k, scale, cap, window, slopes, begins, sinks=None, relative=None, bidirectional=False
):
    """q (B,T,H,D)   k (B,T,KV,D)   -> entropy, max_logit"""
    assert begins is None or not bidirectional
    T, group = q.shape[1], q.shape[2] // k.shape[2]
    entropies, top = [], -math.inf
    for h in range(q.shape[2]):
        scores = torch.einsum("btd,bsd->bts", q[:, :, h], k[:, :, h // group])
        scores = scores / math.sqrt(q.shape[3]) if scale is None else scores * scale
        for t, b in itertools.product(range(T), range(len(q))):
            first = max(t + 1 - window if window else 0, 0 if begins is None else begins[b, t])
            last = min(T, t + (window or T)) if bidirectional else t + 1
            row, keys = scores[b, t, first:last], last - first
            if cap:
                row = cap * torch.tanh(row / cap)
            if slopes:
                row = row - slopes[h] * (t - torch.arange(first, last)).abs()
            if relative is not None:
                row = row + relative[b, h, t, first:last]
            top = max(top, row.max().item())
            if keys > 1:
                p = (row if sinks is None else torch.cat([row, sinks[h : h + 1]])).softmax(-1)[:keys]
                entropies.append(-(p * p.log()).sum(-1) / math.log(keys))
    return {"entropy": torch.stack(entropies).mean().item(), "max_logit": top}


@contextmanager
def replaced(module, name, make):
    """Replaces module.name by make(module.name) inside this context."""
    original = getattr(module, name)
    setattr(module, name, make(original))
    try:
        yield
    finally:
        setattr(module, name, original)


def look_inside(p, c, tokens, targets):
    """One pass, forward and backward -> [(layer or None, part, what, value), ...]"""
    rows, outputs_of_blocks, norms_in, norms_out, layer = [], [], {}, {}, [None]

    def see(part, numbers, suffix=""):
        names = part.split(".")
        where = (int(names[1]), ".".join(names[2:])) if names[0] == "block" else (None, part)
        rows.extend((*where, what + suffix, value) for what, value in numbers.items())

    def norm_apply(original):
        def apply(p, c, name, x):
            norms_in[name], y = x, original(p, c, name, x)
            norms_out[name] = y
            see(name, distribution(x), "_before")
            see(name, distribution(y), "_after")
            return y

        return apply

    def residual_apply(original):
        def apply(p, c, name, x, branch, *bottom):
            inputs, outputs = [], []

            def F(u):
                inputs.append(u)
                outputs.append(branch(u))
                return outputs[0]

            y = original(p, c, name, x, F, *bottom)
            added = norms_out.get(f"{name}.norm_out", outputs[0]) * p.get(residual.gain_name(c, name), 1)
            rule = residual.at(c, name).streams
            if rule == "sphere":
                added = y - x
            elif rule:
                x = x[..., 0, :] if rule == "dual" else norms_in.get(f"{name}.norm_in", inputs[0])
            skipped = c.skip_scale * p.get(f"{name}.skip.gain", 1) * x
            rms = added.square().mean().sqrt() / skipped.square().mean().sqrt()
            see(name, {"branch_ratio": rms.item()})
            return y

        return apply

    def attention_forward(original):
        def forward(q, k, v, *weights_of, **options):
            see(f"block.{layer[0]}.attention", attention_numbers(q, k, **options))
            return original(q, k, v, *weights_of, **options)

        return forward

    def router_losses(original):
        def losses(c, logits, chosen):
            E, name = c.experts, f"block.{layer[0]}.ffn"
            load = chosen.flatten().bincount(minlength=E).double() * E / chosen.numel()
            s = logits.softmax(-1)
            entropy = -(s * s.log()).sum(-1).mean() / math.log(E)
            see(f"{name}.router", {"entropy": entropy.item(), "max_load": load.max().item(), "dropped": 0})
            for i in range(E):
                see(f"{name}.expert.{i}", {"load": load[i].item()})
            return original(c, logits, chosen)

        return losses

    def block_apply(original):
        def apply(p, c, name, x, carried):
            layer[0] = len(outputs_of_blocks)
            y = original(p, c, name, x, carried)
            y.retain_grad()
            outputs_of_blocks.append(y)
            return y

        return apply

    def see_carry(original):
        def see_it(name, carry):
            sizes = carry.detach().abs()
            into, out_of = sizes.sum(-2).amax(-1).mean(), sizes.sum(-1).amax(-1).mean()
            see(name, {"carry_in": into.item(), "carry_out": out_of.item()})

        return see_it

    with replaced(norm, "apply", norm_apply), replaced(residual, "apply", residual_apply), replaced(
        attention, "forward", attention_forward
    ), replaced(block, "apply", block_apply), replaced(moe, "losses", router_losses), replaced(
        streams, "see_carry", see_carry
    ):
        (model.loss(p, c, tokens, targets) + sum(p.losses)).backward()
    for i, y in enumerate(outputs_of_blocks):
        dy = y.grad
        if residual.PLACEMENTS[c.placement].streams in streams.DEPTH:  # the sum that the next branch adds to
            y, dy = y[:, :, -1], dy[:, :, -1]
        see(f"block.{i}.stream", distribution(y) | {"grad_norm": dy.norm().item()})
        for s in range(y.shape[2] if y.dim() == 4 else 0):
            numbers = distribution(y[:, :, s]) | {"grad_norm": dy[:, :, s].norm().item()}
            see(f"block.{i}.stream.{s}", numbers)
    for name, w in p.trained().items():
        see(name, {"grad_norm": w.grad.norm().item()})
        if name.endswith((".alpha", ".shift", ".own", ".first", ".gate")):
            part, what = name.rsplit(".", 1)
            see(part, {what: w.item()})
        if name.endswith(".gain"):
            w = w + (c.norm_unit_offset and not name.endswith(WITHOUT_OFFSET))
            numbers = {"mean": w.mean(), "min": w.min(), "max": w.max(), "rms": w.square().mean().sqrt()}
            see(name[: -len(".gain")], {f"gain_{what}": value.item() for what, value in numbers.items()})
    return rows
