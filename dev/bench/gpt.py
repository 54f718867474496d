"""GPT-2 in PyTorch, also with an encoder, as the benchmarks train it: o has its sizes, as text or numbers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = {"gelu": nn.GELU, "gelu-tanh": lambda: nn.GELU(approximate="tanh")}


class Cross(nn.Module):
    def __init__(self, C, heads, bias, norm):
        super().__init__()
        self.heads, self.norm = heads, norm()
        self.q, self.kv, self.o = nn.Linear(C, C, bias), nn.Linear(C, 2 * C, bias), nn.Linear(C, C, bias)

    def forward(self, x, memory):
        def by_head(t):
            return t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)

        k, v = self.kv(memory).chunk(2, dim=2)
        mixed = F.scaled_dot_product_attention(by_head(self.q(self.norm(x))), by_head(k), by_head(v))
        return x + self.o(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, C, heads, bias, activation, norm, causal=True, crosses=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.cross = Cross(C, heads, bias, norm) if crosses else None
        self.norm1, self.norm2 = norm(), norm()
        self.qkv, self.o = nn.Linear(C, 3 * C, bias), nn.Linear(C, C, bias)
        self.up, self.down = nn.Linear(C, 4 * C, bias), nn.Linear(4 * C, C, bias)
        self.activation = activation()

    def forward(self, x, memory=None):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.o(mixed.transpose(1, 2).reshape(B, T, C))
        if self.cross:
            x = self.cross(x, memory)
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        C, V, T, bias = int(o["channels"]), int(o["vocab"]), int(o["context"]), bool(int(o["bias"]))
        norm = {"layernorm": lambda: nn.LayerNorm(C, bias=bias), "rmsnorm": lambda: nn.RMSNorm(C, eps=1e-5)}[o["norm"]]
        self.token, self.position = nn.Embedding(V, C), nn.Embedding(T, C)

        def blocks(layers, *kind):
            every = (Block(C, int(o["heads"]), bias, ACTIVATIONS[o["activation"]], norm, *kind) for _ in range(layers))
            return nn.ModuleList(every)

        encoder = int(o.get("encoder", 0))
        self.blocks, self.norm = blocks(int(o["layers"]), True, encoder > 0), norm()
        if encoder:
            self.encoder, self.encoder_norm = blocks(encoder, False), norm()
            self.encoder_position = nn.Embedding(T, C)
        self.head = nn.Linear(C, V, bias=False)
        self.head.weight = self.token.weight
        with torch.no_grad():
            for p in self.parameters():
                if p.dim() > 1:
                    p.uniform_(-0.035, 0.035)  # a standard deviation of 0.02

    def encode(self, tokens):
        x = self.token(tokens) + self.encoder_position(torch.arange(tokens.shape[1]))
        for block in self.encoder:
            x = block(x)
        return self.encoder_norm(x)

    def forward(self, tokens, targets, source=None):
        memory = None if source is None else self.encode(source)
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, memory)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())
