"""A tiny `transformers` model for each preset, and the rules that map its parameters to ours.

A rule maps one of our modules to one of theirs, with a permutation if the layouts differ. `#` stands for the layer. A
permutation takes the rows of a weight, one per output, and returns our module's rows in our order.
"""

from dataclasses import dataclass, field

import torch
import transformers as hf

from layers.parameters import ENCODER

# ---- permutations: w (outputs, ...), o the sizes ------------------------------------------------------------


def same(w, o):
    return w


def piece(i, n):
    """The i-th of n equal parts: gpt2's q|k|v, GLM's gate|up."""
    return lambda w, o: w.reshape(n, -1, *w.shape[1:])[i]


def of_heads(i):
    """BLOOM, GPT-NeoX: q, k and v of a head are together, (H, 3, D)."""
    return lambda w, o: w.reshape(o["heads"], 3, -1, *w.shape[1:])[:, i].reshape(-1, *w.shape[1:])


def of_groups(which):
    """Falcon: the query heads of a group, their key head, their value head, (KV, H/KV + 2, D)."""
    rows = {"q": slice(None, -2), "k": slice(-2, -1), "v": slice(-1, None)}[which]
    size = {"q": "heads"}.get(which, "kv-heads")

    def transform(w, o):
        groups = w.reshape(o["kv-heads"], o["heads"] // o["kv-heads"] + 2, -1, *w.shape[1:])
        return groups[:, rows].reshape(o[size] * groups.shape[2], *w.shape[1:])

    return transform


def halves(w, o):
    """GLM rotates the pairs (2i, 2i + 1) of the first half of a head; we rotate (i, i + R/2)."""
    D = o["head-dim"]
    R = D // 2
    order = [*range(0, R, 2), *range(1, R, 2), *range(R, D)]
    return w.reshape(-1, D, *w.shape[1:])[:, order].reshape(w.shape)


def after(n):
    """OPT's table of positions begins with two rows that are never read."""
    return lambda w, o: w[n:]


# ---- rules: our module -> theirs, or (theirs, permutation) --------------------------------------------------


def pair(rule):
    return rule if isinstance(rule, tuple) else (rule, same)


def block(layer, rules):
    """The rules of a block. Their modules are below `layer`."""
    pairs = {ours: pair(rule) for ours, rule in rules.items()}
    return {f"block.#.{ours}": (f"{layer}.{theirs}", transform) for ours, (theirs, transform) in pairs.items()}


def fused(name, transform, parts=(0, 1, 2)):
    return {f"attention.{p}": (name, transform(i)) for p, i in zip("qkv", parts)}


GPT1_BLOCK = fused("attn.c_attn", lambda i: piece(i, 3)) | {
    "attention.o": "attn.c_proj", "attention.norm_sum": "ln_1",
    "ffn.up": "mlp.c_fc", "ffn.down": "mlp.c_proj", "ffn.norm_sum": "ln_2",
}  # fmt: skip
GPT1 = {"embedding.token": "transformer.tokens_embed", "embedding.position": "transformer.positions_embed"}
GPT1 |= block("transformer.h.#", GPT1_BLOCK)

GPT2_BLOCK = {k.replace("norm_sum", "norm_in"): v for k, v in GPT1_BLOCK.items()}
GPT2 = {"embedding.token": "transformer.wte", "embedding.position": "transformer.wpe"}
GPT2 |= block("transformer.h.#", GPT2_BLOCK) | {"final_norm": "transformer.ln_f"}

QKV = {f"attention.{p}": f"self_attn.{p}_proj" for p in "qkv"}
OPT = {
    "embedding.token": "model.decoder.embed_tokens",
    "embedding.position": ("model.decoder.embed_positions", after(2)),
    "embedding.project": "model.decoder.project_in", "head.project": "model.decoder.project_out",
} | block("model.decoder.layers.#", QKV | {
    "attention.o": "self_attn.out_proj", "attention.norm_sum": "self_attn_layer_norm",
    "ffn.up": "fc1", "ffn.down": "fc2", "ffn.norm_sum": "final_layer_norm",
})  # fmt: skip

MLP = {f"ffn.{p}": f"mlp.{p}_proj" for p in ("gate", "up", "down")}
LLAMA_BLOCK = QKV | MLP | {
    "attention.norm_in": "input_layernorm", "attention.o": "self_attn.o_proj",
    "ffn.norm_in": "post_attention_layernorm",
}  # fmt: skip
HEADS = {f"attention.{p}_norm": f"self_attn.{p}_norm" for p in "qk"}


def llama(rules, final="model.norm", head=True):
    outside = {"final_norm": final} | ({"head": "lm_head"} if head else {})
    return {"embedding.token": "model.embed_tokens"} | block("model.layers.#", rules) | outside


LLAMA = llama(LLAMA_BLOCK)
QWEN3 = llama(LLAMA_BLOCK | HEADS)
GLM = llama(LLAMA_BLOCK | {
    "attention.q": ("self_attn.q_proj", halves), "attention.k": ("self_attn.k_proj", halves),
    "ffn.gate": ("mlp.gate_up_proj", piece(0, 2)), "ffn.up": ("mlp.gate_up_proj", piece(1, 2)),
})  # fmt: skip
PHI = llama(QKV | {
    "attention.norm_in": "input_layernorm", "attention.o": "self_attn.dense",
    "ffn.up": "mlp.fc1", "ffn.down": "mlp.fc2",
}, final="model.final_layernorm")  # fmt: skip
GEMMA2 = llama(LLAMA_BLOCK | {
    "attention.norm_out": "post_attention_layernorm", "ffn.norm_in": "pre_feedforward_layernorm",
    "ffn.norm_out": "post_feedforward_layernorm",
}, head=False)  # fmt: skip
GEMMA3 = GEMMA2 | block("model.layers.#", HEADS)
OLMO2 = llama(QKV | MLP | HEADS | {
    "attention.o": "self_attn.o_proj", "attention.norm_out": "post_attention_layernorm",
    "ffn.norm_out": "post_feedforward_layernorm",
})  # fmt: skip



def experts(count):
    """transformers joins the matrices of all experts: gate_up_proj (E,2F,C) and down_proj (E,C,F)."""

    def gate_up(i, part):
        return lambda w, o: w[i][part * o["hidden"] : (part + 1) * o["hidden"]]

    def down(i):
        return lambda w, o: w[i]

    rules = {"ffn.router": "mlp.gate"}
    for i in range(count):
        rules[f"ffn.expert.{i}.gate"] = "mlp.experts.gate_up_proj", gate_up(i, 0)
        rules[f"ffn.expert.{i}.up"] = "mlp.experts.gate_up_proj", gate_up(i, 1)
    for i in range(count):
        rules[f"ffn.expert.{i}.down"] = "mlp.experts.down_proj", down(i)
    return rules


def llama_moe(count, more=None):
    return llama({k: v for k, v in LLAMA_BLOCK.items() if k not in MLP} | experts(count) | (more or {}))


BIG_MLP = {"ffn.up": "mlp.dense_h_to_4h", "ffn.down": "mlp.dense_4h_to_h"}
BLOOM = {
    "embedding.token": "transformer.word_embeddings", "embedding.norm": "transformer.word_embeddings_layernorm",
} | block("transformer.h.#", BIG_MLP | fused("self_attention.query_key_value", of_heads) | {
    "attention.norm_in": "input_layernorm", "attention.o": "self_attention.dense",
    "ffn.norm_in": "post_attention_layernorm",
}) | {"final_norm": "transformer.ln_f"}  # fmt: skip


def falcon(norms):
    rules = BIG_MLP | fused("self_attention.query_key_value", of_groups, "qkv") | norms
    return {"embedding.token": "transformer.word_embeddings", "final_norm": "transformer.ln_f"} | block(
        "transformer.h.#", rules | {"attention.o": "self_attention.dense"}
    )


GPT_NEOX = {"embedding.token": "gpt_neox.embed_in"} | block("gpt_neox.layers.#",
    BIG_MLP | fused("attention.query_key_value", of_heads) | {
    "attention.norm_in": "input_layernorm", "attention.o": "attention.dense",
    "ffn.norm_in": "post_attention_layernorm",
}) | {"final_norm": "gpt_neox.final_layer_norm", "head": "lm_head"}  # fmt: skip


def bert(name, positions, head):
    return {
        "embedding.token": f"{name}.embeddings.word_embeddings",
        "embedding.position": (f"{name}.embeddings.position_embeddings", positions),
        "embedding.token_type": f"{name}.embeddings.token_type_embeddings",
        "embedding.norm": f"{name}.embeddings.LayerNorm",
    } | block(f"{name}.encoder.layer.#", {
        "attention.q": "attention.self.query", "attention.k": "attention.self.key",
        "attention.v": "attention.self.value", "attention.o": "attention.output.dense",
        "attention.norm_sum": "attention.output.LayerNorm", "ffn.up": "intermediate.dense",
        "ffn.down": "output.dense", "ffn.norm_sum": "output.LayerNorm",
    }) | head  # fmt: skip


BERT_HEAD = {"transform": "transform.dense", "norm": "transform.LayerNorm"}
BERT = bert("bert", same, {f"head.{k}": f"cls.predictions.{v}" for k, v in BERT_HEAD.items()})
BERT |= {"head": "cls.predictions"}
ROBERTA = bert("roberta", after(2), {"head.transform": "lm_head.dense", "head.norm": "lm_head.layer_norm"})
ROBERTA |= {"head": "lm_head"}

# ---- rules of models with an encoder and a decoder ----------------------------------------------------------


def stack(ours, theirs, layers, branches, outside):
    """`branches` are the modules of a layer, `outside` those around the layers."""
    rules = {name: (f"{theirs}.{pair(rule)[0]}", pair(rule)[1]) for name, rule in outside.items()}
    return {ours + name: rule for name, rule in (rules | block(f"{theirs}.{layers}.#", branches)).items()}


def t5(ffn, head):
    def attention(branch, theirs, place):
        rules = {f"{branch}.{part}": f"layer.{place}.{theirs}.{part}" for part in "qkvo"}
        return rules | {f"{branch}.norm_in": f"layer.{place}.layer_norm"}

    def feed_forward(place):
        rules = {f"ffn.{ours}": f"layer.{place}.DenseReluDense.{theirs}" for ours, theirs in ffn.items()}
        return rules | {"ffn.norm_in": f"layer.{place}.layer_norm"}

    own = attention("attention", "SelfAttention", 0)
    outside = {"relative": "block.0.layer.0.SelfAttention.relative_attention_bias", "final_norm": "final_layer_norm"}
    encoder = stack(ENCODER, "encoder", "block", own | feed_forward(1), outside)
    crossing = own | attention("cross", "EncDecAttention", 1) | feed_forward(2)
    return {"embedding.token": "shared"} | encoder | stack("", "decoder", "block", crossing, outside) | head


def fairseq(norm, outside):
    """BART, mBART, Marian and Pegasus name their modules as fairseq does. `norm` is norm_in or norm_sum."""

    def attention(branch, theirs):
        rules = {f"{branch}.{part}": f"{theirs}.{part}_proj" for part in "qkv"}
        return rules | {f"{branch}.o": f"{theirs}.out_proj", f"{branch}.{norm}": f"{theirs}_layer_norm"}

    own = attention("attention", "self_attn")
    ffn = {"ffn.up": "fc1", "ffn.down": "fc2", f"ffn.{norm}": "final_layer_norm"}
    encoder = stack(ENCODER, "model.encoder", "layers", own | ffn, outside)
    decoder = stack("", "model.decoder", "layers", own | attention("cross", "encoder_attn") | ffn, outside)
    return {"embedding.token": "model.shared"} | encoder | decoder


T5_RELU = t5({"up": "wi", "down": "wo"}, {})
T5_GATED = t5({"gate": "wi_0", "up": "wi_1", "down": "wo"}, {"head": "lm_head"})
LEARNED = {"embedding.position": ("embed_positions", after(2)), "embedding.norm": "layernorm_embedding"}
BART = fairseq("norm_sum", LEARNED)
MBART = fairseq("norm_in", LEARNED | {"final_norm": "layer_norm"})
MARIAN = fairseq("norm_sum", {})
PEGASUS = fairseq("norm_in", {"final_norm": "layer_norm"})

# ---- the models ---------------------------------------------------------------------------------------------

# Our options as arguments of their configuration.
USUAL = {
    "layers": "num_hidden_layers", "heads": "num_attention_heads", "channels": "hidden_size",
    "hidden": "intermediate_size", "context": "max_position_embeddings", "vocab-size": "vocab_size",
    "kv-heads": "num_key_value_heads", "head-dim": "head_dim", "window": "sliding_window",
}  # fmt: skip
GPT = USUAL | {
    "layers": "n_layer", "heads": "n_head", "channels": "n_embd", "hidden": "n_inner", "context": "n_positions",
}  # fmt: skip
FALCON = USUAL | {"hidden": "ffn_hidden_size", "kv-heads": "num_kv_heads"}

# OLMoE calls the number of experts num_experts, Qwen3-MoE their width moe_intermediate_size.
MIXTRAL = USUAL | {"experts": "num_local_experts", "experts-per-token": "num_experts_per_tok"}
OLMOE = MIXTRAL | {"experts": "num_experts"}
QWEN3_MOE = MIXTRAL | {"hidden": "moe_intermediate_size"}

TINY = {
    "layers": 2, "heads": 4, "kv-heads": 4, "head-dim": 4, "channels": 16, "hidden": 12, "context": 12,
    "vocab-size": 13,
}  # fmt: skip
SMALL = TINY | {"head-dim": 2, "channels": 8, "hidden": 32}  # for models whose hidden layer is always 4 C wide
GQA = TINY | {"kv-heads": 2}
# transformers adds no loss of the router unless it is asked to.
MOE = {"experts": 4, "experts-per-token": 2, "router-loss": 0, "router-z-loss": 0}


@dataclass
class Model:
    """`options` are sizes for our preset, which determines everything else."""

    kind: type  # the class of their configuration
    model: type
    rules: dict
    options: dict = field(default_factory=lambda: TINY)
    names: dict = field(default_factory=lambda: USUAL)
    more: dict = field(default_factory=dict)  # other arguments of their configuration
    first_token: int = 0  # in batches; the tokens before it have a meaning
    query_scale: float = 1.0  # of the random weights of q

    @property
    def unit_offset(self):
        return self.kind in (hf.Gemma2Config, hf.Gemma3TextConfig)  # their gains are 1 + w

    @property
    def zero_key_bias(self):
        """Without RoPE a key bias adds the same number to every score of a query, and softmax cancels it."""
        return not hasattr(self.kind(), "rope_parameters")

    def build(self):
        known = self.kind().to_dict()
        sizes = {self.names[k]: v for k, v in self.options.items() if k in self.names}
        arguments = {k: v for k, v in sizes.items() if k in known} | self.more
        no_tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))  # padding would lose its gradient
        eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
        config = self.kind(**eager | no_tokens | arguments)
        return self.model(config).eval()


@dataclass
class PairModel(Model):
    """A model of sources and targets."""

    tied: bool = True

    def build(self):
        network = super().build()
        if not self.tied:  # the class ties its head, whatever its configuration says
            network.lm_head.weight = torch.nn.Parameter(torch.zeros_like(network.lm_head.weight))
        return network


def rope(theta, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta} | more}


def llama_like(
    theta, eps, options=TINY, kind=hf.LlamaConfig, model=hf.LlamaForCausalLM, rules=LLAMA, names=USUAL, **more
):
    return Model(kind, model, rules, options, names, more={"rms_norm_eps": eps} | rope(theta) | more)


MODELS = {
    "gpt1": Model(hf.OpenAIGPTConfig, hf.OpenAIGPTLMHeadModel, GPT1, SMALL, GPT),
    "bert": Model(hf.BertConfig, hf.BertForMaskedLM, BERT),
    "roberta": Model(
        hf.RobertaConfig, hf.RobertaForMaskedLM, ROBERTA, first_token=2,
        more={"max_position_embeddings": 14, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    ),
    "gpt2": Model(hf.GPT2Config, hf.GPT2LMHeadModel, GPT2, TINY, GPT),
    "gpt3": Model(hf.GPT2Config, hf.GPT2LMHeadModel, GPT2, TINY | {"hidden": 14}, GPT),  # except its banded layers
    "opt-350m": Model(
        hf.OPTConfig, hf.OPTForCausalLM, OPT, TINY | {"embedding-channels": 6},
        USUAL | {"hidden": "ffn_dim", "embedding-channels": "word_embed_proj_dim"}, {"do_layer_norm_before": False},
    ),
    "llama": llama_like(1e4, 1e-6),
    "llama2": llama_like(1e4, 1e-5, TINY | {"hidden": 14}),
    "llama3": llama_like(5e5, 1e-5, GQA),
    "mistral": llama_like(1e4, 1e-5, GQA | {"window": 4}, hf.MistralConfig, hf.MistralForCausalLM),
    "mixtral": llama_like(
        1e6, 1e-5, GQA | MOE, hf.MixtralConfig, hf.MixtralForCausalLM, llama_moe(4), MIXTRAL
    ),
    "qwen": llama_like(1e4, 1e-6, TINY, hf.Qwen2Config, hf.Qwen2ForCausalLM),
    "qwen2": llama_like(1e6, 1e-6, GQA, hf.Qwen2Config, hf.Qwen2ForCausalLM),
    "qwen3": llama_like(1e6, 1e-6, GQA | {"head-dim": 6}, hf.Qwen3Config, hf.Qwen3ForCausalLM, QWEN3),
    "qwen3-moe": llama_like(  # norm_topk_prob is false in the class and true in the published models
        1e6, 1e-6, GQA | MOE | {"head-dim": 6, "experts-per-token": 3}, hf.Qwen3MoeConfig, hf.Qwen3MoeForCausalLM,
        llama_moe(4, HEADS), QWEN3_MOE, norm_topk_prob=True, head_dim=6,
    ),
    "baichuan-7b": llama_like(1e4, 1e-6, TINY | {"hidden": 18}),
    "chatglm2-6b": llama_like(
        1e4, 1e-5, GQA | {"head-dim": 8}, hf.GlmConfig, hf.GlmForCausalLM, GLM, partial_rotary_factor=0.5
    ),
    "bloom": Model(  # six heads are not a power of two, so the slopes are not one geometric series
        hf.BloomConfig, hf.BloomForCausalLM, BLOOM,
        SMALL | {"heads": 6, "kv-heads": 6, "channels": 12, "hidden": 48}, GPT | {"channels": "hidden_size"},
    ),
    "falcon-7b": Model(
        hf.FalconConfig, hf.FalconForCausalLM, falcon({"attention.norm_in": "input_layernorm"}),
        TINY | {"kv-heads": 1}, FALCON,
    ),
    "falcon-40b": Model(
        hf.FalconConfig, hf.FalconForCausalLM, falcon({"attention.norm_in": "ln_attn", "ffn.norm_in": "ln_mlp"}),
        GQA, FALCON, {"new_decoder_architecture": True},
    ),
    "gpt-neox": Model(
        hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM, GPT_NEOX,
        TINY | {"heads": 2, "kv-heads": 2, "head-dim": 8},
        more={"hidden_act": "gelu_fast"} | rope(1e4, partial_rotary_factor=0.25),
    ),
    "phi-2": Model(
        hf.PhiConfig, hf.PhiForCausalLM, PHI,
        TINY | {"heads": 2, "kv-heads": 2, "head-dim": 10, "channels": 20, "rope-fraction": 0.4},
        more=rope(1e4, partial_rotary_factor=0.4),
    ),
    # caps low enough to matter; two layers with the window and two without
    "gemma2": llama_like(
        1e4, 1e-6,
        GQA | {
            "layers": 4, "head-dim": 6, "window": 4, "attention-cap": 2, "logit-cap": 3,
            "attention-scale": 0.25,
        },
        hf.Gemma2Config, hf.Gemma2ForCausalLM, GEMMA2,
        query_pre_attn_scalar=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    ),
    # three layers with the window, and the last one without
    "gemma3": llama_like(
        1e6, 1e-6, GQA | {"layers": 4, "head-dim": 6, "window": 4, "attention-scale": 0.25}, hf.Gemma3TextConfig,
        hf.Gemma3ForCausalLM, GEMMA3, query_pre_attn_scalar=16,
        layer_types=["sliding_attention"] * 3 + ["full_attention"], rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "olmoe": llama_like(
        1e4, 1e-5, TINY | MOE, hf.OlmoeConfig, hf.OlmoeForCausalLM, llama_moe(4, HEADS), OLMOE
    ),
    "olmo": llama_like(1e4, 1e-5, TINY, hf.OlmoConfig, hf.OlmoForCausalLM),  # its norms have no tensors
    "olmo2": llama_like(5e5, 1e-6, TINY, hf.Olmo2Config, hf.Olmo2ForCausalLM, OLMO2),
}  # fmt: skip

T5 = {
    "encoder-layers": "num_layers", "layers": "num_decoder_layers", "heads": "num_heads", "channels": "d_model",
    "hidden": "d_ff", "head-dim": "d_kv", "vocab-size": "vocab_size", "relative-buckets":
    "relative_attention_num_buckets", "relative-distance": "relative_attention_max_distance",
}  # fmt: skip
TINY_T5 = TINY | {"encoder-layers": 1, "head-dim": 5, "relative-buckets": 8, "relative-distance": 7}
PAIRS = {
    "t5": PairModel(hf.T5Config, hf.T5ForConditionalGeneration, T5_RELU, TINY_T5, T5, query_scale=5**-0.5),
    "t5-v1.1": PairModel(
        hf.T5Config, hf.T5ForConditionalGeneration, T5_GATED, TINY_T5, T5,
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, query_scale=5**-0.5, tied=False,
    ),
}  # fmt: skip

# Presets that transformers does not have, or whose gradients it computes in places that we cannot watch: sizes, and the
# wiring for our twin.
TWINS = {
    "baichuan-13b": (
        TINY | {"heads": 6, "kv-heads": 6},
        {"norm": "rmsnorm", "norm-eps": 1e-6, "position": "alibi", "activation": "swiglu"}
        | {"bias": False, "tied": False},
    ),
    "gpt-oss": (
        GQA | MOE | {"window": 4, "head-dim": 8, "rope-original": 12, "rope-theta": 100.0, "rope-factor": 4.0},
        {"norm": "rmsnorm", "norm-eps": 1e-5, "position": "rope", "activation": "swiglu-clamped", "tied": False}
        | {"attention-sinks": True, "router-logit-bias": True, "window-layers": "1 of 2", "rope-scaling": "yarn"}
        | {"rope-truncate": False},
    ),
    "chatglm-6b": (TINY, {"placement": "glm-deepnorm", "embedding-norm": True, "position": "rope"}),
}
