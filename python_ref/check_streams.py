"""Compares mHC of layers/streams.py with DeepseekV4HyperConnection of transformers 5.23 or newer, SiameseNorm with the
order in which its authors' block computes, attention residuals with their authors' pseudocode and with the model
Inkling2 of transformers 5.24, nGPT with PyTorch's normalize and lerp, and Admin with the order in which its authors'
profiling pass computes.

    python python_ref/check_streams.py

The classes compute in float32; so do both there. The twin itself is checked in float64 by the reference files.
"""

import torch
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection
from transformers.models.inkling2.configuration_inkling2 import Inkling2TextConfig
from transformers.models.inkling2.modeling_inkling2 import Inkling2TextModel

from config import Config
from layers import ngpt, norm, residual, streams
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


# ---- attention residuals -------------------------------------------------------------------------------------


def make_branches(C, layers):
    """Functions that stand for attention and feed-forward layers, in the order of a stack."""
    names = [f"block.{layer}.{branch}" for layer in range(layers) for branch in ("attention", "ffn")]
    return [(name, lambda u, W=torch.randn(C, C): torch.tanh(u @ W)) for name in names]


def attnres_here(p, c, x, branches):
    rule = residual.PLACEMENTS[c.placement].streams
    h = streams.enter(p, c, rule, x)
    for name, F in branches:
        h = residual.apply(p, c, name, h, F)
    return streams.leave(p, c, rule, h, lambda z: norm.apply(p, c, "final_norm", z))


def parameters_of(c, branches):
    rule = residual.PLACEMENTS[c.placement].streams
    rows = streams.declare_last(c, rule) + norm.declare("final_norm", c.channels, c)
    for name, _ in branches:
        rows += streams.declare(f"{name}.streams", c, rule) + norm.declare(f"{name}.norm_in", c.channels, c)
    return Parameters({name: torch.randn(shape, requires_grad=True) for name, shape in rows})


def attnres_by_authors(p, c, x, branches):
    """forward and block_attn_res in the README of MoonshotAI/Attention-Residuals, for a whole stack. The first layer
    reads the embedding, which is then the first of the blocks. The authors end blocks between layers, and here a block
    may end after any branch."""

    def rms_norm(v, gain):
        return gain * v / torch.sqrt(v.square().mean(-1, keepdim=True) + c.norm_eps)

    def block_attn_res(blocks, partial, name):
        V = torch.stack(blocks + [partial])
        logits = torch.einsum("d, n b t d -> n b t", p[f"{name}.query"].squeeze(), rms_norm(V, p[f"{name}.norm.gain"]))
        return torch.einsum("n b t, n b t d -> b t d", logits.softmax(0), V)

    blocks, partial = [], x
    for place, (name, F) in enumerate(branches):
        h = block_attn_res(blocks, partial, f"{name}.streams") if place > 0 else partial
        if place % c.residual_block == 0:
            blocks, partial = blocks + [partial], None
        out = F(norm.apply(p, c, f"{name}.norm_in", h))
        partial = out if partial is None else partial + out
    return norm.apply(p, c, "final_norm", block_attn_res(blocks, partial, "streams"))


def compare(paths, p, x):
    results = []
    for path in paths:
        end = path(x)
        results.append([end, *torch.autograd.grad(end.square().sum(), [x, *p.values()])])
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(*results))


worst = 0.0
for block in (1, 2, 4, 6):
    c = Config.from_options(
        {"placement": "attnres", "layers": 5, "heads": 2, "channels": 8, "vocab-size": 5, "residual-block": block}
    )
    branches = make_branches(8, 5)
    p = parameters_of(c, branches)
    x = torch.randn(2, 5, 8, requires_grad=True)
    paths = [lambda v: attnres_here(p, c, v, branches), lambda v: attnres_by_authors(p, c, v, branches)]
    worst = max(worst, compare(paths, p, x))
print(f"attention residuals against their authors' pseudocode: {worst:.1e} relative at worst")
assert worst < 1e-12


class Stand(torch.nn.Module):
    """Stands for a layer of Inkling2 that is not compared."""

    def __init__(self, function, several=False):
        super().__init__()
        self.function, self.several = function, several

    def forward(self, hidden_states, **_):
        y = self.function(hidden_states)
        return (y, None) if self.several else y


def inkling(c, p, branches, block):
    """Inkling2TextModel with our parameters, whose attention, experts and convolutions are replaced."""
    config = Inkling2TextConfig(
        hidden_size=c.channels, num_hidden_layers=c.layers, num_attention_heads=2, num_key_value_heads=2, head_dim=4,
        swa_num_attention_heads=2, swa_num_key_value_heads=2, swa_head_dim=4, moe_intermediate_size=8,
        n_routed_experts=2, num_experts_per_tok=1, vocab_size=8, unpadded_vocab_size=8, pad_token_id=0,
        eos_token_id=None, layer_types=["hybrid_sliding"] * c.layers, n_layers_per_attn_res_block=block,
        rms_norm_eps=c.norm_eps,
    )  # fmt: skip
    theirs = Inkling2TextModel._from_config(config, attn_implementation="eager")
    for i, layer in enumerate(theirs.layers):
        attention, ffn = f"block.{i}.attention", f"block.{i}.ffn"
        layer.self_attn, layer.mlp = Stand(branches[2 * i][1], True), Stand(branches[2 * i + 1][1])
        layer.post_attention_convolution = layer.post_mlp_convolution = Stand(lambda y: y)
        layer.input_layernorm.weight = torch.nn.Parameter(p[f"{attention}.norm_in.gain"].detach())
        layer.post_attention_layernorm.weight = torch.nn.Parameter(p[f"{ffn}.norm_in.gain"].detach())
        if i > 0:
            layer.attention_input.query = torch.nn.Parameter(p[f"{attention}.streams.query"][0].detach())
        layer.mlp_input.query = torch.nn.Parameter(p[f"{ffn}.streams.query"][0].detach())
    theirs.final_input.query = torch.nn.Parameter(p["streams.query"][0].detach())
    theirs.norm.weight = torch.nn.Parameter(p["final_norm.gain"].detach())
    return theirs


def gradients_of_inkling(theirs, c):
    """In the names of layers/streams.py"""
    found = {"streams.query": theirs.final_input.query, "final_norm.gain": theirs.norm.weight}
    for i, layer in enumerate(theirs.layers):
        attention, ffn = f"block.{i}.attention", f"block.{i}.ffn"
        found |= {f"{attention}.norm_in.gain": layer.input_layernorm.weight}
        found |= {f"{ffn}.norm_in.gain": layer.post_attention_layernorm.weight}
        found |= {f"{attention}.streams.query": layer.attention_input.query} if i > 0 else {}
        found |= {f"{ffn}.streams.query": layer.mlp_input.query}
    return {name: weight.grad.reshape(-1) for name, weight in found.items()}


torch.set_default_dtype(torch.float32)
worst = 0.0
for block in (1, 2, 3):  # layers
    c = Config.from_options(
        {"placement": "attnres-normed", "layers": 5, "heads": 2, "channels": 8, "vocab-size": 8, "norm": "rmsnorm"}
        | {"residual-block": 2 * block, "norm-eps": 1e-6}
    )
    branches = make_branches(8, 5)
    p = parameters_of(c, branches)
    theirs = inkling(c, p, branches, block)
    x = torch.randn(2, 5, 8, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    ours = attnres_here(p, c, x, branches)
    end = theirs(inputs_embeds=y, use_cache=False).last_hidden_state
    ours.square().sum().backward()
    end.square().sum().backward()
    pairs = [(ours, end), (x.grad, y.grad)]
    pairs += [(p[name].grad.reshape(-1), want) for name, want in gradients_of_inkling(theirs, c).items()]
    assert len(pairs) == 2 + len(p)
    worst = max([worst] + [((a - b).norm() / b.norm()).item() for a, b in pairs])
print(f"attention residuals of norms against Inkling2TextModel: {worst:.1e} relative at worst")
assert worst < 5e-5


# ---- nGPT ------------------------------------------------------------------------------------------------------

torch.set_default_dtype(torch.float64)
options = {"placement": "ngpt", "qk-norm": "unit", "normed-weights": True, "heads": 2, "channels": 8, "vocab-size": 5}
c = Config.from_options(options)
normalize = torch.nn.functional.normalize
x, W = torch.randn(2, 5, c.channels, requires_grad=True), torch.randn(c.channels, c.channels)
q, k = (torch.randn(2, 5, c.heads, c.head_dim, requires_grad=True) for _ in "qk")
p = Parameters({"b.rate": torch.randn(8, requires_grad=True), "b.qk.gain": torch.randn(8, requires_grad=True)})
f, alpha = torch.tanh(x @ W), (0.05 * 8**0.5 * p["b.rate"]).abs()
factors = 8**0.5 * p["b.qk.gain"].view(c.heads, c.head_dim)
theirs = [normalize(torch.lerp(normalize(x, dim=-1), normalize(f, dim=-1), alpha), dim=-1)]
theirs += [factors * normalize(u, dim=-1) for u in (q, k)]
ours = [ngpt.step(p, c, "b", x, lambda u: torch.tanh(u @ W)), *ngpt.unit_heads(p, c, "b", q, k)]
weights = [torch.randn_like(y) for y in ours]
results = []
for ys in (theirs, ours):
    total = sum((w * y).sum() for w, y in zip(weights, ys))
    results.append([*ys, *torch.autograd.grad(total, [x, q, k, *p.values()], retain_graph=True)])
matrices = Parameters({"a.o.weight": torch.randn(8, 8), "a.q.weight": torch.randn(8, 8), "head.bias": torch.randn(5)})
wanted = [normalize(matrices[name], dim=dim) for name, dim in (("a.o.weight", 0), ("a.q.weight", 1))]
ngpt.normalize_weights(matrices, c)
results[0] += wanted
results[1] += [matrices["a.o.weight"], matrices["a.q.weight"]]
worst = max(((a - b).norm() / b.norm()).item() for a, b in zip(*results))
print(f"nGPT against PyTorch's normalize and lerp: {worst:.1e} relative at worst")
assert worst < 1e-13


# ---- Admin ---------------------------------------------------------------------------------------------------


def admin_by_authors(p, x, branches, profiles=False):
    """TransformerEncoderLayer of LiyuanLucasLiu/Transformer-Clinic, fairseq/modules/transformer_layer.py, for a whole
    stack. The profiling pass fills the gains of each branch with the ratio so far, and then changes the ratio."""
    ratio = 1.0
    for name, F in branches:
        residual, x = x, F(x)
        change = p[f"{name}.skip.gain"]
        if profiles:
            change.data.fill_(ratio)
            ratio = ((residual * change).var(correction=0) + x.var(correction=0)).sqrt().item()
        gain, bias = p[f"{name}.norm_sum.gain"], p[f"{name}.norm_sum.bias"]
        x = torch.nn.functional.layer_norm(x + residual * change, x.shape[-1:], gain, bias, eps=1e-12)
    return x


def admin_here(p, c, x, branches):
    for name, F in branches:
        x = residual.apply(p, c, name, x, F)
    return x


torch.set_default_dtype(torch.float64)
C, layers = 8, 4
c = Config.from_options(
    {"placement": "admin", "layers": layers, "heads": 2, "channels": C, "vocab-size": 5, "norm-eps": 1e-12}
)
branches = make_branches(C, layers)
p = Parameters()
for name, _ in branches:
    p[f"{name}.norm_sum.gain"] = torch.ones(C, requires_grad=True)
    p[f"{name}.norm_sum.bias"] = torch.zeros(C, requires_grad=True)
    p[f"{name}.skip.gain"] = torch.ones(C, requires_grad=True)
x = torch.randn(2, 5, C, requires_grad=True)
admin_by_authors(p, x, branches, profiles=True)
worst, y, squared = 0.0, x, x.var(correction=0)
for place, (name, F) in enumerate(branches):
    if place > 0:  # the square is the variance of the first input and of all branches so far
        worst = max(worst, (p[f"{name}.skip.gain"].square() / squared - 1).abs().max().item())
    squared = squared + F(y).var(correction=0)
    y = residual.apply(p, c, name, y, F)
print(f"Admin's gains against the sum of variances: {worst:.1e} relative at worst")
assert worst < 1e-10
for name in p:  # what training makes of them
    p[name] = (p[name] + 0.3 * torch.randn(C)).detach().requires_grad_()
paths = [lambda v: admin_here(p, c, v, branches), lambda v: admin_by_authors(p, v, branches)]
worst = compare(paths, p, x)
print(f"Admin against the order of its authors' layer: {worst:.1e} relative at worst")
assert worst < 1e-12
