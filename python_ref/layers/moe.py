"""The mixture of experts: a router chooses k of E feed-forward layers for each token; shared ones take every token.

The router is Mixtral's (Jiang et al. 2024, arXiv 2401.04088, §2.1): a softmax over the k largest logits. Without
renormalization the weights are those of the softmax over all logits (OLMoE, arXiv 2409.02060). Two losses train it
beside the loss of the model: load balancing (Switch, Fedus et al. 2021, arXiv 2101.03961, eq. 4 to 6) and the z-loss
(ST-MoE, Zoph et al. 2022, arXiv 2202.08906, eq. 5).
"""

import torch
import torch.nn.functional as F

from layers import activation, linear, residual


def experts(name, c):
    routed = [f"{name}.expert.{i}" for i in range(c.experts)]
    return routed, [f"{name}.shared.{i}" for i in range(c.shared_experts)]


def declare(name, c):
    """The table's rows: router, the experts' input matrices, norm_inner, the experts' output matrices."""
    routed, shared = experts(name, c)
    rows = [(f"{name}.router.weight", (c.experts, c.channels))]
    rows += [(f"{name}.router.bias", (c.experts,))] if c.router_logit_bias else []
    for expert in routed + shared:
        inputs = ["gate", "up"] if c.gated else ["up"]
        rows += [(f"{expert}.{part}.weight", (c.hidden, c.channels)) for part in inputs]
        rows += [(f"{expert}.{part}.bias", (c.hidden,)) for part in inputs if c.bias]
    rows += residual.norm_rows(name, c, "norm_inner", c.hidden)
    for expert in routed + shared:
        rows += [(f"{expert}.down.weight", (c.channels, c.hidden))]
        rows += [(f"{expert}.down.bias", (c.channels,))] if c.bias else []
    return rows


def hidden(p, c, expert, x):
    up = linear.apply(p, x, f"{expert}.up.weight", f"{expert}.up.bias")
    if not c.gated:
        return activation.FORWARD[c.activation](up)
    return activation.gated(c.activation, linear.apply(p, x, f"{expert}.gate.weight", f"{expert}.gate.bias"), up)


def route(c, logits):
    """logits (N,E) -> p (N,E): the weights of the chosen experts, 0 for the others"""
    top, chosen = logits.topk(c.experts_per_token, dim=-1)
    weights = top.softmax(-1) if c.router_renormalize else logits.softmax(-1).gather(-1, chosen)
    return torch.zeros_like(logits).scatter(-1, chosen, weights), chosen


def losses(c, logits, chosen):
    share = F.one_hot(chosen, c.experts).to(logits.dtype).mean((0, 1))  # f, the share of all choices
    balance = c.experts * (share * logits.softmax(-1).mean(0)).sum()
    return c.router_loss * balance + c.router_z_loss * logits.logsumexp(-1).square().mean()


def apply(p, c, name, x):
    """-> y (B,T,C), and adds the router's losses to p.losses"""
    routed, shared = experts(name, c)
    flat = x.flatten(0, -2)
    logits = linear.apply(p, flat, f"{name}.router.weight", f"{name}.router.bias")
    weights, chosen = route(c, logits)
    p.losses.append(losses(c, logits, chosen))
    rows = [(weights[:, i] > 0).nonzero().flatten() for i in range(c.experts)]
    rows += [torch.arange(len(flat))] * c.shared_experts
    normed = residual.inner(p, c, name, torch.cat([hidden(p, c, e, flat[r]) for e, r in zip(routed + shared, rows)]))
    y = torch.zeros_like(flat)
    for i, (expert, r, m) in enumerate(zip(routed + shared, rows, normed.split([len(r) for r in rows]))):
        out = linear.apply(p, m, f"{expert}.down.weight", f"{expert}.down.bias")
        y = y.index_add(0, r, weights[r, i, None] * out if i < c.experts else out)
    return y.view_as(x)
