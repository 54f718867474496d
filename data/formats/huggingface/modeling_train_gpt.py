"""A model that train_gpt trained, as plain PyTorch, for Hugging Face's transformers 5.

    model = AutoModelForCausalLM.from_pretrained("FOLDER", trust_remote_code=True)

Or AutoModelForMaskedLM, or AutoModelForSeq2SeqLM for a model with an encoder and a decoder.

config.json says which norm the model uses, where it goes, and everything else. Tensors have train_gpt's names. The file
computes logits, the loss of labels, and generates with or without a cache. It has no dropout and no padding, except
after the sources of an encoder: all rows of a batch are equally long. BatchNorm uses its running statistics.

Shapes: B batch, T new tokens, S all tokens so far, C channels, H query heads, K key/value heads, D head size.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, GenerationMixin, PreTrainedModel
from transformers.configuration_utils import PreTrainedConfig
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, MaskedLMOutput, Seq2SeqLMOutput

ACTIVATIONS = {
    "gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu, "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
}  # fmt: skip
GATES = {"geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu", "swiglu-clamped": None}  # f(gate) * up

# transformers calls the cache `past_key_values`, and later `cache`.
CACHE = next(f.name for f in dataclasses.fields(CausalLMOutputWithPast) if f.name in ("cache", "past_key_values"))
# Other arguments of transformers, and the only value of each that the model has.
NEUTRAL = {"return_dict": True, "output_attentions": False, "output_hidden_states": False, "logits_to_keep": 0}


class TrainGPTConfig(PreTrainedConfig):
    model_type = "train_gpt"


class Norm(nn.Module):
    """y = gain * f(x) + bias over rows of `width` channels. A site may have a kind of its own."""

    def __init__(self, config, width, site=""):
        super().__init__()
        own = getattr(config, "site_norms", {}).get(site, {})
        self.kind, self.eps, self.unit_offset = own.get("norm", config.norm), config.norm_eps, config.norm_unit_offset
        self.gain = None
        if own.get("norm_gain", config.norm_gain):
            self.gain = nn.Parameter(torch.ones(1 if self.kind == "scalenorm" else width))
        self.bias = nn.Parameter(torch.zeros(width)) if own.get("norm_bias", config.norm_bias) else None
        if self.kind in ("dyt", "derf"):
            self.alpha = nn.Parameter(torch.ones(1))
        if self.kind == "derf":
            self.shift = nn.Parameter(torch.zeros(1))
        if self.kind == "batchnorm":
            self.register_buffer("running_mean", torch.zeros(width))
            self.register_buffer("running_var", torch.ones(width))
        if self.kind == "gatednorm":
            self.down = nn.Parameter(torch.zeros(config.gated_norm_rank, width))
            self.up = nn.Parameter(torch.zeros(width, config.gated_norm_rank))

    def normalized(self, x):
        if self.kind == "layernorm":
            return F.layer_norm(x, x.shape[-1:], eps=self.eps)
        if self.kind in ("rmsnorm", "gatednorm"):
            return F.rms_norm(x, x.shape[-1:], eps=self.eps)
        if self.kind == "scalenorm":  # rows of length 1
            return F.rms_norm(x, x.shape[-1:], eps=self.eps) / math.sqrt(x.shape[-1])
        if self.kind == "batchnorm":
            return (x - self.running_mean) / torch.sqrt(self.running_var + self.eps)
        if self.kind == "dyt":
            return torch.tanh(self.alpha * x)
        if self.kind == "derf":
            return torch.erf(self.alpha * x + self.shift)
        raise ValueError(f"unknown norm {self.kind}")

    def forward(self, x):
        y = self.normalized(x)
        if self.gain is not None:
            y = y * (1 + self.gain if self.unit_offset else self.gain)
        if self.bias is not None:
            y = y + self.bias
        if self.kind == "gatednorm":
            y = y * torch.sigmoid(F.linear(F.silu(F.linear(y, self.down)), self.up))
        return y


class Gain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))


class Gpas(nn.Module):
    """Scales the stream by 1 - silu(gate). The gradient passes unchanged."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x - F.silu(self.gate) * x.detach()


class Branch(nn.Module):
    """A sublayer in its residual rule. An absent norm is the identity; an absent gain is 1.

    y = norm_sum(skip * skip.gain * x + out_scale * gain * norm_out(W_out norm_inner(F(in_scale * norm_in(x)))))
    """

    def __init__(self, config, layer, norms, inner_width, enters=True):
        super().__init__()

        def norm(part, width):
            return Norm(config, width, f"norm_{part}") if part in norms[layer] else nn.Identity()

        self.norm_in = norm("in", config.hidden_size) if enters else nn.Identity()
        self.norm_inner = norm("inner", inner_width)
        self.norm_out = norm("out", config.hidden_size)
        self.norm_sum = norm("sum", config.hidden_size)
        self.in_scale, self.out_scale = config.in_scales[layer], config.branch_scale
        if config.learned_gain == "channel":
            self.scale = Gain(config.hidden_size)
        self.skip = Gain(config.hidden_size) if config.skip_gain else None

    def past(self, x):
        """What the skip path makes of x, before its constant factor."""
        return x if self.skip is None else self.skip.gain * x

    def enter(self, x):
        return self.in_scale * self.norm_in(x)

    def leave(self, skipped, f, scale=None):
        f = self.out_scale * self.norm_out(f)
        scale = getattr(self, "scale", scale)
        return self.norm_sum(skipped + (f if scale is None else scale.gain * f))


class Mix(nn.Module):
    """own * x + first * z with learned factors."""

    def __init__(self):
        super().__init__()
        self.own, self.first = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x, z):
        return self.own * x + self.first * z


def rotate(x, first, angles, magnitude, longer=None, original=None):
    """RoPE: turns pair (i, i + R/2) of the first R numbers of a head by t * angles[i], R/2 angles. x (B,H,T,D)

    With `longer`, these are the angles of rows longer than the original context.
    """
    if longer and first + x.shape[2] > original:
        angles = longer
    half = len(angles)
    t = torch.arange(first, first + x.shape[2], dtype=torch.float64)[:, None]
    angle = t * torch.tensor(angles, dtype=torch.float64)
    cos, sin = (magnitude * angle.cos()).to(x), (magnitude * angle.sin()).to(x)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), -1)


def alibi_slopes(heads):
    """2^(-8/n), 2^(-16/n), ... for n heads, a power of two. Further heads get every second slope of 2n heads."""
    n = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * i / n) for i in range(1, n + 1)]
    return slopes + [2 ** (-4 * i / n) for i in range(1, 2 * (heads - n), 2)]


class RelativePositions(nn.Embedding):
    """T5's biases of the scores: a number for each head and bucket of distances from query to key."""

    def __init__(self, config):
        super().__init__(config.relative_buckets, config.num_attention_heads)
        self.later = config.attention == "bidirectional"  # later keys have the second half of the buckets
        self.count = config.relative_buckets // 2 if self.later else config.relative_buckets
        self.farthest = config.relative_distance

    def forward(self, first, length):
        """The biases (H,T,S) of `length` queries after `first` other tokens."""
        distance = torch.arange(first, first + length)[:, None] - torch.arange(first + length)
        half = self.count * (distance < 0) if self.later else 0
        distance = distance.abs() if self.later else distance.clamp(min=0)
        exact = self.count // 2  # from here on, buckets are equally wide in the logarithm
        share = (distance.double().clamp(min=exact) / exact).log() / math.log(self.farthest / exact)
        wide = (exact + (share * (self.count - exact)).long()).clamp(max=self.count - 1)
        bucket = half + torch.where(distance < exact, distance, wide)
        return super().forward(bucket.to(self.weight.device)).permute(2, 0, 1)


def without_padding(scores, read):
    """The scores (B,H,T,S) of keys, of which `read` (B,S) are tokens. A query may have padding alone in its window."""
    return scores if read is None else scores.masked_fill(~read[:, None, None], torch.finfo(scores.dtype).min)


class Attention(Branch):
    crosses = False

    def __init__(self, config, layer):
        H, K, D, C = config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.hidden_size
        super().__init__(config, layer, config.cross_norms if self.crosses else config.norms, H * D)
        self.config, self.layer = config, layer
        self.window, self.rotation = config.windows[layer], config.rotations[layer]
        self.q = nn.Linear(C, H * D, bias=config.qkv_bias)
        self.k = nn.Linear(C, K * D, bias=config.qkv_bias)
        self.v = nn.Linear(C, K * D, bias=config.qkv_bias)
        if config.qk_norm != "none":  # norms of each head by itself, or of all heads together
            each = config.qk_norm != "full"
            self.q_norm = Norm(config, D if each else H * D)
            self.k_norm = Norm(config, D if each else K * D)
        if config.qk_norm == "qkv":
            self.v_norm = Norm(config, D)
        if config.value_residual == "learned" and layer > 0 and not self.crosses:
            self.value_mix = Mix()
        if config.output_gate != "none":
            gates = H * (D if config.output_gate == "elementwise" else 1)
            self.output_gate = nn.Linear(C, gates, bias=config.qkv_bias)
        if config.head_scale:
            self.head_scale = Gain(H)
        if config.attention_sinks:
            self.sinks = nn.Parameter(torch.zeros(H))
        self.o = nn.Linear(H * D, C, bias=config.o_bias)

    def scores(self, q, k, first, relative, read):
        """(B,H,T,S); a query does not see keys `window` or more tokens away, nor later ones if attention is causal."""
        c, T, S = self.config, q.shape[2], k.shape[2]
        distance = torch.arange(first, first + T)[:, None] - torch.arange(S)  # from query to key
        if c.attention == "bidirectional":
            distance = distance.abs()
        scores = c.attention_scale * (q @ k.transpose(2, 3))
        if c.attention_cap > 0:
            scores = c.attention_cap * torch.tanh(scores / c.attention_cap)
        if c.position == "alibi":
            slopes = torch.tensor(alibi_slopes(c.num_attention_heads), dtype=torch.float64)
            scores = scores - (slopes[:, None, None] * distance).to(scores)
        if relative is not None:
            scores = scores + relative
        scores = without_padding(scores, read)
        hidden = (distance < 0) | (distance >= (self.window or S))
        return scores.masked_fill(hidden.to(scores.device), -math.inf)

    def weights(self, scores):
        """The softmax of the scores. A sink is one more score of its head, and its weight is left out."""
        if not self.config.attention_sinks:
            return scores.softmax(-1)
        sinks = self.sinks[:, None, None].expand(*scores.shape[:-1], 1)
        return torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]

    def mixed_values(self, v, carried):
        """Mixes the values of later layers with the first layer's."""
        if self.config.value_residual == "none":
            return v
        if self.layer == 0:
            carried["values"] = v
            return v
        if self.config.value_residual == "fixed":
            return 0.5 * v + 0.5 * carried["values"]
        return self.value_mix(v, carried["values"])

    def projected(self, u, read):
        """q of u, k and v of what they read, (B,heads,T,D) each"""
        c = self.config
        q, k, v = self.q(u), self.k(read), self.v(read)
        if c.qk_norm == "full":
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (x.unflatten(-1, (-1, c.head_dim)).transpose(1, 2) for x in (q, k, v))  # (B,heads,T,D)
        if c.qk_norm in ("head", "qkv"):
            q, k = self.q_norm(q), self.k_norm(k)
        if c.qk_norm == "qkv":
            v = self.v_norm(v)
        return q, k, v

    def forward(self, u, first, cache, carried):
        q, k, v = self.projected(u, u)
        v = self.mixed_values(v, carried)
        if self.rotation:
            q, k = (rotate(x, first, **self.config.rotary[self.rotation]) for x in (q, k))
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        k, v = self.of_each_head(k), self.of_each_head(v)
        return self.finish(u, self.weights(self.scores(q, k, first, carried["relative"], carried["read"])) @ v)

    def of_each_head(self, x):
        return x.repeat_interleave(self.config.num_attention_heads // self.config.num_key_value_heads, 1)

    def finish(self, u, mixed):
        """u (B,T,C), mixed values (B,H,T,D) -> (B,T,C)"""
        c, mixed = self.config, mixed.transpose(1, 2).flatten(2)
        if c.output_gate != "none":
            gate = torch.sigmoid(self.output_gate(u))
            mixed = mixed * (gate if c.output_gate == "elementwise" else gate.repeat_interleave(c.head_dim, -1))
        if c.head_scale:
            mixed = mixed * self.head_scale.gain.repeat_interleave(c.head_dim)
        return self.o(self.norm_inner(mixed))


class CrossAttention(Attention):
    """Reads the output of the encoder, all of it and without positions."""

    crosses = True

    def forward(self, u, memory, read):
        """memory (B,S,C) the output of the encoder; read (B,S) or null: which of its places hold tokens"""
        c = self.config
        q, k, v = self.projected(u, memory)
        scores = c.attention_scale * (q @ self.of_each_head(k).transpose(2, 3))
        if c.attention_cap > 0:
            scores = c.attention_cap * torch.tanh(scores / c.attention_cap)
        return self.finish(u, self.weights(without_padding(scores, read)) @ self.of_each_head(v))


def gated(kind, gate, up):
    if kind != "swiglu-clamped":
        return ACTIVATIONS[GATES[kind]](gate) * up
    gate = gate.clamp(max=7)
    return gate * torch.sigmoid(1.702 * gate) * (up.clamp(-7, 7) + 1)


class Expert(nn.Module):
    """One feed-forward layer of a mixture, up to `down` and from there on."""

    def __init__(self, config):
        super().__init__()
        C, hidden = config.hidden_size, config.intermediate_size
        self.up = nn.Linear(C, hidden, bias=config.bias)
        self.gate = nn.Linear(C, hidden, bias=config.bias) if config.activation in GATES else None
        self.down = nn.Linear(hidden, C, bias=config.bias)
        self.kind = config.activation

    def inner(self, u):
        return ACTIVATIONS[self.kind](self.up(u)) if self.gate is None else gated(self.kind, self.gate(u), self.up(u))


class Router(nn.Module):
    """Chooses experts by their softmax scores. `selection_bias` moves the choice, not the weights."""

    def __init__(self, config):
        super().__init__()
        self.k, self.renormalize = config.experts_per_token, config.router_renormalize
        self.weight = nn.Parameter(torch.zeros(config.experts, config.hidden_size))
        self.bias = nn.Parameter(torch.zeros(config.experts)) if config.router_logit_bias else None
        if config.router_bias:
            self.register_buffer("selection_bias", torch.zeros(config.experts))

    def forward(self, u):
        """u (N,C) -> weights (N,k), numbers of experts (N,k)"""
        scores = F.linear(u, self.weight, self.bias).softmax(-1)
        chosen = (scores + getattr(self, "selection_bias", 0)).topk(self.k).indices
        weights = scores.gather(-1, chosen)
        return weights / weights.sum(-1, keepdim=True) if self.renormalize else weights, chosen


class Mixture(Branch):
    """The sum of the chosen experts with their weights, and of the shared experts."""

    def __init__(self, config, layer):
        super().__init__(config, layer, config.ffn_norms, config.intermediate_size, config.block != "parallel-shared")
        self.router = Router(config)
        self.expert = nn.ModuleList(Expert(config) for _ in range(config.experts))
        self.shared = nn.ModuleList(Expert(config) for _ in range(config.shared_experts))

    def forward(self, u):
        rows = u.flatten(0, -2)
        weights, chosen = self.router(rows)
        f = sum((e.down(self.norm_inner(e.inner(rows))) for e in self.shared), torch.zeros_like(rows))
        for i, e in enumerate(self.expert):
            n, j = torch.where(chosen == i)
            f = f.index_add(0, n, weights[n, j, None] * e.down(self.norm_inner(e.inner(rows[n]))))
        return f.view_as(u)


class FeedForward(Branch):
    def __init__(self, config, layer):
        enters = config.block != "parallel-shared"
        super().__init__(config, layer, config.ffn_norms, config.intermediate_size, enters)
        C, hidden = config.hidden_size, config.intermediate_size
        self.up = nn.Linear(C, hidden, bias=config.bias)
        self.gate = nn.Linear(C, hidden, bias=config.bias) if config.activation in GATES else None
        self.down = nn.Linear(hidden, C, bias=config.bias)
        self.kind = config.activation

    def forward(self, u):
        h = ACTIVATIONS[self.kind](self.up(u)) if self.gate is None else gated(self.kind, self.gate(u), self.up(u))
        return self.down(self.norm_inner(h))


class Block(nn.Module):
    """Sequential: the feed-forward branch reads what attention left. Parallel: both read x, with a norm each or one."""

    def __init__(self, config, layer):
        super().__init__()
        self.form, self.skip, self.bypass = config.block, config.skip_scale, config.bypass
        if config.stream_mix:
            self.stream_mix = Mix()
        self.attention = Attention(config, layer)
        if config.is_encoder_decoder:
            self.cross = CrossAttention(config, layer)
        self.ffn = Mixture(config, layer) if config.experts else FeedForward(config, layer)
        self.scale = Gain(1) if config.learned_gain == "block" else None
        self.gpas = Gpas() if config.gpas else nn.Identity()

    def forward(self, x, first, cache, carried):
        """`carried` holds what crosses layers: the input of the first block, the values of its attention, the biases
        of relative positions, which keys are tokens, and the output of the encoder."""
        if hasattr(self, "stream_mix"):
            x = self.stream_mix(x, carried["x"])
        u = self.attention.enter(x)
        f = self.attention(u, first, cache, carried)
        y = self.gpas(self.attention.leave(self.skip * self.attention.past(x), f, self.scale))
        if hasattr(self, "cross"):
            f = self.cross(self.cross.enter(y), *carried["memory"])
            y = self.gpas(self.cross.leave(self.skip * self.cross.past(y), f, self.scale))
        if self.form == "sequential":
            skipped = self.skip * self.ffn.past(y)
            skipped = skipped + x if self.bypass else skipped  # a bypass adds the block's input again
            return self.gpas(self.ffn.leave(skipped, self.ffn(self.ffn.enter(y)), self.scale))
        u = self.ffn.enter(x) if self.form == "parallel" else u
        return self.ffn.leave(y, self.ffn(u), self.scale)


class Embedding(nn.Module):
    """The embedding of tokens and positions. An encoder's has no tokens of its own."""

    def __init__(self, config, tokens=True):
        super().__init__()
        C, E = config.hidden_size, config.embedding_channels
        self.kind, self.scale, self.context = config.position, config.embedding_scale, config.max_position_embeddings
        if tokens:
            self.token = nn.Embedding(config.vocab_size, E)
            self.project = nn.Linear(E, C, bias=False) if E != C else nn.Identity()
        self.token_type = nn.Embedding(config.token_types, C) if config.token_types else None
        self.position = nn.Embedding(self.context, C) if self.kind == "learned" else None
        self.norm = Norm(config, C) if config.embedding_norm else nn.Identity()

    def of(self, tokens):
        return self.project(self.scale * self.token(tokens))

    def forward(self, x, first):
        """Adds positions to embedded tokens, (B,T,C)."""
        t = torch.arange(first, first + x.shape[1])
        if self.kind == "learned":
            if first + len(t) > self.context:
                raise ValueError(f"{first + len(t)} tokens are more than this model's context, {self.context}")
            x = x + self.position(t.to(x.device))
        if self.kind == "sinusoidal":  # sine and cosine alternate
            C = x.shape[-1]
            angle = t.double()[:, None] * 10000 ** (-torch.arange(0, C, 2, dtype=torch.float64) / C)
            x = x + torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :C].to(x)
        if self.token_type is not None:  # every token has the first type
            x = x + self.token_type.weight[0]
        return self.norm(x)


class Head(nn.Module):
    """Logits; a tied head uses the embedding's weight."""

    def __init__(self, config):
        super().__init__()
        V, C, E = config.vocab_size, config.hidden_size, config.embedding_channels
        self.transform = nn.Linear(C, C, bias=config.bias) if config.head_transform else None
        self.norm = Norm(config, C) if config.head_transform else None
        self.kind = config.activation
        self.project = nn.Linear(C, E, bias=False) if E != C else nn.Identity()
        self.weight = None if config.tie_word_embeddings else nn.Parameter(torch.zeros(V, E))
        self.bias = nn.Parameter(torch.zeros(V)) if config.head_bias else None
        self.scale, self.cap = config.logit_scale, config.logit_cap

    def forward(self, x, embedding):
        if self.transform is not None:
            x = self.norm(ACTIVATIONS[self.kind](self.transform(x)))
        logits = self.scale * F.linear(self.project(x), embedding if self.weight is None else self.weight, self.bias)
        return self.cap * torch.tanh(logits / self.cap) if self.cap > 0 else logits


def add_stack(module, config, tokens=True):
    """Makes the blocks of a model, or of its encoder, and what is around them, to be parts of the module."""
    module.embedding = Embedding(config, tokens)
    module.relative = RelativePositions(config) if config.position == "relative" else None
    module.block = nn.ModuleList(Block(config, layer) for layer in range(config.num_hidden_layers))
    module.final_norm = Norm(config, config.hidden_size, "final_norm") if config.final_norm else nn.Identity()


def run_stack(module, x, first=0, cache=None, read=None, memory=None):
    """x (B,T,C) embedded tokens, after `first` tokens in the cache -> (B,T,C). read (B,T) is false at padding."""
    x = module.embedding(x, first)
    relative = None if module.relative is None else module.relative(first, x.shape[1])
    carried = {"x": x, "relative": relative, "read": read, "memory": memory}
    for block in module.block:
        x = block(x, first, cache, carried)
    return module.final_norm(x)


def refuse(arguments, mask):
    """Refuses what the model does not compute, as transformers may rename an argument."""
    for name, value in arguments.items():
        if value is not None and (name not in NEUTRAL or value != NEUTRAL[name]):
            raise TypeError(f"{name}={value} is not supported")
    if mask is not None and not mask.all():
        raise ValueError("padding and static caches are not supported: make all rows of a batch equally long")


def check_positions(first, length, *given):
    for positions in given:
        if positions is not None and not (positions.cpu() == torch.arange(first, first + length)).all():
            raise ValueError(f"the positions must count from {first}, as the cache holds {first} tokens")


def tokens_in(mask):
    """attention_mask (B,S) of sources -> the same as truth values, or null"""
    if mask is None or mask.all():
        return None
    if not mask[:, 0].all() or (mask[:, 1:] > mask[:, :-1]).any():
        raise ValueError("padding comes after a source: set the tokenizer's padding_side to right")
    return mask.bool()


class Encoder(nn.Module):
    main_input_name = "input_ids"  # which transformers asks for

    def __init__(self, config, embedding):
        super().__init__()
        add_stack(self, config, tokens=False)
        self.shared = [embedding]  # in a list, so that it is a part of the decoder alone

    def forward(self, input_ids, attention_mask=None, **others):
        """input_ids (B,S) -> (B,S,C)"""
        refuse(others, None)
        x = self.shared[0].of(input_ids)
        return BaseModelOutput(last_hidden_state=run_stack(self, x, read=tokens_in(attention_mask)))


class TrainGPT(PreTrainedModel):
    config_class = TrainGPTConfig
    accepts_loss_kwargs = False  # the loss is a mean: a Trainer that accumulates gradients must divide it
    causal = True

    def __init__(self, config):
        super().__init__(config)
        add_stack(self, config)
        if config.is_encoder_decoder:
            self.encoder = Encoder(TrainGPTConfig(**config.encoder_stack), self.embedding)
        self.head = Head(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embedding.token

    def forward(
        self, input_ids, attention_mask=None, cache=None, past_key_values=None, position_ids=None, cache_position=None,
        labels=None, use_cache=None, **others,
    ):  # fmt: skip
        """input_ids (B,T), after the tokens in the cache -> logits (B,T,V), and the mean loss if there are labels."""
        refuse(others, attention_mask)
        cache = past_key_values if cache is None else cache
        if cache is not None and not self.causal:
            raise ValueError("a model of masked tokens has no use for a cache")
        if cache is None and use_cache and self.causal:
            cache = DynamicCache()
        first = 0 if cache is None else cache.get_seq_length()
        check_positions(first, input_ids.shape[1], position_ids, cache_position)
        x = run_stack(self, self.embedding.of(input_ids), first, cache)
        logits = self.head(x, self.embedding.token.weight)
        loss = None
        if labels is not None:
            shift = 1 if self.causal else 0  # the label of a token is the next one, or itself
            loss = F.cross_entropy(logits[:, : logits.shape[1] - shift].flatten(0, 1), labels[:, shift:].flatten())
        return self.output(loss, logits, cache)


class TrainGPTForCausalLM(TrainGPT, GenerationMixin):
    def output(self, loss, logits, cache):
        return CausalLMOutputWithPast(loss=loss, logits=logits, **{CACHE: cache})


class TrainGPTForMaskedLM(TrainGPT):
    causal = False

    def output(self, loss, logits, cache):
        return MaskedLMOutput(loss=loss, logits=logits)


class TrainGPTForSeq2SeqLM(TrainGPT, GenerationMixin):
    """An encoder reads the source. The labels of a decoder's tokens are the tokens that it is to write after them."""

    def get_encoder(self, *_):
        return self.encoder

    def prepare_decoder_input_ids_from_labels(self, labels):
        starts = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        return torch.cat((starts, labels[:, :-1]), 1).masked_fill(labels.roll(1, 1) == -100, self.config.pad_token_id)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None, decoder_attention_mask=None,
        encoder_outputs=None, cache=None, past_key_values=None, cache_position=None, labels=None, use_cache=None,
        **others,
    ):  # fmt: skip
        """input_ids (B,S) a source, decoder_input_ids (B,T) after the tokens in the cache -> logits (B,T,V)"""
        refuse(others, decoder_attention_mask)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if decoder_input_ids is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        cache = past_key_values if cache is None else cache
        if cache is None and use_cache:
            cache = DynamicCache()
        first = 0 if cache is None else cache.get_seq_length()
        check_positions(first, decoder_input_ids.shape[1], cache_position)
        own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        memory = encoder_outputs[0], tokens_in(attention_mask)
        x = run_stack(self, self.embedding.of(decoder_input_ids), first, own, memory=memory)
        logits = self.head(x, self.embedding.token.weight)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(
            loss=loss, logits=logits, encoder_last_hidden_state=encoder_outputs[0], **{CACHE: cache}
        )
