"""GELU, its tanh form and SiLU (Hendrycks & Gimpel 2016, arXiv 1606.08415, §2), ReLU, its square (Primer, So et al.
2021, arXiv 2109.08668), and the gated GEGLU and SwiGLU (Shazeer 2020, arXiv 2002.05202, eq. 6). Gemma uses GEGLU with
the tanh form. gpt-oss (OpenAI 2025, arXiv 2508.10925) clamps gate and up.
"""

import math

import torch


def gelu(x):
    return 0.5 * x * torch.erfc(-x / math.sqrt(2))  # 1 + erf(z) = erfc(-z), without its cancellation


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def relu(x):
    return x.clamp(min=0)


def relu2(x):
    return relu(x) ** 2


def silu(x):
    return x * torch.sigmoid(x)


def times(curve):
    return lambda gate, up: curve(gate) * up


def swiglu_clamped(gate, up):
    gate, up = gate.clamp(max=7), up.clamp(-7, 7)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1)


FORWARD = {"gelu": gelu, "gelu-tanh": gelu_tanh, "relu": relu, "relu2": relu2, "silu": silu}
GATE = {"geglu": times(gelu), "geglu-tanh": times(gelu_tanh), "swiglu": times(silu), "swiglu-clamped": swiglu_clamped}


def gated(name, gate, up):
    return GATE[name](gate, up)
