"""Compares encoder-decoder models of the twin with classes of `transformers`, in float64.

    python python_ref/check_pairs.py

Each class has random weights, the twin the same under our names. Logits, the loss and every gradient must agree, for
rows with padding. A rule maps one of our modules to one of theirs, as in huggingface_models.py.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import transformers as hf
from transformers.models.t5.modeling_t5 import T5Attention

from config import Config
from huggingface import SOURCES, TARGETS, double
from huggingface_models import BART, MARIAN, MBART, PEGASUS, T5_GATED, T5_RELU, pair
from layers import model, position
from layers.parameters import ENCODER, Parameters, Source

TOLERANCE = 1e-10
VOCABULARY, PADDING, CONTEXT, CHANNELS = 17, 16, 20, 12
SIZES = {
    "objective": "pairs", "encoder-layers": 2, "layers": 3, "heads": 2, "channels": CHANNELS, "hidden": 10,
    "context": CONTEXT, "vocab-size": VOCABULARY,
}  # fmt: skip

# ---- the models ---------------------------------------------------------------------------------------------

T5 = {"num_layers": 2, "num_decoder_layers": 3, "num_heads": 2, "d_model": CHANNELS, "d_ff": 10, "d_kv": 5}
FAIRSEQ = {
    "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 10, "decoder_ffn_dim": 10, "d_model": CHANNELS, "max_position_embeddings": CONTEXT,
}  # fmt: skip
BUCKETS = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 7}
OURS_T5 = {
    "placement": "pre", "norm": "rmsnorm", "norm-eps": 1e-6, "position": "relative", "relative-buckets": 8,
    "relative-distance": 7, "attention-scale": 1.0, "head-dim": 5, "bias": False,
}  # fmt: skip
OURS_BART = {"activation": "gelu", "position": "learned", "embedding-norm": True, "head-bias": True}
SINUSOIDS = {"position": "sinusoidal", "embedding-scale": math.sqrt(CHANNELS), "head-bias": True}


@dataclass
class Model:
    config: hf.PreTrainedConfig
    kind: type
    rules: dict
    options: dict  # of our model, beside SIZES
    halves: bool = False  # the sines of positions come first, then the cosines; ours alternate


MODELS = {
    "t5": Model(
        hf.T5Config(**T5, **BUCKETS), hf.T5ForConditionalGeneration, T5_RELU,
        OURS_T5 | {"activation": "relu", "logit-scale": CHANNELS**-0.5},
    ),
    "t5-v1.1": Model(
        hf.T5Config(**T5, **BUCKETS, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        hf.T5ForConditionalGeneration, T5_GATED, OURS_T5 | {"activation": "geglu-tanh", "tied": False},
    ),
    "bart": Model(
        hf.BartConfig(**FAIRSEQ), hf.BartForConditionalGeneration, BART, OURS_BART | {"placement": "post"},
    ),
    "mbart": Model(
        hf.MBartConfig(**FAIRSEQ, scale_embedding=True), hf.MBartForConditionalGeneration, MBART,
        OURS_BART | {"placement": "pre", "embedding-scale": math.sqrt(CHANNELS)},
    ),
    "marian": Model(
        hf.MarianConfig(**FAIRSEQ, scale_embedding=True, activation_function="swish"), hf.MarianMTModel, MARIAN,
        SINUSOIDS | {"placement": "post", "activation": "silu"}, halves=True,
    ),
    "marian-relu": Model(
        hf.MarianConfig(**FAIRSEQ, scale_embedding=False, activation_function="relu"), hf.MarianMTModel, MARIAN,
        SINUSOIDS | {"placement": "post", "activation": "relu", "embedding-scale": 1.0}, halves=True,
    ),
    "pegasus": Model(
        hf.PegasusConfig(**FAIRSEQ, scale_embedding=True, activation_function="relu"),
        hf.PegasusForConditionalGeneration, PEGASUS, SINUSOIDS | {"placement": "pre", "activation": "relu"},
        halves=True,
    ),
}  # fmt: skip

# The channels of the stream are the rows or the columns of these tensors.
STREAM_ROWS = ".o", ".down", ".norm_in", ".norm_sum", "final_norm"
STREAM_COLUMNS = ".q", ".k", ".v", ".up", "embedding.token"


ORDER = torch.arange(CHANNELS).view(2, -1).T.flatten()  # of their channels, so that sines and cosines alternate


def widen_sinusoids(network):
    """Their sinusoids are in float32."""
    exact = torch.empty(CONTEXT, CHANNELS)
    exact[:, ORDER] = position.sinusoids(CONTEXT, CHANNELS)
    for stack in network.model.encoder, network.model.decoder:
        table = stack.embed_positions.weight
        assert (table - exact).abs().max() < 1e-7
        table.copy_(exact)


def alternating(module, w):
    """Norms and sums do not see the order of channels."""
    if module.endswith(STREAM_ROWS):
        w = w[ORDER]
    return w[:, ORDER] if module.endswith(STREAM_COLUMNS) and w.ndim == 2 else w


def in_our_names(case, theirs):
    """theirs: {name: tensor} -> the same for our names"""
    found, options = {}, SIZES | case.options
    for ours, rule in case.rules.items():
        module, transform = pair(rule)
        count = options["encoder-layers" if ours.startswith(ENCODER) else "layers"] if "#" in ours else 1
        for layer in map(str, range(count)):
            for suffix in "weight", "bias":
                w = theirs.get(f"{module}.{suffix}".replace("#", layer))
                if w is not None:
                    name, w = ours.replace("#", layer), transform(w, options)
                    kind = "gain" if suffix == "weight" and w.ndim == 1 else suffix
                    found[f"{name}.{kind}"] = alternating(name, w) if case.halves else w
    bias = theirs.get("final_logits_bias")
    return found | ({} if bias is None else {"head.bias": bias[0]})


def build(case):
    config = case.config
    config.vocab_size, config.pad_token_id, config.decoder_start_token_id = VOCABULARY, PADDING, PADDING
    config.dropout_rate = config.dropout = config.attention_dropout = 0.0
    config._attn_implementation = "eager"
    network = case.kind(config).eval()
    if "head" in case.rules:  # the class ties it, and version 5.0 scales its input, whatever its file says
        network.config.scale_decoder_outputs = False
        network.lm_head.weight = torch.nn.Parameter(torch.empty(VOCABULARY, CHANNELS))
    bias = getattr(network, "final_logits_bias", None)
    tensors = {n: w for n, w in network.named_parameters() if w.requires_grad}
    tensors |= {} if bias is None else {"final_logits_bias": bias.requires_grad_()}
    with torch.no_grad():
        for n, w in tensors.items():
            w.copy_(torch.randn_like(w) * 0.3 + ("norm" in n and n.endswith("weight")))
        if case.halves:
            widen_sinusoids(network)
    return network, tensors


def padded(lengths):
    """(B,T) -> places, and which of them are tokens"""
    place = torch.arange(max(lengths)).expand(len(lengths), -1)
    return place, place < torch.tensor(lengths)[:, None]


def check(name, case):
    network, theirs = build(case)
    (_, read), (_, written) = padded(SOURCES), padded(TARGETS)
    sources, tokens, targets = (torch.randint(0, PADDING, mask.shape) for mask in (read, written, written))
    targets[~written] = -1
    out = network(input_ids=sources, attention_mask=read.long(), decoder_input_ids=tokens, use_cache=False)
    loss = F.cross_entropy(out.logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    loss.backward()

    c = Config.from_options(SIZES | case.options)
    found = in_our_names(case, {n: w.detach() for n, w in theirs.items()})
    assert {n: tuple(w.shape) for n, w in found.items()} == dict(model.table(c)), name
    p = Parameters({n: w.clone().requires_grad_() for n, w in found.items()})
    begins = torch.where(read, 0, torch.tensor(SOURCES)[:, None])
    ends = torch.tensor(SOURCES)[:, None].expand(written.shape)
    p.source = Source(sources, begins, torch.zeros_like(tokens), ends)
    logits = model.logits(p, c, tokens)
    p.terms = {}
    own_loss = model.loss(p, c, tokens, targets)
    own_loss.backward()

    wanted = in_our_names(case, {n: w.grad for n, w in theirs.items()})
    sizes = {n: g.norm().item() if g.norm() > 1e-12 * p.terms[n].norm() else 0.0 for n, g in wanted.items()}
    errors = {n: (p[n].grad - g).norm().item() / sizes[n] for n, g in wanted.items() if sizes[n]}
    worst = max(errors, key=errors.get)
    error = {
        "logits": ((logits - out.logits)[written].norm() / out.logits[written].norm()).item(),
        "loss": abs(own_loss.item() / loss.item() - 1),
        f"{len(errors)} gradients": errors[worst],
    }
    print(f"{name:12}{case.kind.__name__:32}" + ", ".join(f"{what} {value:.0e}" for what, value in error.items()))
    assert max(error.values()) < TOLERANCE, (name, worst)
    assert all(size or n.endswith(".k.bias") for n, size in sizes.items())  # softmax does not see a key's bias


def check_buckets():
    T = 300
    place = torch.arange(T)
    for count, farthest in (32, 128), (32, 256), (8, 7), (6, 9), (5, 3), (64, 100):
        for both in True, False:
            theirs = T5Attention._relative_position_bucket(place - place[:, None], both, count, farthest)
            assert torch.equal(position.buckets(T, count, farthest, both), theirs), (count, farthest, both)


if __name__ == "__main__":
    hf.logging.set_verbosity_error()
    torch.manual_seed(1)
    check_buckets()
    with double():
        for name, case in MODELS.items():
            check(name, case)
