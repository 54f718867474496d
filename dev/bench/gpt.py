"""GPT-2 in PyTorch, as the benchmarks train it: o has its sizes, as text or numbers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = {"gelu": nn.GELU, "gelu-tanh": lambda: nn.GELU(approximate="tanh")}


class Block(nn.Module):
    def __init__(self, C, heads, bias, activation, norm):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = norm(), norm()
        self.qkv, self.o = nn.Linear(C, 3 * C, bias), nn.Linear(C, C, bias)
        self.up, self.down = nn.Linear(C, 4 * C, bias), nn.Linear(4 * C, C, bias)
        self.activation = activation()

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(B, T, C))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        C, V, T, bias = int(o["channels"]), int(o["vocab"]), int(o["context"]), bool(int(o["bias"]))
        norm = {"layernorm": lambda: nn.LayerNorm(C, bias=bias), "rmsnorm": lambda: nn.RMSNorm(C, eps=1e-5)}[o["norm"]]
        self.token, self.position = nn.Embedding(V, C), nn.Embedding(T, C)
        blocks = (Block(C, int(o["heads"]), bias, ACTIVATIONS[o["activation"]], norm) for _ in range(int(o["layers"])))
        self.blocks, self.norm = nn.ModuleList(blocks), norm()
        self.head = nn.Linear(C, V, bias=False)
        self.head.weight = self.token.weight
        with torch.no_grad():
            for p in self.parameters():
                if p.dim() > 1:
                    p.uniform_(-0.035, 0.035)  # a standard deviation of 0.02

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())
