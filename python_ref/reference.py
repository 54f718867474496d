"""Writes test/reference: the results of every layer and of whole models, in float64 from float32 inputs.

    python python_ref/reference.py [--out test/reference] [--only optimizer]

<layer>/<case>.json holds "numbers" and "scales". <layer>/<case>.<tensor>.npy holds a tensor: inputs are float32,
integers int32, expected values float64. A scale is the norm of the gradient's uncancelled terms. The bytes are the same
every time on the same machine.
"""

import argparse
import json
import math
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F

from config import Config
from files import write_array, write_json
from layers import activation, attention, cross_entropy, diagnostics, embedding, linear
from layers import model, ngpt, norm, optimizer, position, residual
from layers.parameters import ENCODER, Parameters, Source

torch.set_num_threads(1)  # a fixed order of summation


class Case:
    """One case of one layer: draws inputs, collects tensors and numbers, and writes them."""

    def __init__(self, out, layer, name, draw=0, **numbers):
        self.path = out / layer / name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.random = np.random.default_rng(zlib.crc32(f"{layer}/{name}".encode() + b"again" * draw))
        self.numbers, self.scales = numbers, {}

    def write(self, tensor, value):
        write_array(f"{self.path}.{tensor}.npy", value)

    def floats(self, tensor, value):
        """Rounds an input to float32, writes it, and returns it in float64 with requires_grad."""
        value = np.asarray(value).astype(np.float32)
        self.write(tensor, value)
        return torch.from_numpy(value).double().requires_grad_()

    def normal(self, tensor, *shape, mean=0.0, deviation=1.0):
        return self.floats(tensor, mean + deviation * self.random.standard_normal(shape))

    def ints(self, tensor, value):
        value = np.asarray(value).astype(np.int32)
        self.write(tensor, value)
        return torch.from_numpy(value)

    def expect(self, **tensors):
        for name, value in tensors.items():
            value = value.detach()
            assert value.dtype == torch.float64 and value.isfinite().all(), name
            self.write(name, value.numpy())

    def gradient(self, name, value, uncancelled=None):
        self.expect(**{name: value})
        self.scales[name] = (value if uncancelled is None else uncancelled).detach().norm().item()

    def close(self, **more):
        text = {"numbers": self.numbers, "scales": self.scales} | more
        Path(f"{self.path}.json").write_text(json.dumps(text, indent=1) + "\n")


def same(got, want, tolerance=1e-12):
    """Self-check: compares our layer with PyTorch's function."""
    error = (got - want).norm().item()
    assert error <= tolerance * max(want.norm().item(), 1e-300), (error, want.norm().item())


def gradients(y, dy, *inputs):
    return torch.autograd.grad(y, inputs, dy, retain_graph=True)


def matrix(rnd, out, inputs):
    return math.sqrt(2 / (out + inputs)) * rnd.standard_normal((out, inputs))


# ---- layers ------------------------------------------------------------------------------------------------


def embedding_cases(out):
    for name in "learned", "token-only":
        B, T, V, C, Tctx = (3, 7, 11, 5, 9) if name == "learned" else (2, 17, 13, 33, 17)
        case = Case(out, "embedding", name, B=B, T=T, V=V, C=C, Tctx=Tctx)
        tokens = case.ints("tokens", case.random.integers(0, V - 2, (B, T)))  # repeats; two rows never used
        weight = case.normal("weight", V, C)
        table = case.normal("position", Tctx, C) if name == "learned" else None
        y = embedding.forward(tokens, weight, table)
        same(y, F.embedding(tokens, weight) + (0 if table is None else table[:T]))
        dout = case.normal("dout", B, T, C)
        case.expect(out=y)
        terms = embedding.uncancelled(tokens, dout, weight, table)
        case.gradient("dtoken", gradients(y, dout, weight)[0], terms[0])
        if table is not None:
            case.gradient("dposition", gradients(y, dout, table)[0], terms[1])
        case.close()


def unit_rows_cases(out):
    for V, C, deviation in (5, 33, 1.0), (40, 7, 0.01), (3, 128, 8.0):
        case = Case(out, "unit_rows", f"{V}x{C}", V=V, C=C)
        weight = case.normal("weight", V, C, deviation=deviation)
        unit, dunit = embedding.unit_rows(weight), case.normal("dunit", V, C)
        same(unit, weight / weight.norm(dim=1, keepdim=True))
        case.expect(unit=unit)
        terms = embedding.unit_uncancelled(weight.detach(), dunit.detach().abs())
        case.gradient("dweight", gradients(unit, dunit, weight)[0], terms)
        case.close()


def position_cases(out):
    for B, T, H, D in (2, 7, 3, 8), (1, 33, 2, 6):
        case = Case(out, "position", f"rope-d{D}", B=B, T=T, H=H, D=D, theta=10000.0)
        x, dy = case.normal("x", B, T, H, D), case.normal("dy", B, T, H, D)
        y = position.rope(x)
        # with complex numbers: the pair (i, i + D/2) is one number, multiplied by e^(i angle)
        turn = torch.polar(
            torch.ones(T, D // 2, dtype=torch.float64),
            torch.outer(torch.arange(T).double(), 10000 ** -(torch.arange(D // 2).double() / (D // 2))),
        )
        z = torch.complex(x[..., : D // 2], x[..., D // 2 :]) * turn[:, None, :]
        same(y, torch.cat([z.real, z.imag], -1))
        case.expect(y=y)
        case.gradient("dx", gradients(y, dy, x)[0])
        case.close()


def wiring_cases(out):
    """Partial RoPE, sinusoids, ALiBi's slopes."""
    B, T, H, D, fraction = 2, 9, 2, 10, 0.4
    case = Case(out, "wiring", "rope", B=B, T=T, H=H, D=D, theta=500.0, fraction=fraction)
    x, dy = case.normal("x", B, T, H, D), case.normal("dy", B, T, H, D)
    y = position.rope(x, 500.0, fraction=fraction)
    same(y, torch.cat([position.rope(x[..., :4], 500.0), x[..., 4:]], -1))
    case.expect(y=y)
    case.gradient("dx", gradients(y, dy, x)[0])
    case.close()

    T, C = 70, 9
    case = Case(out, "wiring", "sinusoids", T=T, C=C)
    weight = position.sinusoids(T, C)
    angle = torch.outer(torch.arange(T).double(), 1e4 ** (-torch.arange(0, C, 2).double() / C))
    same(weight[:, 0::2], torch.polar(torch.ones_like(angle), angle).imag)
    same(weight[:, 1::2], torch.polar(torch.ones_like(angle), angle).real[:, : C // 2])
    case.expect(weight=weight)
    case.close()

    case = Case(out, "wiring", "slopes", most=20)
    slopes = [torch.tensor(position.alibi_slopes(n), dtype=torch.float64) for n in range(1, 21)]
    same(slopes[7], 0.5 ** torch.arange(1, 9))  # "for 8 heads, the geometric sequence 1/2^1, 1/2^2, ..., 1/2^8"
    case.expect(slopes=torch.cat(slopes))
    case.close()


def scores_cases(out):
    """Attention with each option for its scores, alone and together."""
    for name, T, H, KV, D, cap, window, alibi, scale, sinks in [
        ("scale", 9, 2, 2, 6, 0, 0, False, 0.75, False),
        ("cap", 33, 2, 1, 6, 2, 0, False, 0.5, False),
        ("alibi", 70, 3, 3, 4, 0, 0, True, 0.5, False),
        ("window", 150, 2, 1, 4, 0, 70, False, 0.5, False),
        ("all", 90, 3, 1, 4, 1.5, 5, True, 0.75, False),
        ("sinks", 70, 4, 2, 6, 0, 0, False, 0.5, True),
        ("all-and-sinks", 150, 3, 1, 4, 1.5, 70, True, 0.75, True),
    ]:
        case = Case(out, "scores", name, T=T, H=H, KV=KV, D=D, cap=cap, window=window, alibi=int(alibi), scale=scale)
        qkv = case.normal("qkv", 1, T, (H + 2 * KV) * D, deviation=1.5)
        dout = case.normal("dout", 1, T, H * D)
        sinks = case.normal("sinks", H, deviation=2.0) if sinks else None
        slopes = position.alibi_slopes(H) if alibi else None
        options = {"scale": scale, "cap": cap, "window": window, "slopes": slopes}
        y = attention.forward_qkv(qkv, H, KV, D, **options, sinks=sinks)
        q, k, v = (u.unflatten(-1, (-1, D)).transpose(1, 2) for u in qkv.split([H * D, KV * D, KV * D], -1))
        bias = torch.full((H, T, T), -math.inf, dtype=torch.float64)  # key by key
        for t in range(T):
            for j in range(max(0, t + 1 - window) if window else 0, t + 1):
                bias[:, t, j] = torch.tensor(slopes or [0.0] * H, dtype=torch.float64) * (j - t)
        if sinks is not None:  # a key of zeros whose bias is the sink, and a value of zeros
            zero = torch.zeros_like(k[:, :, :1])
            k, v = torch.cat([k, zero], 2), torch.cat([v, zero], 2)
            bias = torch.cat([bias, sinks[:, None, None].expand(H, T, 1)], 2)
        if cap:  # PyTorch's function has no cap
            capped = cap * torch.tanh(scale / cap * q @ k.repeat_interleave(H // KV, 1).transpose(2, 3))
            theirs = (capped + bias).softmax(-1) @ v.repeat_interleave(H // KV, 1)
        else:
            theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=True)
        same(y, theirs.transpose(1, 2).flatten(2))
        case.expect(out=y)
        case.gradient("dqkv", gradients(y, dout, qkv)[0])
        if sinks is not None:
            q, k = (u.unflatten(-1, (-1, D)).transpose(1, 2) for u in qkv.split([H * D, KV * D, KV * D], -1)[:2])
            p = attention.weights(q, k.repeat_interleave(H // KV, 1), **options, sinks=sinks)
            products = (dout * y).abs().unflatten(-1, (H, D)).sum(-1).transpose(1, 2)  # (1,H,T)
            case.gradient("dsinks", gradients(y, dout, sinks)[0], ((1 - p.sum(-1)) * products).sum((0, 2)))
        case.close()


def norm_cases(out):
    for name, kind, has_bias, N, C, mean, deviation, eps in [
        ("layernorm-bias-5x33", "layernorm", True, 5, 33, 0, 1, 1e-5),
        ("layernorm-bias-offset-9x64", "layernorm", True, 9, 64, 3, 0.3, 1e-5),
        ("layernorm-bias-small-7x17", "layernorm", True, 7, 17, 0, 0.01, 1e-5),
        ("layernorm-3x7", "layernorm", False, 3, 7, 0, 1, 1e-5),
        ("layernorm-4x128", "layernorm", False, 4, 128, 0, 2, 1e-5),
        ("rmsnorm-5x33", "rmsnorm", False, 5, 33, 0, 1, 1e-5),
        ("rmsnorm-eps6-4x128", "rmsnorm", False, 4, 128, 0, 0.003, 1e-6),
        ("rmsnorm-bias-3x7", "rmsnorm", True, 3, 7, 0, 1, 1e-5),
        ("rmsnorm-bias-offset-9x64", "rmsnorm", True, 9, 64, 3, 0.3, 1e-5),
    ]:
        case = Case(out, "norm", name, N=N, C=C, eps=eps, rms=int(kind == "rmsnorm"), bias=int(has_bias))
        x = case.normal("x", N, C, mean=mean, deviation=deviation)
        gain = case.normal("gain", C, mean=1, deviation=0.3)
        bias = case.normal("bias", C, deviation=0.1) if has_bias else None
        dy = case.normal("dy", N, C)
        y = norm.forward(x, gain, bias, kind, eps)
        if kind == "layernorm":
            same(y, F.layer_norm(x, (C,), gain, bias, eps))
        else:
            same(y, F.rms_norm(x, (C,), gain, eps) + (bias if has_bias else 0))
        case.expect(y=y)
        terms = norm.uncancelled(x, gain, dy, kind, eps)
        case.gradient("dx", gradients(y, dy, x)[0], terms["x"])
        case.gradient("dgain", gradients(y, dy, gain)[0], terms["gain"])
        if has_bias:
            case.gradient("dbias", gradients(y, dy, bias)[0], terms["bias"])
        case.close()


def theirs_of_kind(kind, x, p, eps, offset):
    """The same with PyTorch's functions."""
    C, bias = x.shape[1], p.get("bias", 0)

    def gated(v):
        return v * F.linear(F.silu(F.linear(v, p["down"])), p["up"]).sigmoid()

    if kind == "batchnorm":
        running = [p[n].detach().clone() for n in ("running_mean", "running_var")]
        y = F.batch_norm(x, *running, p["gain"], p.get("bias"), True, 0.1, eps)
        same(torch.stack(running), torch.stack(norm.moved(p["running_mean"], p["running_var"], x.detach())))
        return y
    return {
        "layernorm": lambda: F.layer_norm(x, (C,), 1 + p["gain"], p.get("bias"), eps),
        "rmsnorm": lambda: F.rms_norm(x, (C,), 1 + p["gain"], eps) + bias,
        "scalenorm": lambda: F.rms_norm(x, (C,), (p["gain"] / math.sqrt(C)).expand(C), eps),
        "dyt": lambda: p["gain"] * torch.tanh(p["alpha"] * x) + bias,
        "derf": lambda: p["gain"] * torch.special.erf(p["alpha"] * x + p["shift"]) + bias,
        "gatednorm": lambda: gated(F.rms_norm(x, (C,), p["gain"], eps) + bias),
    }[kind]()


def norm_kinds_cases(out):
    """The other kinds, and LayerNorm and RMSNorm with a unit offset."""
    for kind, has_bias, N, C, mean, deviation, eps in [
        ("layernorm", True, 5, 33, 0, 1, 1e-5),
        ("rmsnorm", False, 4, 17, 0.5, 1, 1e-6),
        ("scalenorm", False, 5, 33, 0, 1, 1e-5),
        ("scalenorm", False, 9, 16, 3, 0.3, 0.1),
        ("scalenorm", False, 3, 7, 0, 0.003, 1e-5),
        ("batchnorm", True, 33, 5, 0, 1, 1e-5),
        ("batchnorm", True, 70, 17, 3, 0.3, 1e-5),
        ("batchnorm", False, 7, 3, 0, 0.01, 1e-5),
        ("dyt", True, 5, 33, 0, 1, 0),
        ("dyt", False, 7, 17, 0, 0.01, 0),
        ("dyt", True, 3, 40, 0, 8, 0),
        ("derf", True, 5, 33, 0, 1, 0),
        ("derf", False, 7, 17, 0, 0.01, 0),
        ("derf", True, 3, 40, 0, 8, 0),
        ("gatednorm", False, 5, 33, 0, 1, 1e-5),
        ("gatednorm", True, 70, 17, 0.5, 2, 1e-5),
        ("gatednorm", False, 7, 40, 0, 0.003, 1e-5),
    ]:
        offset = kind in ("layernorm", "rmsnorm")
        name = f"{kind}-{N}x{C}" + ("-bias" if has_bias else "") + ("-offset" if offset else "")
        case = Case(out, "norm_kinds", name, N=N, C=C, eps=eps, bias=int(has_bias), offset=int(offset))
        x, dy = case.normal("x", N, C, mean=mean, deviation=deviation), case.normal("dy", N, C)
        c = Config(norm=kind, norm_bias=has_bias, norm_unit_offset=offset, layers=1, channels=C, heads=1)
        c.gated_norm_rank = 3  # as in the tests
        p = {}
        for row, shape in norm.declare("n", C, c):
            p[row[2:]] = case.floats(row[2:], start(case.random, c, row, shape))
        more = {"unit_offset": offset} | {k: p[k] for k in norm.MORE if k in p}
        y = norm.forward(x, p["gain"], p.get("bias"), kind, eps, **more)
        same(y, theirs_of_kind(kind, x, p, eps, offset))
        case.expect(y=y)
        terms = norm.uncancelled(x, p["gain"], dy, kind, eps, bias=p.get("bias", 0), **more)
        for tensor, value in {"x": x, **Parameters(p).trained()}.items():
            if not tensor.startswith("running"):
                case.gradient("d" + tensor, gradients(y, dy, value)[0], terms[tensor])
        if kind == "batchnorm":
            running = p["running_mean"], p["running_var"]
            evaluated = norm.forward(x, p["gain"], p.get("bias"), kind, eps, running=running)
            same(evaluated, F.batch_norm(x, *(r.detach() for r in running), p["gain"], p.get("bias"), False, 0.1, eps))
            mean_after, var_after = norm.moved(*running, x)
            case.expect(evaluated=evaluated, running_mean_after=mean_after, running_var_after=var_after)
        case.close()


def linear_cases(out):
    for N, I, O, biases in (1, 7, 5, (True, False)), (17, 33, 65, (True, False)), (33, 64, 48, (True,)):
        for has_bias in biases:
            name = f"{N}x{I}x{O}" + ("-bias" if has_bias else "")
            case = Case(out, "linear", name, N=N, I=I, O=O, bias=int(has_bias))
            x = case.normal("x", N, I)
            weight = case.floats("weight", matrix(case.random, O, I))
            bias = case.normal("bias", O, deviation=0.1) if has_bias else None
            dy = case.normal("dy", N, O)
            y = linear.forward(x, weight, bias)
            same(y, F.linear(x, weight, bias))
            case.expect(y=y)
            terms = linear.uncancelled(x, weight, dy)
            case.gradient("dx", gradients(y, dy, x)[0], terms[0])
            case.gradient("dweight", gradients(y, dy, weight)[0], terms[1])
            if has_bias:
                case.gradient("dbias", gradients(y, dy, bias)[0], terms[2])
            case.close()


def linear_bf16_cases(out):
    """PyTorch rounds the operands to bfloat16. Products, sums, the bias and its gradient are float64."""

    def rounded(t):
        return t.detach().to(torch.bfloat16).double()

    for N, I, O in (1, 7, 5), (17, 33, 65), (40, 130, 70):
        case = Case(out, "linear_bf16", f"{N}x{I}x{O}", N=N, I=I, O=O)
        x = case.normal("x", N, I)
        weight = case.floats("weight", matrix(case.random, O, I))
        bias = case.normal("bias", O, deviation=0.1)
        dy = case.normal("dy", N, O)
        x16, weight16, dy16 = rounded(x), rounded(weight), rounded(dy)
        case.expect(y=F.linear(x16, weight16, bias))
        terms = linear.uncancelled(x16, weight16, dy16)
        case.gradient("dx", dy16 @ weight16, terms[0])
        case.gradient("dweight", dy16.T @ x16, terms[1])
        case.gradient("dbias", dy.sum(0), linear.uncancelled(x, weight, dy)[2])
        case.close()


def attention_cases(out):
    for B, T, H, KV, D in (2, 7, 2, 2, 8), (1, 33, 4, 2, 8), (2, 17, 3, 1, 6), (1, 130, 2, 1, 16):
        case = Case(out, "attention", f"b{B}-t{T}-h{H}-kv{KV}-d{D}", B=B, T=T, H=H, KV=KV, D=D)
        qkv = case.normal("qkv", B, T, (H + 2 * KV) * D, deviation=1.5)
        dout = case.normal("dout", B, T, H * D)
        y = attention.forward_qkv(qkv, H, KV, D)
        q, k, v = (u.unflatten(-1, (-1, D)).transpose(1, 2) for u in qkv.split([H * D, KV * D, KV * D], -1))
        theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        theirs = theirs.transpose(1, 2).flatten(2)
        same(y, theirs)
        same(gradients(y, dout, qkv)[0], gradients(theirs, dout, qkv)[0])
        case.expect(out=y)
        case.gradient("dqkv", gradients(y, dout, qkv)[0])
        case.close()


def begins_of(*rows):
    """(B,T) where the example of each token begins, for rows of examples of these lengths."""
    return [[sum(row[:i]) for i, length in enumerate(row) for _ in range(length)] for row in rows]


def packed_attention_cases(out):
    """Rows of several examples: attention with a mask of blocks on the diagonal, the same as each example alone."""
    for name, rows, H, KV, D, cap, window, alibi, scale in [
        ("plain", ([1, 20, 3], [24]), 4, 2, 6, 0, 0, False, 0.4),
        ("tiles", ([1, 63, 64, 2], [66, 3, 61]), 2, 1, 4, 0, 0, False, 0.5),
        ("all", ([5, 65, 20], [90]), 3, 1, 4, 1.5, 9, True, 0.75),
    ]:
        numbers = {"cap": cap, "window": window, "alibi": int(alibi), "scale": scale}
        B, T = len(rows), sum(rows[0])
        case = Case(out, "packed_attention", name, B=B, T=T, H=H, KV=KV, D=D, **numbers)
        begins = case.ints("begins", begins_of(*rows))
        qkv = case.normal("qkv", B, T, (H + 2 * KV) * D, deviation=1.5)
        dout = case.normal("dout", B, T, H * D)
        options = {"scale": scale, "cap": cap, "window": window, "slopes": position.alibi_slopes(H) if alibi else None}
        y = attention.forward_qkv(qkv, H, KV, D, **options, begins=begins)
        alone = [
            attention.forward_qkv(part, H, KV, D, **options)
            for row, lengths in zip(qkv, rows)
            for part in row[None].split(list(lengths), dim=1)
        ]
        same(y.flatten(0, 1), torch.cat(alone, dim=1)[0])
        if name != "all":  # PyTorch's function with a mask
            q, k, v = (u.unflatten(-1, (-1, D)).transpose(1, 2) for u in qkv.split([H * D, KV * D, KV * D], -1))
            mask = (begins[:, :, None] == begins[:, None, :]).tril()[:, None]
            theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
            same(y, theirs.transpose(1, 2).flatten(2))
        case.expect(out=y)
        case.gradient("dqkv", gradients(y, dout, qkv)[0])
        case.close()


def cross_attention_cases(out):
    """Query t of row b sees the keys from[b,t], ..., to[b,t] - 1."""
    for name, rows, lengths, H, KV, D, cap, scale in [
        ("small", ([(3, 4), (2, 1)], [(5, 5)], [(1, 2)]), (7, 6), 4, 2, 6, 0, 0.4),
        ("tiles", ([(64, 66), (70, 63)], [(129, 3), (1, 127)]), (134, 130), 2, 1, 4, 0, 0.5),
        ("capped", ([(9, 70)], [(2, 3), (6, 60)]), (10, 70), 3, 1, 5, 1.5, 0.75),
    ]:
        (S, T), B = lengths, len(rows)
        case = Case(out, "cross_attention", name, B=B, T=T, S=S, H=H, KV=KV, D=D, cap=cap, scale=scale)
        _, _, first, end, _ = places_of(rows, S, T)
        first, end = case.ints("from", first), case.ints("to", end)
        q = case.normal("q", B, T, H, D, deviation=1.5)
        k, v = (case.normal(part, B, S, KV, D, deviation=1.5) for part in "kv")
        dout = case.normal("dout", B, T, H * D)
        place = torch.arange(S)
        seen = (first[..., None] <= place) & (place < end[..., None])
        y = attention.forward(q, k, v, attention.cross_weights, seen=seen, scale=scale, cap=cap)
        if not cap:
            heads = (u.transpose(1, 2) for u in (q, k, v))
            theirs = F.scaled_dot_product_attention(*heads, attn_mask=seen[:, None], scale=scale, enable_gqa=True)
            theirs = theirs.transpose(1, 2).flatten(2)
            same(y, theirs)
            for ours, wanted in zip(gradients(y, dout, q, k, v), gradients(theirs, dout, q, k, v)):
                same(ours, wanted)
        case.expect(out=y)
        for part, gradient in zip("qkv", gradients(y, dout, q, k, v)):
            case.gradient(f"d{part}", gradient)
        case.close()


def relative_attention_cases(out):
    """T5's buckets. `buckets` are those of the distances i - j from 1 - T to T - 1."""
    for name, rows, H, KV, D, count, farthest, bidirectional in [
        ("t5-encoder", ([7, 123], [130]), 2, 1, 4, 32, 128, True),
        ("t5-decoder", ([130],), 2, 2, 4, 32, 128, False),
        ("few", ([4, 9], [13]), 3, 1, 6, 6, 9, True),
        ("few-causal", ([4, 9], [13]), 4, 2, 5, 5, 7, False),
    ]:
        B, T, scale = len(rows), sum(rows[0]), 0.5
        numbers = {"buckets": count, "distance": farthest, "bidirectional": int(bidirectional), "scale": scale}
        case = Case(out, "relative_attention", name, B=B, T=T, H=H, KV=KV, D=D, **numbers)
        begins = case.ints("begins", begins_of(*rows))
        qkv, table = case.normal("qkv", B, T, (H + 2 * KV) * D), case.normal("table", count, H)
        dout = case.normal("dout", B, T, H * D)
        buckets = position.buckets(T, count, farthest, bidirectional)
        case.ints("buckets", torch.cat([buckets[0].flip(0)[:-1], buckets[:, 0]]))
        relative = table[buckets].permute(2, 0, 1).expand(B, -1, -1, -1)
        options = {"scale": scale, "relative": relative, "bidirectional": bidirectional, "begins": begins}
        y = attention.forward_qkv(qkv, H, KV, D, **options)
        q, k, v = (u.unflatten(-1, (-1, D)).transpose(1, 2) for u in qkv.split([H * D, KV * D, KV * D], -1))
        seen = begins[:, :, None] == begins[:, None, :]
        mask = relative.masked_fill(~(seen if bidirectional else seen.tril())[:, None], -math.inf)
        theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
        same(y, theirs.transpose(1, 2).flatten(2))
        case.expect(out=y)
        dqkv, dtable, dscores = gradients(y, dout, qkv, table, relative)
        terms = torch.zeros_like(table).index_add(0, buckets.flatten(), dscores.abs().sum(0).flatten(1).T)
        case.gradient("dqkv", dqkv)
        case.gradient("dtable", dtable, terms)
        case.close()


def activation_cases(out):
    theirs = {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}
    theirs |= {"relu2": lambda x: F.relu(x).square()}
    theirs |= {"silu": F.silu, "swiglu": F.silu, "geglu": F.gelu, "geglu-tanh": theirs["gelu-tanh"]}

    def spread(case, N, columns):
        """Values from -6 to 6 in random order, none of them 0, and a few at ±20."""
        x = np.linspace(-6, 6, N * columns) + 1e-3
        case.random.shuffle(x)
        x[[1, N * columns // 2]] = 20
        x[[0, N * columns // 3]] = -20
        return case.floats("x", x.reshape(N, columns))

    for name, forward in activation.FORWARD.items():
        case = Case(out, "activation", name, N=7, F=33)
        x, dy = spread(case, 7, 33), case.normal("dy", 7, 33)
        y = forward(x)
        same(y, theirs[name](x))
        case.expect(y=y)
        case.gradient("dx", gradients(y, dy, x)[0])
        case.close()
    limit = torch.tensor(7.0)
    theirs |= {"swiglu-clamped": lambda x: x.minimum(limit) * F.sigmoid(1.702 * x.minimum(limit))}
    for name in activation.GATE:
        case = Case(out, "activation", name, N=7, F=33)
        x, dy = spread(case, 7, 66), case.normal("dy", 7, 33)
        gate, up = x.chunk(2, dim=-1)
        y = activation.gated(name, gate, up)
        same(y, theirs[name](gate) * (1 + F.hardtanh(up, -7, 7) if name == "swiglu-clamped" else up))
        case.expect(y=y)
        case.gradient("dx", gradients(y, dy, x)[0])
        case.close()


def cross_entropy_cases(out):
    for name, N, V, ignored in ("v17", 9, 17, (2, 5)), ("v65", 33, 65, (0, 7, 8, 32)), ("v17-all", 7, 17, ()):
        case = Case(out, "cross_entropy", name, N=N, V=V)
        values = 2 * case.random.standard_normal((N, V))
        values[1, 3], values[3, 4], values[4, 5], values[6, :] = 50, -50, 50, values[6, :] + 50
        targets = case.random.integers(0, V, N)
        targets[1], targets[3], targets[4] = 3, 4, 6  # confident and right, unlikely, confident and wrong
        targets[list(ignored)] = -1
        logits, targets = case.floats("logits", values), case.ints("targets", targets)
        losses, mean = cross_entropy.forward(logits, targets)
        same(losses, F.cross_entropy(logits, targets.long(), ignore_index=-1, reduction="none"))
        same(mean, F.cross_entropy(logits, targets.long(), ignore_index=-1))
        case.numbers |= {"counted": int((targets >= 0).sum()), "mean": mean.item()}
        case.expect(losses=losses)
        case.gradient("dlogits", torch.autograd.grad(mean, logits)[0])
        case.close()

    case = Case(out, "cross_entropy", "z-loss", N=9, V=17, z_loss=0.1, counted=8)
    logits = case.normal("logits", 9, 17, mean=1.0, deviation=2.0)
    targets = case.ints("targets", [3, 0, 16, -1, 5, 5, 9, 2, 11])
    losses, mean = cross_entropy.forward(logits, targets)
    z = torch.logsumexp(logits[targets >= 0], dim=1)
    case.numbers["mean"] = mean.item()
    case.expect(losses=losses)
    case.gradient("dlogits", torch.autograd.grad(mean + 0.1 * (z * z).mean(), logits)[0])
    case.close()

    case = Case(out, "cross_entropy", "label-smoothing", N=9, V=17, smoothing=0.1, counted=8)
    logits = case.normal("logits", 9, 17, mean=1.0, deviation=2.0)
    targets = case.ints("targets", [3, 0, 16, -1, 5, 5, 9, 2, 11])
    losses, mean = cross_entropy.forward(logits, targets)
    smoothed = F.cross_entropy(logits, targets.long(), ignore_index=-1, label_smoothing=0.1)
    case.numbers["mean"] = mean.item()
    case.expect(losses=losses)
    case.gradient("dlogits", torch.autograd.grad(smoothed, logits)[0])
    case.close()


# The shapes are wide, tall, square and a vector, which Muon does not take.
MUON = {"momentum": 0.95, "nesterov": True, "weight_decay": 0.1}
RULES = [
    ("sgd", "sgd", {"momentum": 0.9, "nesterov": False, "weight_decay": 0.1}),
    ("nesterov", "sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("lion", "lion", {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}),
    ("adamw-cautious", "adamw", {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.5, "cautious": True}),
    ("lion-cautious", "lion", {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.5, "cautious": True}),
    ("adafactor", "adafactor", {"weight_decay": 0.1}),
    ("adafactor-small", "adafactor", {"weight_decay": 0.1}, 3e-4),  # weights so small that their floor decides
    ("adafactor-cautious", "adafactor", {"weight_decay": 0.5, "cautious": True}),
    ("muon", "muon", MUON | {"scale": "spectral", "polynomials": "newton-schulz"}),
    ("muon-rms", "muon", MUON | {"scale": "rms", "polynomials": "newton-schulz"}),
    ("muon-plain", "muon", MUON | {"nesterov": False, "scale": "spectral", "polynomials": "newton-schulz"}),
    ("muon-polar-express", "muon", MUON | {"scale": "rms", "polynomials": "polar-express"}),
    ("muon-cautious", "muon",
     MUON | {"weight_decay": 0.5, "scale": "rms", "polynomials": "newton-schulz", "cautious": True}),
    ("normuon", "normuon", MUON | {"scale": "rms", "polynomials": "newton-schulz", "beta2": 0.95}),
]  # fmt: skip


# PyTorch's optimizers of some cases: what makes one, its precision, and how near the twin comes.
PYTORCH = {
    "sgd": (optimizer.sgd, torch.float64, 1e-12),
    "nesterov": (optimizer.sgd, torch.float64, 1e-12),
    "adafactor": (optimizer.adafactor, torch.float64, 1e-12),
    "adafactor-small": (optimizer.adafactor, torch.float64, 1e-12),
    "muon": (optimizer.muon, torch.float32, 2e-2),  # PyTorch orthogonalizes in bfloat16
    "muon-rms": (optimizer.muon, torch.float32, 2e-2),
}


def rule_case(out, name, kind, setting, deviation=1.0):
    Twin = optimizer.TWINS[kind]
    shapes, steps = [(4, 9), (11, 5), (6, 6)] + ([(7,)] if Twin.takes_vectors else []), 10
    numbers = {k: v for k, v in setting.items() if not isinstance(v, (str, bool))}
    case = Case(out, "optimizer", name, steps=steps, tensors=len(shapes), **numbers)
    lr = case.floats("lr", [0.01 * (1 + step % 3) for step in range(steps)]).tolist()
    sizes = [math.prod(shape) for shape in shapes]
    starts = case.normal("w", sum(sizes), deviation=deviation).detach()
    gradients = case.normal("g", steps, sum(sizes)).detach()
    after, state = [[] for _ in range(steps)], {}  # all tensors, one after the other
    for shape, w, g in zip(shapes, starts.split(sizes), gradients.split(sizes, dim=1)):
        w, g = w.reshape(shape), g.reshape(steps, *shape)
        twin, (make, precision, tolerance) = Twin(**setting), PYTORCH.get(name, (None, torch.float64, 0))
        copy = w.to(precision, copy=True).requires_grad_()
        theirs = make and make([copy], lr[0], **setting)
        for step in range(steps):
            w = twin.step(w, g[step], lr[step])
            after[step].append(w.flatten())
            if theirs:
                optimizer.set_lr(theirs, lr[step])
                copy.grad = g[step].to(precision)
                theirs.step()
                same(copy, w, tolerance)
        for slot, value in twin.state.items():
            state.setdefault(slot, []).append(value.flatten())
    case.expect(after=torch.stack([torch.cat(tensors) for tensors in after]))
    case.expect(**{slot: torch.cat(values) for slot, values in state.items()})
    case.close()


def optimizer_cases(out):
    shapes, steps = [(5, 7), (9,), (2, 3, 4)], 5
    setting = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
    case = Case(out, "optimizer", "adamw", steps=steps, tensors=len(shapes), **setting)
    lr = case.floats("lr", [1e-3, 3e-3, 1e-2, 5e-3, 1e-4]).tolist()
    w = [case.normal(f"w{i}", *shape).detach().requires_grad_() for i, shape in enumerate(shapes)]
    g = []
    for i, shape in enumerate(shapes):
        values = case.random.standard_normal((steps, *shape))
        values[:, 0] *= 1e-9  # eps is not small compared to these
        values[:, 1] = 0  # as for a token that never occurs
        g.append(case.floats(f"g{i}", values).detach())
        case.numbers[f"decay{i}"] = int(len(shape) >= 2)
    adamw = optimizer.adamw(w, lr[0], **setting)
    history = {name: [[] for _ in shapes] for name in ("after", "m", "v")}
    for step in range(steps):
        optimizer.set_lr(adamw, lr[step])
        for i, tensor in enumerate(w):
            tensor.grad = g[i][step].clone()
        adamw.step()
        for i, tensor in enumerate(w):
            state = adamw.state[tensor]
            for name, value in ("after", tensor), ("m", state["exp_avg"]), ("v", state["exp_avg_sq"]):
                history[name][i].append(value.detach().clone())
    for name, tensors in history.items():
        for i, values in enumerate(tensors):
            case.expect(**{f"{name}{i}": torch.stack(values)})
    case.close()

    for rule in RULES:
        rule_case(out, *rule)

    for name, max_norm in ("clip", 1.0), ("clip-below", 100.0):
        case = Case(out, "optimizer", name, tensors=len(shapes), max_norm=max_norm)
        g = [case.normal(f"g{i}", *shape).detach() for i, shape in enumerate(shapes)]
        w = [torch.zeros_like(t).requires_grad_() for t in g]
        for tensor, gradient in zip(w, g):
            tensor.grad = gradient.clone()
        case.numbers["norm"] = optimizer.clip(w, max_norm)
        same(torch.tensor(case.numbers["norm"]), torch.cat([t.flatten() for t in g]).norm(), 1e-6)
        case.expect(**{f"clipped{i}": tensor.grad for i, tensor in enumerate(w)})
        case.close()


# ---- the whole model ---------------------------------------------------------------------------------------

GPT = {
    "layers": 3, "heads": 4, "kv-heads": 4, "head-dim": 5, "channels": 20, "hidden": 27, "vocab-size": 29,
    "context": 16, "position": "learned", "activation": "gelu-tanh", "bias": True, "tied": True,
}  # fmt: skip
LLAMA = {
    "layers": 3, "heads": 4, "kv-heads": 2, "head-dim": 6, "channels": 24, "hidden": 21, "vocab-size": 31,
    "context": 16, "position": "rope", "activation": "swiglu", "bias": False, "tied": False,
}  # fmt: skip
SMALL = GPT | {"layers": 2, "channels": 12, "head-dim": 3, "hidden": 23, "vocab-size": 19}

TINY_GPT = GPT | {
    "layers": 2, "heads": 2, "kv-heads": 2, "head-dim": 3, "channels": 8, "hidden": 11, "vocab-size": 11, "context": 7,
}  # fmt: skip
TINY_LLAMA = LLAMA | {"layers": 2, "channels": 10, "head-dim": 4, "hidden": 7, "vocab-size": 11, "context": 7}
WIRED = {
    "placement": "pre", "layers": 2, "heads": 4, "kv-heads": 4, "head-dim": 4, "channels": 12, "hidden": 16,
    "vocab-size": 11, "context": 8, "position": "rope", "activation": "gelu-tanh", "bias": True, "tied": False,
}  # fmt: skip
MASKED = {"objective": "mlm", "head-transform": True}
NGPT = {"qk-norm": "unit", "up-gain": True, "logit-gain": True, "normed-weights": True}
LLAMA_LIKE = {"norm": "rmsnorm", "norm-bias": False, "bias": False}

# A norm without eps does not see the size of its input. The first branch reads copies of one stream, so that what it
# reads of each only changes the size: its gradients would be rounding errors.
LARGE_EPS = 0.5

# No encoder with a decoder
ONE_STACK = "glm-deepnorm", "keel", "siamese", "ngpt", "attnres", "attnres-normed", "gated-residual"
FIRST_PLACEMENTS = "post", "pre", "sandwich", "deepnorm", "reordered", "none"
MODELS = {
    f"{placement}-{kind}-{wiring}": options
    | {"placement": placement, "norm": kind, "norm-bias": wiring == "gpt" and kind == "layernorm"}
    for placement in FIRST_PLACEMENTS
    for kind in ("layernorm", "rmsnorm")
    for wiring, options in (("gpt", GPT), ("llama", LLAMA))
} | {
    "nanogpt": SMALL | {"placement": "pre", "activation": "gelu", "bias": False, "norm-bias": False},
    "post-relu-no-position-embedding-norm": SMALL
    | {"placement": "post", "activation": "relu", "position": "none", "embedding-norm": True},
    "pre-no-final-norm": SMALL
    | {"placement": "pre", "norm": "rmsnorm", "norm-bias": False, "final-norm": False},
    # heads wider than C/H, one key head, and every bias, also of the gate and of RMSNorm
    "reordered-head-dim-all-biases": SMALL
    | {"placement": "reordered", "norm": "rmsnorm", "norm-bias": True, "embedding-norm": True}
    | {"position": "rope", "activation": "swiglu", "heads": 3, "kv-heads": 1, "head-dim": 6, "tied": False},
    "deepnorm-final-norm": SMALL | {"placement": "deepnorm", "final-norm": True, "tied": False},
    "pre-ignored-targets": SMALL | {"placement": "pre"},
} | {
    f"{placement}-{kind}-{wiring}": options
    | {"placement": placement, "norm": kind, "norm-bias": wiring == "gpt" and kind == "layernorm"}
    | ({"mix-fraction": 0.5} if placement == "mix-ln" else {})
    | ({"streams": 4, "norm-eps": LARGE_EPS} if residual.PLACEMENTS[placement].streams else {})
    | ({"gated-residual-rank": 3} if placement == "gated-residual" else {})
    for placement in residual.PLACEMENTS
    if placement not in FIRST_PLACEMENTS
    for kind, wiring, options in [("layernorm", "gpt", TINY_GPT), ("rmsnorm", "llama", TINY_LLAMA)]
} | {
    f"{placement}-{block}-{wiring}": options | {"placement": placement, "norm": kind, "norm-bias": wiring == "gpt"}
    | {"block": block}
    for placement, block in [
        ("pre", "parallel"), ("pre", "parallel-shared"), ("layerscale", "parallel"), ("sandwich", "parallel"),
        ("lns", "parallel-shared"), ("sub-ln", "parallel-shared"),
    ]
    for kind, wiring, options in [("layernorm", "gpt", TINY_GPT), ("rmsnorm", "llama", TINY_LLAMA)]
} | {
    f"pre-qk-norm-{form}-{wiring}": options | {"placement": "pre", "norm": kind, "norm-bias": wiring == "gpt"}
    | {"qk-norm": form}
    for form in ("head", "full")
    for kind, wiring, options in [("layernorm", "gpt", TINY_GPT), ("rmsnorm", "llama", TINY_LLAMA)]
} | {  # the other norms with each placement that has one, alternating between the two wirings
    f"{placement}-{kind}": (TINY_LLAMA if (i + j) % 2 else TINY_GPT)
    | {"placement": placement, "norm": kind, "norm-bias": kind != "scalenorm"}
    | ({"mix-fraction": 0.5} if placement == "mix-ln" else {})
    | ({"gated-norm-rank": 3} if kind == "gatednorm" else {})
    for i, placement in enumerate(
        [p for p, r in residual.PLACEMENTS.items() if r.norms and not (r.streams or r.gpas or r.skip_gain)]
        + ["mix-ln", "gpas", "admin"]
    )
    for j, kind in enumerate(("scalenorm", "batchnorm", "dyt", "derf", "gatednorm"))
} | {
    "pre-layernorm-unit-offset": TINY_GPT | {"placement": "pre", "norm-unit-offset": True},
    "sandwich-rmsnorm-unit-offset": TINY_LLAMA
    | {"placement": "sandwich", "norm": "rmsnorm", "norm-bias": False, "norm-unit-offset": True},
    "none-derf-embedding-norm": TINY_GPT | {"placement": "none", "norm": "derf", "embedding-norm": True},
    "reordered-batchnorm-embedding-norm": TINY_GPT
    | {"placement": "reordered", "norm": "batchnorm", "embedding-norm": True},
} | {  # a kind of norm at each site
    f"norms-{name}": options
    for name, options in {
        "sandwich": TINY_GPT | {"placement": "sandwich", "norm-in": "rmsnorm", "norm-out": "simple-rmsnorm"}
        | {"norm-final": "scalenorm", "embedding-norm": True},
        "sub-ln": TINY_LLAMA | {"placement": "sub-ln", "norm": "rmsnorm", "norm-bias": False, "bias": True}
        | {"norm-in": "nonparametric-layernorm", "norm-inner": "dyt", "norm-final": "layernorm", "qk-norm": "head"},
        "mix-ln": TINY_LLAMA | {"placement": "mix-ln", "mix-fraction": 0.5, "norm-sum": "derf", "norm-in": "scalenorm"}
        | {"norm-bias": True},
        "unit-offset": TINY_GPT | {"placement": "sandwich", "norm-unit-offset": True, "norm-out": "rmsnorm"}
        | {"norm-in": "simple-rmsnorm"},
        "hyper": TINY_GPT | {"placement": "hyper", "streams": 2, "norm-in": "dyt", "norm-eps": LARGE_EPS},
        "gated": TINY_LLAMA | {"placement": "sandwich", "norm": "rmsnorm", "norm-bias": False, "qk-norm": "head"}
        | {"norm-in": "gatednorm", "norm-final": "gatednorm", "gated-norm-rank": 16},
        "gated-inner": TINY_GPT | {"placement": "sub-ln", "norm-inner": "gatednorm", "gated-norm-rank": 2}
        | {"experts": 3, "shared-experts": 1},
    }.items()
} | {  # twice to three times as wide and as deep as their base model
    f"{kind}-{name}": {"parametrization": kind, "base-channels": options["channels"] // 2, "base-layers": 1} | options
    for kind, name, options in [
        ("mup", "gpt", TINY_GPT | {"placement": "pre", "head-bias": True}),
        ("mup", "llama-qk-norm", TINY_LLAMA | LLAMA_LIKE | {"placement": "sandwich", "qk-norm": "head"}
         | {"base-heads": 1}),
        ("mup", "attnres", TINY_GPT | {"placement": "attnres", "norm": "scalenorm", "norm-bias": False}
         | {"residual-block": 3, "skip-scale": 0.7}),
        ("mup", "attnres-normed", TINY_LLAMA | LLAMA_LIKE | {"placement": "attnres-normed", "residual-block": 2}),
        ("mup", "scalenorm", TINY_GPT | {"placement": "pre", "norm": "scalenorm", "norm-bias": False}),
        ("mup", "gatednorm", TINY_GPT | {"placement": "post", "norm": "gatednorm", "gated-norm-rank": 3}),
        ("completep", "gatednorm", TINY_GPT | {"placement": "sandwich", "norm": "gatednorm", "gated-norm-rank": 2}),
        ("mup", "fix-norm", TINY_GPT | {"placement": "post", "fix-norm": True}),
        ("completep", "norms", TINY_GPT | {"placement": "pre-post", "norm-sum": "scalenorm"}),
        ("completep", "gpt", TINY_GPT | {"placement": "pre"}),
        ("completep", "gpas", TINY_GPT | {"placement": "gpas", "layers": 3}),
        ("completep", "admin", TINY_LLAMA | LLAMA_LIKE | {"placement": "admin", "layers": 3, "skip-scale": 0.7}),
        ("completep", "deepnorm", TINY_GPT | {"placement": "deepnorm"}),
        ("completep", "b2t-dyt", TINY_GPT | {"placement": "b2t", "norm": "dyt"}),
        ("completep", "lns-llama", TINY_LLAMA | LLAMA_LIKE | {"placement": "lns", "layers": 3, "stream-mix": True}),
        ("completep", "mix-ln", TINY_GPT | {"placement": "mix-ln", "layers": 4, "mix-fraction": 0.5, "base-layers": 2}),
        ("nugpt", "ngpt", TINY_LLAMA | LLAMA_LIKE | NGPT | {"placement": "ngpt", "activation": "swiglu", "heads": 2}
         | {"kv-heads": 2, "tied": False}),
        ("completep", "layerscale-moe", TINY_LLAMA | LLAMA_LIKE | {"placement": "layerscale", "experts": 3}
         | {"attention-sinks": True, "head-scale": True}),
    ]
} | {  # branches whose factor grows
    f"warmup-{name}": options | {"branch-warmup-steps": 2}
    for name, options in {
        "prores": TINY_LLAMA | LLAMA_LIKE | {"placement": "pre", "branch-warmup": "prores"},
        "prores-scaled": TINY_GPT | {"placement": "sandwich", "branch-warmup": "prores", "branch-scale": 0.5}
        | {"block": "parallel"},
        "branchnorm": TINY_GPT | {"placement": "post", "branch-warmup": "branchnorm"},
        "streams": TINY_GPT | {"placement": "resi-dual", "branch-warmup": "prores"},
        "completep": TINY_GPT | {"placement": "pre", "branch-warmup": "prores", "layers": 4, "base-layers": 2}
        | {"parametrization": "completep", "base-channels": TINY_GPT["channels"]},
    }.items()
} | {
    f"wired-{name}": WIRED | options
    for name, options in {
        "opt-350m": {"placement": "post", "position": "learned", "embedding-channels": 5, "tied": True},
        "wide-embedding": LLAMA_LIKE | {"embedding-channels": 18, "embedding-scale": 3.5, "embedding-norm": True}
        | {"position": "sinusoidal", "placement": "resi-dual"},
        "sinusoidal": {"position": "sinusoidal", "activation": "silu", "embedding-scale": 3.5, "tied": True},
        "gpt-neox": {"activation": "gelu", "rope-fraction": 0.5, "hidden": 19},
        "bloom": {"position": "alibi", "heads": 3, "kv-heads": 3, "embedding-norm": True, "tied": True},
        "mistral": LLAMA_LIKE | {"activation": "geglu", "window": 3, "kv-heads": 1},
        "qwen2": LLAMA_LIKE | {"activation": "swiglu", "qkv-bias": True, "kv-heads": 2},
        "phi-2": {"rope-fraction": 0.5, "head-bias": True},
        "gemma2": LLAMA_LIKE | {"activation": "geglu-tanh", "placement": "sandwich", "kv-heads": 2, "tied": True}
        | {"window": 3, "window-layers": "1 of 2", "attention-cap": 2.0, "attention-scale": 0.75}
        | {"embedding-scale": 3.5, "logit-cap": 1.5},
        "gemma3": LLAMA_LIKE | {"placement": "sandwich", "norm-unit-offset": True, "qk-norm": "head", "layers": 3}
        | {"window": 3, "window-layers": "2 of 3", "window-rope-theta": 7.0, "rope-theta": 100.0, "tied": True}
        | {"rope-scaling": "linear", "rope-factor": 8.0, "activation": "geglu-tanh"},
        "smollm3": LLAMA_LIKE | {"rope-layers": "2 of 3", "layers": 3, "rope-theta": 20.0, "rope-scaling": "llama3"}
        | {"rope-factor": 4.0, "rope-original": 12, "rope-slow": 0.5, "rope-fast": 1.5, "head-dim": 8},
        "olmo3": LLAMA_LIKE | {"placement": "reordered", "qk-norm": "full", "window": 3, "window-layers": "last 1 of 2"}
        | {"rope-scaling": "yarn", "rope-factor": 4.0, "rope-original": 12, "rope-slow": 0.2, "rope-fast": 1.5}
        | {"rope-theta": 20.0, "head-dim": 8},
        "granite": LLAMA_LIKE | {"branch-scale": 0.3, "logit-scale": 1.5, "attention-scale": 0.75, "tied": True}
        | {"embedding-scale": 3.5},
        "command-r": {"block": "parallel-shared", "bias": False, "norm-bias": False, "logit-scale": 3.0}
        | {"logit-cap": 2.0},
        "gpt-j": {"block": "parallel-shared", "rope-fraction": 0.5, "qkv-bias": False, "o-bias": False}
        | {"head-bias": True},
        "attention-bias": LLAMA_LIKE | {"qkv-bias": True, "o-bias": True},
        "olmo": {"bias": False, "norm-gain": False},
        "no-gains": LLAMA_LIKE | {"placement": "sandwich", "norm-gain": False, "qk-norm": "head", "branch-scale": 2.0}
        | {"embedding-norm": True},
        "scaled-hyper": {"placement": "hyper", "branch-scale": 0.5, "norm-gain": False, "norm-eps": LARGE_EPS},
        "attnres-by-3": {"placement": "attnres", "residual-block": 3, "layers": 3, "norm-unit-offset": True},
        "attnres-no-gains": LLAMA_LIKE
        | {"placement": "attnres", "residual-block": 2, "norm-gain": False, "final-norm": False, "branch-scale": 0.5}
        | {"channels": 8},
        "scaled-layerscale": {"placement": "layerscale", "branch-scale": 0.5},
        "longrope": LLAMA_LIKE | {"rope-scaling": "longrope", "rope-factor": 2.5, "rope-original": 4}
        | {"rope-short": "1,1.5", "rope-long": "2,9", "rope-theta": 20.0, "head-dim": 4},
        "gpt-neo": {"position": "learned", "attention-scale": 1.0, "window": 3, "window-layers": "last 1 of 2"}
        | {"qkv-bias": False, "tied": True},
        "all-of-attention": {"position": "alibi", "window": 4, "attention-cap": 1.5, "attention-scale": 0.5}
        | {"qkv-bias": False, "head-bias": True, "logit-cap": 2.0, "tied": True},
        "sinks": LLAMA_LIKE | {"attention-sinks": True, "kv-heads": 2, "window": 3, "window-layers": "1 of 2"}
        | {"qkv-bias": True, "o-bias": True},
        "capped-sinks": {"attention-sinks": True, "position": "alibi", "attention-cap": 1.5, "head-scale": True}
        | {"placement": "sandwich"},
        "gated-headwise": {"output-gate": "headwise", "kv-heads": 2},
        "head-scale": LLAMA_LIKE | {"head-scale": True, "output-gate": "headwise", "placement": "sub-ln"},
        "gated-elementwise": LLAMA_LIKE | {"output-gate": "elementwise", "placement": "sub-ln"},
        "value-residual-fixed": {"value-residual": "fixed", "layers": 3, "kv-heads": 2},
        "value-residual-learned": LLAMA_LIKE | {"value-residual": "learned", "layers": 3, "tied": True},
        "nanochat": LLAMA_LIKE | {"activation": "relu2", "stream-mix": True, "qk-norm": "head", "layers": 3}
        | {"embedding-norm": True, "value-residual": "learned", "logit-cap": 15.0, "hidden": 48},
        "qkv-norm": {"qk-norm": "qkv", "kv-heads": 2, "placement": "post"},
        "bert": MASKED | {"placement": "post", "position": "learned", "embedding-norm": True, "token-types": 2}
        | {"activation": "gelu", "head-bias": True, "tied": True},
        "bidirectional": LLAMA_LIKE | MASKED | {"position": "alibi", "window": 3, "window-layers": "1 of 2"}
        | {"attention-cap": 2.0, "kv-heads": 2, "token-types": 1, "embedding-channels": 5, "placement": "sandwich"},
        "fix-norm": LLAMA_LIKE | {"norm": "scalenorm", "fix-norm": True, "tied": True, "head-bias": True},
        "fix-norm-untied": {"fix-norm": True, "position": "learned", "logit-cap": 2.0, "embedding-scale": 1.5},
        "ngpt": LLAMA_LIKE | NGPT | {"placement": "ngpt", "activation": "swiglu", "eigen-rate-init": 0.4},
        "ngpt-tied": NGPT | {"placement": "pre", "tied": True, "head-bias": True, "position": "learned"}
        | {"logit-cap": 2.0},
        "bidirectional-rope": MASKED | {"window": 4, "layers": 3, "placement": "resi-dual"},
    }.items()
} | {
    f"moe-{name}": options | {"router-loss": 0.1, "router-z-loss": 0.05}
    for name, options in {
        "mixtral": TINY_LLAMA | {"placement": "pre", "norm": "rmsnorm", "norm-bias": False}
        | {"experts": 4, "experts-per-token": 2},
        "olmoe": TINY_LLAMA | {"placement": "pre", "norm": "rmsnorm", "norm-bias": False}
        | {"experts": 5, "experts-per-token": 3, "router-renormalize": False},
        "switch": TINY_GPT | {"placement": "post", "experts": 3, "experts-per-token": 1, "router-renormalize": False},
        "sub-ln-shared": TINY_GPT | {"placement": "sub-ln", "experts": 3, "experts-per-token": 2, "shared-experts": 1},
        "gpt-oss": TINY_LLAMA | {"placement": "pre", "norm": "rmsnorm", "norm-bias": False, "bias": True}
        | {"experts": 4, "experts-per-token": 2, "router-logit-bias": True, "activation": "swiglu-clamped"}
        | {"attention-sinks": True, "window": 3, "window-layers": "1 of 2", "head-dim": 8, "rope-theta": 20.0}
        | {"rope-scaling": "yarn", "rope-factor": 4.0, "rope-original": 12, "rope-slow": 0.2, "rope-fast": 1.5}
        | {"rope-truncate": False},
        "parallel": TINY_LLAMA | {"placement": "sandwich", "norm": "rmsnorm", "norm-bias": False}
        | {"block": "parallel", "experts": 4, "experts-per-token": 2, "shared-experts": 2},
    }.items()
}  # fmt: skip
# Encoder-decoder models. A row holds pairs of these lengths, source and target, and padding after them.
LONGEST = 10, 12
WHOLE = [LONGEST], [LONGEST], [LONGEST]
PADDED = [LONGEST], [(7, 9)], [(2, 5)]
PACKED = [(3, 5), (4, 2), (2, 4)], [LONGEST], [(1, 6), (5, 3)]
PAIRS_GPT = TINY_GPT | {"context": 13, "objective": "pairs", "encoder-layers": 2, "norm": "layernorm"}
PAIRS_LLAMA = TINY_LLAMA | {"context": 13, "objective": "pairs", "encoder-layers": 2, "norm": "rmsnorm"}
T5 = PAIRS_LLAMA | {
    "placement": "pre", "position": "relative", "relative-buckets": 8, "relative-distance": 9, "attention-scale": 1.0,
    "activation": "geglu-tanh", "norm-eps": 1e-6,
}  # fmt: skip
PAIRS = {  # options, rows
    "plain": (PAIRS_GPT | {"placement": "pre"}, WHOLE),
    "transformer": (
        PAIRS_GPT | {"placement": "post", "position": "sinusoidal", "activation": "relu", "embedding-scale": 2.5},
        PADDED,
    ),
    "packed": (PAIRS_GPT | {"placement": "pre"}, PACKED),
    "bart": (
        PAIRS_GPT | {"placement": "post", "embedding-norm": True, "activation": "gelu", "head-bias": True}, PADDED,
    ),
    "t5": (T5 | {"kv-heads": 1, "logit-scale": 0.4, "tied": True}, PADDED),
    "t5-packed": (T5 | {"encoder-layers": 1, "activation": "relu", "relative-buckets": 6}, PACKED),
    "deepnorm-3-2": (PAIRS_GPT | {"placement": "deepnorm", "encoder-layers": 3}, PADDED),
    "other-encoder": (
        PAIRS_GPT | {"placement": "pre", "encoder-placement": "sandwich", "encoder-norm": "rmsnorm", "layers": 1},
        PADDED,
    ),
    "causal-encoder": (
        PAIRS_LLAMA | {"placement": "post", "encoder-attention": "causal", "position": "relative"}, PACKED,
    ),
    "norms": (
        PAIRS_GPT | {"placement": "pre", "encoder-placement": "post", "norm-in": "rmsnorm", "norm-sum": "dyt"}
        | {"norm-final": "scalenorm"},
        PADDED,
    ),
    "norms-of-encoder": (
        PAIRS_GPT | {"placement": "sandwich", "encoder-norm": "rmsnorm", "norm-in": "scalenorm", "norm-out": "derf"},
        PACKED,
    ),
    "encoder-of-streams": (
        PAIRS_LLAMA | {"placement": "post", "encoder-placement": "mhc", "streams": 3, "norm-eps": LARGE_EPS}, PACKED,
    ),
    "all-of-attention": (
        PAIRS_LLAMA | {"placement": "pre", "heads": 4, "qk-norm": "head", "head-scale": True, "window": 4}
        | {"output-gate": "elementwise", "value-residual": "learned", "attention-sinks": True, "attention-cap": 1.5},
        PACKED,
    ),
    "qk-norm-full": (
        PAIRS_GPT | {"placement": "pre", "qk-norm": "full", "output-gate": "headwise", "position": "alibi"}, PADDED,
    ),
    "capped": (PAIRS_GPT | {"placement": "pre", "position": "none", "attention-cap": 1.5, "bias": True}, PADDED),
    "narrow": (
        PAIRS_LLAMA | {"placement": "sandwich", "embedding-channels": 5, "token-types": 2, "tied": True}
        | {"embedding-norm": True, "stream-mix": True, "logit-cap": 2.0},
        PACKED,
    ),
    "fix-norm": (PAIRS_LLAMA | {"placement": "pre", "fix-norm": True, "embedding-channels": 5, "tied": True}, PACKED),
    "lora": (
        PAIRS_GPT | {"placement": "pre", "lora": 2, "lora-alpha": 3.0, "lora-on": "q,k,v,o,up,down"},
        PADDED,
    ),
    "prores": (
        PAIRS_GPT | {"placement": "post", "encoder-layers": 3, "branch-warmup": "prores", "branch-warmup-steps": 2},
        PADDED,
    ),
    "experts": (
        PAIRS_LLAMA | {"placement": "pre", "experts": 4, "experts-per-token": 2, "router-loss": 0.1}, PACKED,
    ),
} | {
    placement: (
        (PAIRS_LLAMA if i % 2 or "hybrid" in placement else PAIRS_GPT)
        | {"placement": placement, "mix-fraction": 0.5, "streams": 3}
        | ({"norm-eps": LARGE_EPS} if residual.PLACEMENTS[placement].streams else {}),
        PADDED,
    )
    for i, placement in enumerate(p for p in residual.PLACEMENTS if p not in ONE_STACK)
}  # fmt: skip
ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight-decay": 0.1, "clip": 1.0}
TINY_CLIP = 0.2  # low enough that some steps are clipped; their gradients are smaller
VISIBLE_EPS = 1e-3  # of the size of the gradients
KEY_BIASES = ".k.bias", ".k_norm.bias"
ZERO_REASON = (
    "without RoPE a key bias adds the same number q.b to every score of a query, which softmax does not see"
)
BATCHNORM_ZERO_REASON = "what is added to every row alike is not seen by a BatchNorm that comes next"


def is_zero(c, name):
    """Whether a gradient is zero in exact arithmetic."""
    if name.startswith(ENCODER):
        return is_zero(c.encoder, name.removeprefix(ENCODER))
    bias_of_keys = ".k.bias" if c.qk_norm == "none" else ".k_norm.bias"
    seen = c.attention_cap or c.attention_sinks or c.position == "rope" and ".cross." not in name
    if name.endswith(bias_of_keys) and not seen:
        return True
    if c.norm != "batchnorm" or not name.endswith(".bias"):
        return False
    if not name.startswith("block."):
        return False
    _, layer, branch, part = name.split(".", 3)
    if part in ("v.bias", "o.bias", "down.bias", "norm_inner.bias"):  # attention passes v's bias on
        return bool(residual.at(c, f"block.{layer}.{branch}").norms)
    if part in ("norm_out.bias", "norm_sum.bias"):  # it stays in the stream; do only norms read it from here?
        names = [f"block.{l}.{b}" for l in range(c.layers) for b in ("attention", "ffn")]
        later = [residual.at(c, n).norms for n in names[names.index(f"block.{layer}.{branch}") + 1 :]]
        ends = c.final_norm or any("norm_sum" in norms for norms in later)
        return ends and all("norm_in" in norms for norms in later)
    return False


def start(rnd, c, name, shape):
    """Random values, so that every term of every gradient counts."""
    if name.startswith(ENCODER):
        return start(rnd, c.encoder, name.removeprefix(ENCODER), shape)
    part = name.split(".")[-2]
    if name.endswith((".qk.gain", "logits.gain", ".rate")):  # rates of either sign
        signs = rnd.choice([-1, 1], shape) if name.endswith(".rate") else 1
        return signs * (1 + 0.3 * rnd.standard_normal(shape)) / math.sqrt(c.channels)
    if name.endswith(".gain"):
        usual = {"scalenorm": math.sqrt(c.channels)}.get(norm.at(c, name.rpartition(".")[0])[0], 1)
        return usual * (1 + 0.3 * rnd.standard_normal(shape)) - c.norm_unit_offset
    if name.endswith((".alpha", ".scale")):
        return 0.5 + 0.1 * rnd.standard_normal(shape)
    if name.endswith((".shift", ".running_mean")):
        return 0.3 * rnd.standard_normal(shape)
    if name.endswith(".running_var"):
        return np.exp(0.5 * rnd.standard_normal(shape))
    if name.endswith((".own", ".first", ".gate", ".branch_warmup")):
        return 0.7 + 0.2 * rnd.standard_normal(shape)
    if name.endswith(".sinks"):
        return 0.5 + 0.3 * rnd.standard_normal(shape)
    if name.endswith(".bias"):
        return 0.1 * rnd.standard_normal(shape)
    if name.endswith((".read", ".carry", ".write")):  # mixing streams: 1, or the identity
        constant = np.eye(c.streams).ravel() if name.endswith(".carry") else 1
        return constant + 0.3 * rnd.standard_normal(shape)
    if name.startswith(("embedding", "relative")):
        return 0.5 * rnd.standard_normal(shape)
    gained = part not in ("q", "k", "head")
    return (residual.PLACEMENTS[c.placement].matrices(c.depths) if gained else 1) * matrix(rnd, *shape)


@dataclass
class Batch:
    tokens: torch.Tensor  # (B,T)
    targets: torch.Tensor  # (B,T)
    begins: Optional[torch.Tensor] = None  # as in Parameters
    source: Optional[Source] = None

    def loss(self, p, c):
        p.begins, p.source = self.begins, self.source
        return model.loss(p, c, self.tokens, self.targets)


def trains(c, name):
    return ".lora_" in name if c.lora else Parameters.trains(name)


def ten_steps(c, values, batches, adam, dtype=torch.float64):
    """-> losses, gradient norms, the gradients of a pass on the first batch with their uncancelled terms, and its loss.

    The factors of a warm-up are those in `values` in that pass, and those of the step in the others.
    """
    p = Parameters(
        {n: torch.tensor(v, dtype=dtype, requires_grad=trains(c, n)) for n, v in values.items()}
    )
    decays = adam["weight-decay"], adam.get("norm-decay", 0.0), adam.get("norm-decay-out", 0.0)
    adamw = optimizer.adamw_of(p, c, adam["lr"], adam["beta1"], adam["beta2"], adam["eps"], *decays)
    losses, norms = [], []

    def run(batch):
        adamw.zero_grad()
        loss = batch.loss(p, c)
        (loss + sum(p.losses)).backward()
        return loss.item()

    p.terms = {}
    first_loss, terms, p.terms = run(batches[0]), p.terms, None
    first = {name: t.grad.clone() for name, t in p.trained().items()}
    for step, batch in enumerate(batches):
        residual.set_warmups(p, c, step)
        losses.append(run(batch))
        norms.append(optimizer.clip(p.trained().values(), adam["clip"]))
        adamw.step()
        ngpt.normalize_weights(p, c)
    return losses, norms, first, terms, first_loss


def ten_passes(c, values, batches):
    """-> the running statistics after ten training batches, and the loss of the first batch with them.

    Weights stay as they are: AdamW makes full steps of the rounding errors of gradients that are zero, which only
    running statistics see.
    """
    p = Parameters({n: torch.tensor(v, dtype=torch.float64) for n, v in values.items()})
    for batch in batches:
        batch.loss(p, c)
    p.training = False
    loss = batches[0].loss(p, c).item()
    return {n: t.numpy() for n, t in p.items() if not Parameters.trains(n)}, loss


def well_conditioned(grads, norms, terms, zero, rounded):
    """Whether PyTorch's float32 agrees with its float64. If not, ours cannot either, and the case tests nothing."""
    if max(abs(a - b) / b for a, b in zip(rounded[0], norms)) > 5e-6:
        return False
    sizes = {n: max(g.norm(), 1e-3 * terms[n].norm()) for n, g in grads.items() if n not in zero}
    return max((rounded[1][n].double() - grads[n]).norm() / size for n, size in sizes.items()) < 5e-6


def draw_rows(case, c, B, ignored):
    """-> arrays of ten batches, and the batches. If `ignored`, the last token of some rows is no target."""
    T = min(13, c.context - 1)
    tokens = case.random.integers(0, c.vocab_size, (10, B, T + 1))
    if ignored:
        for batch in tokens:  # the last column is the only one that is never an input
            batch[: case.random.integers(1, B), T] = -1
    tokens = tokens.astype(np.int32)
    return {"tokens": tokens}, [Batch(batch[:, :-1], batch[:, 1:]) for batch in torch.from_numpy(tokens)]


def places_of(rows, S, T):
    """-> begins (B,T), source begins (B,S), source_from and source_to (B,T), and which targets are padding. Padding is
    an example of its own, and as a target it sees the last source."""
    begins, first, end = (np.zeros((len(rows), T), np.int32) for _ in range(3))
    source_begins, padding = np.zeros((len(rows), S), np.int32), np.zeros((len(rows), T), bool)
    for row, pairs in enumerate(rows):
        at, place = 0, 0
        for s, t in pairs:
            source_begins[row, at : at + s] = at
            begins[row, place : place + t] = place
            first[row, place:], end[row, place:] = at, at + s
            at, place = at + s, place + t
        source_begins[row, at:], begins[row, place:], padding[row, place:] = at, place, True
    return begins, source_begins, first, end, padding


def draw_pairs(case, c, rows):
    """-> arrays of ten batches of such rows, in another order in each, and the batches"""
    B, (S, T) = len(rows), LONGEST
    orders = [[rows[(row + step) % B] for row in range(B)] for step in range(10)]
    names = "begins", "source_begins", "source_from", "source_to"
    *places, padding = (np.stack(x) for x in zip(*(places_of(order, S, T) for order in orders)))
    arrays = dict(zip(names, places))
    for name, length in ("tokens", T), ("targets", T), ("source", S):
        arrays[name] = case.random.integers(0, c.vocab_size, (10, B, length)).astype(np.int32)
    arrays["targets"][padding] = -1
    t = {name: torch.from_numpy(x) for name, x in arrays.items()}
    return arrays, [
        Batch(t["tokens"][i], t["targets"][i], t["begins"][i],
              Source(t["source"][i], *(t[f"source_{what}"][i] for what in ("begins", "from", "to"))))
        for i in range(10)
    ]  # fmt: skip


def check_gradients(name, grads, terms, zero):
    """Exactly the gradients in `zero` are zero. -> the smallest other one compared with its terms"""
    faintest = math.inf, ""
    for n, g in grads.items():
        size = (g.norm() / terms[n].norm()).item()
        assert terms[n].shape == g.shape and (g.abs() <= terms[n] * (1 + 1e-12) + 1e-300).all(), (name, n)
        assert (size < 1e-13) == (n in zero), (name, n, size)
        if n not in zero:
            assert size > (1e-3 if g.numel() > 1 else 1e-5), (name, n, size)  # single numbers may be small
            faintest = min(faintest, (size, f"{name} {n}"))
    return faintest


def write_model(out, folder, name, options, draw_batches):
    """-> the worst relative error of a loss in float32, and the faintest gradient"""
    c = Config.from_options(options)
    adam = ADAM | {"clip": TINY_CLIP if c.channels < SMALL["channels"] else ADAM["clip"]}
    if c.parametrization != "sp":
        adam |= {"eps": VISIBLE_EPS, "weight-decay": 3.0}
    if "norms" in name:
        adam |= {"norm-decay": 9.0, "norm-decay-out": 3.0}
    for draw in range(40):
        case = Case(out, folder, name, draw)
        values = {n: start(case.random, c, n, shape).astype(np.float32) for n, shape in model.table(c)}
        arrays, batches = draw_batches(case, c)
        losses, norms, grads, terms, loss = ten_steps(c, values, batches, adam)
        zero = [n for n in values if is_zero(c, n)]
        in_float32, *rounded = ten_steps(c, values, batches, adam, torch.float32)
        if well_conditioned(grads, norms, terms, zero, rounded):
            break
    else:
        raise SystemExit(f"{name}: PyTorch's float32 is far from its float64 for every draw")
    faintest = check_gradients(name, grads, terms, zero)

    def flat(tensors):
        return np.concatenate([np.asarray(t).ravel() for t in tensors.values()])

    for array, value in ({"params": flat(values), "grads": flat(grads)} | arrays).items():
        case.write(array, value)
    scales = {n: term.norm().item() for n, term in terms.items()}
    rows = [{"name": n, "shape": list(v.shape), "scale": scales.get(n, 0)} for n, v in values.items()]
    reasons = [ZERO_REASON] * any(n.endswith(KEY_BIASES) for n in zero)
    reasons += [BATCHNORM_ZERO_REASON] * any(not n.endswith(KEY_BIASES) for n in zero)
    skips = {"skip": c.skip_scale} | ({"encoder-skip": c.encoder.skip_scale} if c.encoder else {})
    about = {"config": options} | skips | {
        "tensors": rows, "zero": zero, "zero-reason": "; ".join(reasons), "loss": loss, "adam": adam,
        "losses": losses, "grad-norms": norms,
    }  # fmt: skip
    if c.norm == "batchnorm":
        running, about["evaluated"] = ten_passes(c, values, batches)
        case.write("running", flat(running))
    write_json(f"{case.path}.json", about)
    return max(abs(a - b) / b for a, b in zip(in_float32, losses)), faintest


def print_worst(folder, results):
    errors, faintest = zip(*results)
    print(f"{folder}: ten losses in PyTorch's float32 against float64: {max(errors):.1e} relative at worst")
    size, name = min(faintest)
    print(f"{folder}: smallest gradient compared with its uncancelled terms: {size:.1e} ({name})")


def model_cases(out):
    results = []
    for name, options in MODELS.items():
        defaults = {"norm": "layernorm", "norm-eps": 1e-5, "norm-bias": True, "embedding-norm": False}
        final = {"final-norm": residual.PLACEMENTS[options["placement"]].final_norm}
        options = {"placement": ""} | defaults | final | options
        draw = partial(draw_rows, B=3, ignored=name == "pre-ignored-targets")
        results.append(write_model(out, "model", name, options, draw))
    print_worst("model", results)


def pairs_cases(out):
    """Encoder-decoder models."""
    rows = PAIRS.items()
    print_worst("pairs", [write_model(out, "pairs", n, o, partial(draw_pairs, rows=r)) for n, (o, r) in rows])


def read_model(file):
    """-> what model_cases wrote about a model, its configuration and its parameters"""
    about = json.loads(Path(f"{file}.json").read_text())
    values, at, p = np.load(f"{file}.params.npy"), 0, Parameters()
    for row in about["tensors"]:
        size = math.prod(row["shape"])
        p[row["name"]] = torch.tensor(values[at : at + size].reshape(row["shape"]), dtype=torch.float64)
        p[row["name"]].requires_grad_(Parameters.trains(row["name"]))
        at += size
    return about, Config.from_options(about["config"]), p


PACKED_MODELS = (
    "pre-layernorm-gpt", "post-rmsnorm-llama", "sandwich-batchnorm", "deepnorm-layernorm-gpt", "pre-qk-norm-head-llama",
    "wired-gemma2", "wired-all-of-attention", "wired-bloom", "wired-sinusoidal", "wired-mistral", "wired-nanochat",
    "mhc-rmsnorm-llama", "moe-olmoe", "wired-bert", "wired-bidirectional", "hyper-independent-rmsnorm-llama",
)  # fmt: skip


def packed_cases(out):
    """Some of these models on rows of several examples: position ids and a mask of blocks on the diagonal."""
    for name in PACKED_MODELS:
        _, c, p = read_model(out / "model" / name)
        T = min(13, c.context)
        rows = [1, 3, T - 4], [T - 2, 2], [T]
        case = Case(out, "packed", name)
        begins = case.ints("begins", begins_of(*rows))
        tokens = case.ints("tokens", case.random.integers(0, c.vocab_size, (3, T)))
        targets = case.random.integers(0, c.vocab_size, (3, T))
        for row, lengths in zip(targets, rows):
            row[np.cumsum(lengths) - 1] = -1  # the last token of an example has no next one
        targets = case.ints("targets", targets)
        p.begins, p.terms = begins, {}
        loss = model.loss(p, c, tokens, targets)
        (loss + sum(p.losses)).backward()  # routers see tokens without a target, too
        case.write("grads", np.concatenate([t.grad.numpy().ravel() for t in p.trained().values()]))
        case.numbers["loss"] = loss.item()
        case.scales = {n: term.norm().item() for n, term in p.terms.items()}
        if c.norm != "batchnorm" and not c.experts:  # each example alone
            p.begins, p.terms, total = None, None, 0
            for row, wanted, lengths in zip(tokens, targets, rows):
                for x, y in zip(row.split(list(lengths)), wanted.split(list(lengths))):
                    if (y >= 0).any():
                        total += model.loss(p, c, x[None], y[None]) * (y >= 0).sum()
            same(loss * (targets >= 0).sum(), total)
        case.close()


def diagnostics_cases(out):
    """The diagnostics of some of these models in their first step, without gradients that are zero."""
    names = [f"{placement}-layernorm-gpt" for placement in FIRST_PLACEMENTS]
    names += ["sandwich-rmsnorm-llama", "post-relu-no-position-embedding-norm"]
    names += [f"{form}-llama" for form in ("lns-rmsnorm", "sub-ln-rmsnorm", "layerscale-parallel", "rezero-rmsnorm")]
    names += ["pre-qk-norm-head-llama", "pre-qk-norm-full-gpt", "mix-ln-layernorm-gpt"]
    names += ["hyper-layernorm-gpt", "mhc-rmsnorm-llama", "resi-dual-layernorm-gpt", "siamese-layernorm-gpt"]
    names += ["ngpt-layernorm-gpt", "wired-ngpt"]
    names += ["attnres-layernorm-gpt", "wired-attnres-by-3"]
    names += ["mhc-read-rmsnorm-llama", "hyper-independent-layernorm-gpt", "gated-residual-layernorm-gpt"]
    names += ["sandwich-scalenorm", "sandwich-batchnorm", "post-derf", "pre-layernorm-unit-offset"]
    names += ["b2t-layernorm-gpt", "b2t-rmsnorm-llama", "normformer-layernorm-gpt", "wired-head-scale"]
    names += ["hybridnorm-star-rmsnorm-llama", "wired-gated-elementwise", "wired-nanochat", "wired-qkv-norm"]
    names += ["moe-sub-ln-shared", "moe-olmoe", "gpas-layernorm-gpt", "admin-layernorm-gpt"]
    for name in names + ["wired-gemma2", "wired-all-of-attention"]:
        file = out / "model" / name
        about, c, p = read_model(file)
        batch = torch.from_numpy(np.load(f"{file}.tokens.npy")[0])
        zero = [tuple(n.split(".", 2)[1:]) for n in about["zero"]]
        rows = [
            {"layer": layer, "part": part, "what": what, "value": value}
            for layer, part, what, value in diagnostics.look_inside(p, c, batch[:, :-1], batch[:, 1:])
            if what != "grad_norm" or (str(layer), part) not in zero
        ]
        case = Case(out, "diagnostics", name)
        write_json(f"{case.path}.json", {"rows": rows}, "rows")


WRITERS = {
    "embedding": embedding_cases, "unit_rows": unit_rows_cases, "position": position_cases, "norm": norm_cases,
    "norm_kinds": norm_kinds_cases, "linear": linear_cases,
    "linear_bf16": linear_bf16_cases,
    "attention": attention_cases, "wiring": wiring_cases, "scores": scores_cases, "activation": activation_cases,
    "cross_entropy": cross_entropy_cases,
    "optimizer": optimizer_cases, "model": model_cases, "packed_attention": packed_attention_cases,
    "cross_attention": cross_attention_cases, "relative_attention": relative_attention_cases,
    "packed": packed_cases, "diagnostics": diagnostics_cases, "pairs": pairs_cases,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="Writes the reference tensors of the tests.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "test" / "reference")
    parser.add_argument("--only", choices=WRITERS, help="write the files of this layer alone")
    arguments = parser.parse_args()
    out, only = arguments.out, arguments.only
    writers = {only: WRITERS[only]} if only else WRITERS
    for layer, write in writers.items():
        for old in (out / layer).glob("*"):
            if old.suffix in (".npy", ".json"):
                old.unlink()
        write(out)
    sizes = [file.stat().st_size for layer in writers for file in (out / layer).iterdir()]
    print(f"{out}: {len(sizes)} files, {sum(sizes) / 1e6:.2f} MB; every self-check passed")


if __name__ == "__main__":
    main()
