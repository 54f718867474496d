"""Compares the streams of DeepSeek V4, GLM-5.3, HY V4 and Qwen 4 with their classes of transformers 5.24, SiameseNorm
with the order in which its authors' block computes, attention residuals with their authors' pseudocode and with the
model Inkling2 of transformers, nGPT with PyTorch's normalize and lerp, and Admin with the order in which its authors'
profiling pass computes.

    python python_ref/check_streams.py

Inkling2 computes in float32; so do both there. The twin itself is checked in float64 by the reference files.
"""

from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import torch
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as deepseek
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.glm5_next import modeling_glm5_next as glm
from transformers.models.glm5_next.configuration_glm5_next import Glm5NextTextConfig
from transformers.models.hy_v4 import modeling_hy_v4 as hy
from transformers.models.hy_v4.configuration_hy_v4 import HYV4Config
from transformers.models.inkling2.configuration_inkling2 import Inkling2TextConfig
from transformers.models.inkling2.modeling_inkling2 import Inkling2TextModel
from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen

from config import Config
from layers import ngpt, norm, residual, streams
from layers.parameters import Parameters

torch.manual_seed(1)


def names_of(layers):
    return [f"block.{layer}.{branch}" for layer in range(layers) for branch in ("attention", "ffn")]


def make_branches(C, layers):
    """Functions that stand for attention and feed-forward layers, in the order of a stack."""
    return [(name, lambda u, W=torch.randn(C, C): torch.tanh(u @ W)) for name in names_of(layers)]


def stack_here(p, c, x, branches):
    row = residual.PLACEMENTS[c.placement]
    h = streams.enter(p, c, row.streams, x)
    for name, F in branches:
        h = residual.apply(p, c, name, h, F)
    final_norm = lambda z: norm.apply(p, c, "final_norm", z) if c.final_norm else z  # noqa: E731
    return streams.leave(p, c, row.streams, row.end, h, final_norm)


def parameters_of(c, branches):
    rule, end = residual.PLACEMENTS[c.placement].streams, residual.PLACEMENTS[c.placement].end
    rows = streams.declare_last(c, rule, end) + (norm.declare("final_norm", c.channels, c) if c.final_norm else [])
    for name, _ in branches:
        rows += streams.declare(f"{name}.streams", c, rule) + residual.norm_rows(name, c, "norm_in")
    return Parameters({name: torch.randn(shape, requires_grad=True) for name, shape in rows})


# ---- mHC and independent hyper-connections ---------------------------------------------------------------------


class Stand(torch.nn.Module):
    """Stands for a layer of a model that is not compared. Layers of attention return several values."""

    def __init__(self, function, values=1):
        super().__init__()
        self.function, self.values = function, values

    def forward(self, hidden_states, **_):
        y = self.function(hidden_states)
        return y if self.values == 1 else (y,) + (None,) * (self.values - 1)


@contextmanager
def widened():
    """The classes cast to float32. Here they compute in float64."""
    cast = mock.patch.object(torch.Tensor, "float", torch.Tensor.double)
    with cast, mock.patch.object(torch, "float32", torch.float64):
        yield


def parts_of(family, config, c):
    """The modules of a model of transformers that compute the residual path, under our names."""
    module, prefix, _ = family
    connection, head = getattr(module, prefix + "HyperConnection"), getattr(module, prefix + "HyperHead")
    norm_class = getattr(module, prefix + "RMSNorm")
    parts = {"streams": head() if prefix.startswith("Glm") else head(config)}
    for name in names_of(c.layers):
        parts[f"{name}.streams"] = connection(config)
        parts[f"{name}.norm_in"] = norm_class(c.channels, c.norm_eps)
    return parts | {"final_norm": norm_class(c.channels, c.norm_eps)}


OURS = {"fn": "weight", "base": "bias", "scale": "scale", "hc_fn": "weight", "hc_base": "bias", "hc_scale": "scale"}


def stack_of_class(family, parts, c, x, branches):
    """What the model does with its layers, whose attention and experts are replaced, and with their output."""
    module, prefix, values = family
    kind = getattr(module, prefix + "DecoderLayer")
    h = x[:, :, None].expand(-1, -1, c.streams, -1).contiguous()
    for i in range(c.layers):
        layer = kind.__new__(kind)
        torch.nn.Module.__init__(layer)
        layer.block_type = "indexed_attention"  # of GLM
        layer.self_attn, layer.mlp = Stand(branches[2 * i][1], values), Stand(branches[2 * i + 1][1])
        attention, ffn = f"block.{i}.attention", f"block.{i}.ffn"
        layer.attn_hc, layer.input_layernorm = parts[f"{attention}.streams"], parts[f"{attention}.norm_in"]
        layer.ffn_hc, layer.post_attention_layernorm = parts[f"{ffn}.streams"], parts[f"{ffn}.norm_in"]
        h = layer.forward(h)
        h = h[0] if isinstance(h, tuple) else h
    return parts["final_norm"](parts["streams"](h))


torch.set_default_dtype(torch.float64)
FAMILIES = {  # and how many values attention returns
    "mhc-read": (deepseek, "DeepseekV4", 2),
    "mhc-mean": (glm, "Glm5NextText", 3),
    "hyper-independent": (hy, "HYV4", 3),
}
for settings in (DeepseekV4Config(), Glm5NextTextConfig()):
    assert (settings.hc_sinkhorn_iters, settings.hc_eps) == (streams.SINKHORN_ROUNDS, streams.EPS)
assert (HYV4Config().hc_magnitude, HYV4Config().hc_eps) == (2, streams.EPS)
for placement, family in FAMILIES.items():
    worst = 0.0
    for S in (1, 2, 4):
        c = Config.from_options(
            {"placement": placement, "layers": 3, "heads": 2, "channels": 8, "vocab-size": 5, "streams": S}
            | {"norm": "rmsnorm", "norm-eps": 0.5}  # without eps, gradients of the first read are rounding errors
        )
        config = SimpleNamespace(
            hidden_size=8, hc_mult=S, hc_eps=1e-6, hc_sinkhorn_iters=20, hc_magnitude=2.0, rms_norm_eps=0.5
        )
        branches = make_branches(8, 3)
        p = parameters_of(c, branches)
        parts, theirs = parts_of(family, config, c), {}
        for name, part in parts.items():
            for key, value in part.named_parameters():
                theirs[f"{name}.{OURS.get(key, 'gain')}"] = value
        assert theirs.keys() == p.keys()
        for name, value in theirs.items():
            value.data = p[name].detach().clone()
        x = torch.randn(2, 5, 8, requires_grad=True)
        end = stack_here(p, c, x, branches)
        ours = [end, *torch.autograd.grad(end.square().sum(), [x, *p.values()])]
        with widened():
            end = stack_of_class(family, parts, c, x, branches)
        assert end.dtype == torch.float64
        want = [end, *torch.autograd.grad(end.square().sum(), [x, *(theirs[name] for name in p)])]
        worst = max([worst] + [((a - b).norm() / b.norm().clamp(min=1e-3)).item() for a, b in zip(ours, want)])
    print(f"{placement} against the layers and the end of {family[1]}Model: {worst:.1e} relative at worst")
    assert worst < 1e-12


# ---- gated residual ----------------------------------------------------------------------------------------------


def gated_by_class(c, p, x, branches):
    """Qwen4ExpTextDecoderLayer, whose attention and experts are replaced, and the end of Qwen4ExpTextModel -> what p
    stands for there, and the end (B,T,C)"""
    S, C, r = c.streams, c.channels, c.gated_residual_rank
    config = SimpleNamespace(hidden_size=C, hc_count=S, hc_lowrank=r, rms_norm_eps=c.norm_eps)
    theirs, h = {}, x.repeat(1, 1, S)
    for name, F in branches + [("", None)]:
        part = f"{name}.streams".lstrip(".")
        module = qwen.Qwen4ExpTextGatedResidual(config, use_combine=F is not None)
        own = {name: p[f"{part}.{name}"].detach() for name in ("weight", "up")}
        module.input_mix_weight_down.weight.data, module.input_mix_weight_up.weight.data = own["weight"][:r], own["up"]
        gains = torch.cat([p[f"{part}.{s}.stream_norm.gain"].detach() for s in range(S)])
        module.hc_norm.weight.data = gains - 1
        theirs[f"{part}.weight"] = [module.input_mix_weight_down.weight]
        theirs[f"{part}.up"] = [module.input_mix_weight_up.weight]
        theirs[f"{part}.gains"] = [module.hc_norm.weight]
        if F is None:
            return theirs, module(h)
        module.block_inject_weight.weight.data = own["weight"][r:]
        theirs[f"{part}.weight"] += [module.block_inject_weight.weight]
        read, h, write = module(h)
        h = h + (F(read).unsqueeze(-2) * write.unsqueeze(-1)).flatten(-2)


worst = 0.0
for S in (2, 4):
    options = {"placement": "gated-residual", "layers": 3, "heads": 2, "channels": 8, "vocab-size": 5, "streams": S}
    c = Config.from_options(options | {"norm": "rmsnorm", "norm-eps": 1e-6, "gated-residual-rank": 3})
    branches = make_branches(8, 3)
    p = parameters_of(c, branches)
    x = torch.randn(2, 5, 8, requires_grad=True)
    end = stack_here(p, c, x, branches)
    ours = [end, *torch.autograd.grad(end.square().sum(), [x, *p.values()])]
    gradients = dict(zip(p, ours[2:]))
    with widened():
        theirs, end = gated_by_class(c, p, x, branches)
    flat = [x] + [value for values in theirs.values() for value in values]
    found = iter(torch.autograd.grad(end.square().sum(), flat))
    want, got = [end, next(found)], ours[:2]
    for name, values in theirs.items():
        want.append(torch.cat([next(found) for _ in values]))
        part = name.removesuffix(".gains")
        gains = [gradients[f"{part}.{s}.stream_norm.gain"] for s in range(S) if part != name]
        got.append(torch.cat(gains) if gains else gradients[name])
    assert sum(value.numel() for value in got[2:]) == sum(value.numel() for value in p.values())
    worst = max([worst] + [((a - b).norm() / b.norm()).item() for a, b in zip(got, want)])
print(f"gated-residual against Qwen4ExpTextGatedResidual: {worst:.1e} relative at worst")
assert worst < 1e-12


# ---- SiameseNorm ----------------------------------------------------------------------------------------------


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
for path in (stack_here, siamese_by_authors):
    end = path(p, c, x, branches)
    results.append([end, *torch.autograd.grad(end.square().sum(), [x, *p.values()])])
worst = max(((a - b).norm() / b.norm()).item() for a, b in zip(*results))
print(f"SiameseNorm against the order of its authors' block: {worst:.1e} relative at worst")
assert worst < 1e-13


# ---- attention residuals -------------------------------------------------------------------------------------


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
    paths = [lambda v: stack_here(p, c, v, branches), lambda v: attnres_by_authors(p, c, v, branches)]
    worst = max(worst, compare(paths, p, x))
print(f"attention residuals against their authors' pseudocode: {worst:.1e} relative at worst")
assert worst < 1e-12


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
        layer.self_attn, layer.mlp = Stand(branches[2 * i][1], 2), Stand(branches[2 * i + 1][1])
        layer.post_attention_convolution = layer.post_mlp_convolution = Stand(lambda y: y)
        layer.input_layernorm.weight = torch.nn.Parameter(p[f"{attention}.norm_in.gain"].detach())
        layer.post_attention_layernorm.weight = torch.nn.Parameter(p[f"{ffn}.norm_in.gain"].detach())
        if i > 0:
            layer.attention_input.query = torch.nn.Parameter(p[f"{attention}.streams.query"][0].detach())
        layer.mlp_input.query = torch.nn.Parameter(p[f"{ffn}.streams.query"][0].detach())
    theirs.final_input.query = torch.nn.Parameter(p["streams.query"][0].detach())
    theirs.norm.weight = torch.nn.Parameter(p["final_norm.gain"].detach())
    return theirs


def gradients_of_inkling(theirs):
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
    ours = stack_here(p, c, x, branches)
    end = theirs(inputs_embeds=y, use_cache=False).last_hidden_state
    ours.square().sum().backward()
    end.square().sum().backward()
    pairs = [(ours, end), (x.grad, y.grad)]
    pairs += [(p[name].grad.reshape(-1), want) for name, want in gradients_of_inkling(theirs).items()]
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
