"""The configuration of a model: the options of `train_gpt train` that describe it, resolved and checked."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Optional

import parametrization
from layers import activation, norm, residual


@dataclass
class Config:
    placement: str = "pre"
    norm: str = "layernorm"  # one of norm.KINDS
    norm_in: str = "same"  # of a site: as `norm`, or a name of norm.KINDS or norm.PLAIN
    norm_inner: str = "same"
    norm_out: str = "same"
    norm_sum: str = "same"
    norm_final: str = "same"
    norm_eps: float = 1e-5
    norm_bias: Optional[bool] = None  # None: as `bias`, but false for norm.WITHOUT_BIAS
    norm_gain: bool = True
    norm_unit_offset: bool = False  # the gain is 1 + w
    dyt_alpha: float = 0.5  # initial α of DyT and Derf
    gated_norm_rank: int = 16  # of the gate of GatedNorm
    final_norm: Optional[bool] = None  # None: the default of the placement
    embedding_norm: bool = False
    fix_norm: bool = False  # rows of the token embedding and of the classifier have length 1
    qk_norm: str = "none"  # none | head | full | qkv | unit
    block: str = "sequential"  # sequential | parallel | parallel-shared
    streams: int = 4  # residual streams of placements that mix them
    residual_block: int = 1  # branches in each block of attention residuals
    gated_residual_rank: int = 32  # of the gates of the gated residual
    mix_fraction: float = 0.25  # share of the blocks that are Post-LN under mix-ln, from the first
    layers: int = 4  # of the decoder if there are two stacks
    encoder_layers: int = 0  # blocks of an encoder, which the decoder reads by cross attention; 0: none
    encoder_placement: str = "same"  # as `placement`, or another
    encoder_norm: str = "same"
    encoder_attention: str = "bidirectional"
    decoder_layers: int = 0  # of the decoder that reads this stack; only in `encoder`
    heads: int = 4
    kv_heads: int = 0  # 0: as many as heads
    head_dim: int = 0  # 0: channels / heads
    channels: int = 128
    embedding_channels: int = 0  # of a token, projected to channels and back; 0: channels
    hidden: int = 0  # 0: 4 C, or 8/3 C rounded up to a multiple of 32 if gated
    context: int = 256
    vocab_size: int = 0
    objective: str = "lm"  # lm | mlm | pairs
    attention: str = "objective"  # objective | causal | bidirectional
    token_types: int = 0  # the first is added to every token
    head_transform: bool = False  # a linear layer, the activation and a norm before the classifier
    experts: int = 0  # each `hidden` wide; 0: one feed-forward layer
    experts_per_token: int = 2
    shared_experts: int = 0
    router_renormalize: bool = True
    router_logit_bias: bool = False
    router_loss: float = 0.01  # weight of the load-balancing loss
    router_z_loss: float = 0.0
    position: str = "learned"  # learned | sinusoidal | rope | alibi | relative | none
    relative_buckets: int = 32
    relative_distance: int = 128  # from here on, distances share the last bucket
    rope_theta: float = 10000.0
    rope_fraction: float = 1.0  # share of each head that RoPE rotates
    rope_layers: str = "all"  # "all", "none", "3 of 4", "last 1 of 2" or "0,4,8": see layers/layer_set.py
    rope_scaling: str = "none"  # none | linear | llama3 | yarn | dynamic | longrope
    rope_factor: float = 1.0
    rope_original: int = 0  # context before the stretching; 0: `context`
    rope_slow: float = 0.0  # 0: 1
    rope_fast: float = 0.0  # 0: 32 of yarn, 4 of llama3
    rope_truncate: bool = True  # yarn fades between whole pairs
    rope_short: str = ""  # longrope: each pair's factor, as "1,1.05,2", in examples up to rope_original
    rope_long: str = ""  # and in longer ones
    rope_magnitude: Optional[float] = None  # None: as rope_scaling says
    window: int = 0  # keys that a query sees, itself included; 0: all
    window_layers: str = "all"  # layers that have the window
    window_rope_theta: Optional[float] = None  # base in these layers; None: rope_theta
    attention_cap: float = 0.0  # c·tanh(s/c) on the scores; 0 is off
    attention_scale: Optional[float] = None  # None: head_dim^-½
    attention_sinks: bool = False  # a learned logit per head in the softmax, without a value
    head_scale: Optional[bool] = None  # a learned factor on each head; None: the default of the placement
    output_gate: str = "none"  # none | headwise | elementwise
    value_residual: str = "none"  # none | fixed | learned
    activation: str = "gelu-tanh"  # a name of activation.FORWARD or activation.GATE
    bias: bool = True
    qkv_bias: Optional[bool] = None  # None: as `bias`
    o_bias: Optional[bool] = None  # None: as `bias`
    head_bias: bool = False
    tied: bool = True
    embedding_scale: Optional[float] = None  # None: 1, or √embedding_channels under fix_norm
    logit_scale: Optional[float] = None  # before the cap; None: as the parametrization says
    logit_cap: float = 0.0  # c·tanh(l/c) on the logits; 0 is off
    lora: int = 0  # rank of low-rank adapters, which alone train; 0: none
    lora_alpha: float = 16.0
    lora_on: str = "q,v"  # matrices with adapters
    stream_mix: bool = False  # x ← a·x + b·x0 before each block
    skip_scale: Optional[float] = None  # α; None: the default of the placement
    branch_scale: Optional[float] = None  # factor on what a branch adds; None: as the parametrization says
    branch_warmup: str = "none"  # none | prores | branchnorm
    branch_warmup_steps: int = 0
    parametrization: str = "sp"  # sp | mup | completep | nugpt
    eigen_rate_init: float = 0.05  # α of ngpt at the start
    up_gain: bool = False  # a learned factor on each output of gate and up
    logit_gain: bool = False  # and on each logit
    normed_weights: bool = False  # vectors of C weights have length 1 after each step
    base_channels: int = 0
    base_layers: int = 0
    base_heads: int = 0  # 0: heads

    encoder = None  # the Config of the encoder, if there is one

    def __post_init__(self):
        if self.encoder_layers:
            self.encoder = self.of_encoder()
        self.placement = residual.ALIASES.get(self.placement, self.placement)
        placement = residual.PLACEMENTS[self.placement]
        if self.norm_bias is None:
            self.norm_bias = self.bias and self.norm not in norm.WITHOUT_BIAS
        if self.final_norm is None:
            self.final_norm = placement.final_norm
        if self.skip_scale is None:
            self.skip_scale = placement.skip(self.depths)
        if self.placement.startswith("hybridnorm") and self.qk_norm == "none":
            self.qk_norm = "qkv"
        if self.head_scale is None:
            self.head_scale = self.placement == "normformer"
        self.embedding_channels = self.embedding_channels or self.channels
        self.base_heads = self.base_heads or self.heads
        if self.attention == "objective":
            self.attention = "bidirectional" if self.objective == "mlm" else "causal"
        self.kv_heads = self.kv_heads or self.heads
        self.head_dim = self.head_dim or self.channels // self.heads
        if self.embedding_scale is None:
            self.embedding_scale = math.sqrt(self.embedding_channels) if self.fix_norm else 1.0
        if self.logit_scale is None:
            self.logit_scale = parametrization.logits(self)
        if self.branch_scale is None:
            self.branch_scale = parametrization.branch(self) if self.placement != "ngpt" else 1.0
        if self.attention_scale is None:
            inverse = 0.5 if self.qk_norm == "unit" else -0.5
            self.attention_scale = self.head_dim**inverse * parametrization.scores(self)
        if self.qkv_bias is None:
            self.qkv_bias = self.bias
        if self.o_bias is None:
            self.o_bias = self.bias
        self.rope_original = self.rope_original or self.context
        self.rope_slow = self.rope_slow or 1.0
        self.rope_fast = self.rope_fast or (32.0 if self.rope_scaling == "yarn" else 4.0)
        if self.rope_magnitude is None:
            log = math.log(self.rope_factor)
            own = {"yarn": lambda: 0.1 * log + 1, "longrope": lambda: math.sqrt(1 + log / math.log(self.rope_original))}
            self.rope_magnitude = own.get(self.rope_scaling, lambda: 1.0)()
        if not self.hidden:
            self.hidden = 32 * -(-8 * self.channels // 96) if self.gated else 4 * self.channels
        assert self.norm in norm.KINDS, self.norm
        for site in norm.SITES.values():
            assert getattr(self, f"norm_{site}") in ("same", *norm.KINDS, *norm.PLAIN), site
        assert self.norm in ("layernorm", "rmsnorm") or self.norm_gain and not self.norm_unit_offset, self.norm
        assert not self.norm_bias or self.norm != "scalenorm"
        assert self.position in ("learned", "sinusoidal", "rope", "alibi", "relative", "none"), self.position
        assert self.activation in activation.FORWARD | activation.GATE, self.activation
        assert self.qk_norm in ("none", "head", "full", "qkv", "unit"), self.qk_norm
        assert self.output_gate in ("none", "headwise", "elementwise"), self.output_gate
        assert self.value_residual in ("none", "fixed", "learned"), self.value_residual
        assert self.block in ("sequential", "parallel", "parallel-shared"), self.block
        assert self.heads % self.kv_heads == 0
        assert self.block == "sequential" or not self.encoder

    def of_encoder(self):
        """Every choice is the decoder's, except those that are named for the encoder. What is open follows from them.
        """
        own = {"layers": self.encoder_layers, "decoder_layers": self.layers, "attention": self.encoder_attention}
        named = {"placement": self.encoder_placement, "norm": self.encoder_norm}
        own |= {name: value for name, value in named.items() if value != "same"}
        if self.encoder_norm != "same":  # at every site
            own |= {f"norm_{site}": "same" for site in norm.SITES.values()}
        return Config(**asdict(self) | own | {"encoder_layers": 0})

    @property
    def depths(self):
        layers = self.base_layers if parametrization.scales_depth(self) else self.layers
        return residual.Depths(layers, self.encoder_layers, self.decoder_layers)

    @property
    def gated(self):
        return self.activation in activation.GATE

    @staticmethod
    def from_options(options):
        """From a dict with the names of command-line options. Ignores other options; an empty value means None."""
        known = {f.name.replace("_", "-"): f.name for f in fields(Config)}
        return Config(**{known[k]: v for k, v in options.items() if k in known and v not in (None, "")})
