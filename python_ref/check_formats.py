"""Exchanges tiny models between train_gpt and `transformers`, and compares logits in float64.

    python python_ref/check_formats.py [--program build/train_gpt] [--every N] [NAME...]

Out: trains each case for a few steps and exports it. The folder must load without a missing or unexpected tensor; its
logits must be those of `train_gpt eval --logits` to 1e-5 of the largest, its loss that of `eval`, its greedy text that
of `sample`, with and without a cache, and each step's logits equal with and without. Importing the folder must give
the same weights. In f16 and bf16 they are as PyTorch rounds them. PyTorch must open the run's checkpoint, too. CLASSES
must be classes of transformers; OWN must come with modeling_train_gpt.py.

Chats: a model of conversations, exported, has the tokens of `train_gpt tokenize` for a conversation by
apply_chat_template, and writes the greedy answer of `sample`.

LoRA: the adapters of a run, read by `peft` beside the exported model, give the run's logits. Adapters that `peft` makes
with random values on each class of transformers have its logits in `train_gpt eval`, and go back with the same values.

In: `transformers` makes a model of each class with random weights; the logits of `train_gpt eval` must be its own. So
must they be when config.json lacks any of its keys, has another value there or more keys, unless `train_gpt` refuses
the folder.

NAMEs choose cases, and --every N each Nth of them. Prints "N passed, N failed". Needs requirements-huggingface.txt and
no network.
"""

import argparse
import copy
import itertools
import json
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

import masking
from checks import Checks, side_by_side

torch.set_num_threads(1)
hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()

T, B, LENGTH = 80, 4, 64
SIZES = f"--layers 2 --heads 4 --channels 32 --context {T} --batch {B} --steps 20 --lr 2e-2 --warmup 1 --quiet " \
    "--eval-every 0"  # so that the last weights are exported
GQA = "--kv-heads 2 --head-dim 10"
CLASSES = {
    "gpt1": "--preset gpt1", "gpt2": "--preset gpt2", "gpt2-no-bias": "--preset gpt2 --no-bias",
    "gpt2-gelu-untied": "--preset gpt2 --activation gelu --no-tied --hidden 48", "opt-350m": "--preset opt-350m",
    "llama": "--preset llama", "llama2": f"--preset llama2 {GQA}", "llama3": "--preset llama3 --tied",
    "mistral": "--preset mistral --window 5", "qwen": "--preset qwen", "qwen2": "--preset qwen2",
    "mixtral": f"--preset mixtral --experts 4 {GQA}", "qwen3-moe": f"--preset qwen3-moe {GQA}",
    "olmoe": "--preset olmoe",
    "qwen3": f"--preset qwen3 {GQA}", "baichuan-7b": "--preset baichuan-7b", "olmo2": "--preset olmo2",
    "gemma2": "--preset gemma2 --window 5 --attention-cap 2 --logit-cap 3 --attention-scale 0.25",
    "gemma": "--preset gemma2 --placement pre --window 0 --window-layers all --attention-cap 0 --logit-cap 0",
    "gemma3": "--preset gemma3 --window 5 --window-layers 1 --window-rope-theta 50 --rope-scaling linear "
    "--rope-factor 8",
    "olmo3": "--preset olmo2 --window 5 --window-layers 0 --rope-scaling yarn --rope-factor 4 --rope-original 20 "
    "--window-rope-theta 500000", "smollm3": f"--preset llama --rope-layers 1 {GQA}",
    "llama3.2": "--preset llama3 --tied --rope-scaling llama3 --rope-factor 32 --rope-original 20",
    "llama-attention-bias": f"--preset llama --qkv-bias --o-bias {GQA}",
    "olmo": "--preset llama --norm layernorm --no-norm-gain --norm-eps 1e-5",
    "gpt-oss": "--preset mixtral --experts 4 --bias --router-logit-bias --activation swiglu-clamped --attention-sinks "
    "--window 5 --window-layers 0 --rope-scaling yarn --rope-factor 4 --rope-original 20 --no-rope-truncate",
    "granite": f"--preset llama --branch-scale 0.5 --logit-scale 0.7 --embedding-scale 3 --attention-scale 0.1 {GQA}",
    "hyperclovax": f"--preset llama --placement sandwich --branch-scale 0.5 --logit-scale 0.7 {GQA}",
    "cohere": f"--preset llama --norm layernorm --block parallel-shared --tied --logit-scale 2 {GQA}",
    "cohere2": "--preset llama --norm layernorm --block parallel-shared --tied --logit-scale 2 --window 5 "
    "--window-layers 0 --rope-layers 0",
    "gpt-j": "--preset phi-2 --rope-fraction 0.5 --no-qkv-bias --no-o-bias",
    "nanochat": f"--preset llama --activation relu2 --no-norm-gain --embedding-norm --qk-norm head --logit-cap 3 {GQA}",
    "glm4": f"--preset chatglm2-6b --placement sandwich {GQA}",
    "phi-4-mini": "--preset llama --tied --rope-scaling longrope --rope-factor 4 --rope-original 20 "
    "--rope-short 1,1.5,1,2 --rope-long 3,4,5.5,8",
    "gpt-neo": "--attention-scale 1 --no-qkv-bias --window 5 --window-layers 1",
    "bloom": "--preset bloom --heads 8", "falcon-7b": "--preset falcon-7b", "falcon-40b": "--preset falcon-40b",
    "gpt-neox": "--preset gpt-neox", "phi-2": "--preset phi-2 --rope-fraction 0.5",
    "chatglm2-6b": "--preset chatglm2-6b --kv-heads 2",
    "stablelm": "--preset llama3 --norm layernorm --norm-bias --rope-fraction 0.25 --qkv-bias",
    "starcoder2": "--position rope --kv-heads 2 --window 7", "gpt-bigcode": "--kv-heads 1",
    "gpt2-bpe": "--tokenizer bpe:300", "gpt2-char": "--tokenizer char",
}  # fmt: skip

PLACEMENTS = (
    "post pre sandwich deepnorm reordered none glm-deepnorm pre-post mix-ln lns sub-ln layerscale rezero gpas keel b2t "
    "normformer admin"
).split()
NORMS = "layernorm rmsnorm scalenorm batchnorm dyt derf gatednorm".split()
POSITIONS = "learned sinusoidal rope alibi relative none".split()
ACTIVATIONS = "gelu gelu-tanh relu relu2 silu geglu geglu-tanh swiglu swiglu-clamped".split()
UNUSUAL = "--logit-cap 20"  # with learned positions, no class has it
OWN = {
    f"{placement}-{norm}": f"--placement {placement} --norm {norm} --mix-fraction 0.5 {UNUSUAL}"
    for placement, norm in itertools.product(PLACEMENTS, NORMS)
} | {f"position-{p}": f"--position {p} {UNUSUAL}" for p in POSITIONS} | {
    f"activation-{a}": f"--activation {a} --placement deepnorm" for a in ACTIVATIONS
} | {
    "parallel": f"--block parallel {UNUSUAL}", "parallel-gain": "--block parallel --placement layerscale",
    "parallel-shared": "--block parallel-shared --placement sandwich",
    "parallel-lns": "--block parallel --placement lns",
    "qk-head": f"--qk-norm head {GQA} {UNUSUAL}", "qk-full": f"--qk-norm full {GQA} {UNUSUAL}",
    "unit-offset": f"--norm-unit-offset --placement deepnorm {GQA}", "head-bias": "--head-bias --embedding-norm",
    "untied": f"--no-tied --no-bias --embedding-scale 3 {UNUSUAL}", "skip": "--placement pre-post --skip-scale 3",
    "windows": f"--position rope --rope-fraction 0.5 --window 5 --window-layers 0 --attention-cap 2 "
    f"--window-rope-theta 50 --rope-scaling yarn --rope-factor 3 --rope-original 16 {UNUSUAL}",
    "some-rope": f"--position rope --layers 3 --rope-layers 0,1 --rope-scaling llama3 --rope-original 16 "
    f"--rope-factor 3 {UNUSUAL}",
    "relative-few": f"--position relative --relative-buckets 7 --relative-distance 9 {GQA} {UNUSUAL}",
    "alibi-6": "--position alibi --heads 6 --channels 36 --attention-scale 0.3", "odd": "--position sinusoidal "
    "--heads 1 --channels 33", "baichuan-13b": "--preset baichuan-13b", "chatglm-6b": "--preset chatglm-6b",
    "deepnorm-bpe": "--placement deepnorm --tokenizer bpe:300",
    "sinks": f"--attention-sinks {GQA}", "narrow": f"--embedding-channels 20 {UNUSUAL}",
    "gate-head": f"--output-gate headwise {GQA}",
    "gate": "--output-gate elementwise --placement sub-ln --position rope",
    "head-scale": f"--head-scale --output-gate headwise {GQA}",
    "values-fixed": f"--value-residual fixed --layers 3 {GQA}", "values": "--value-residual learned --layers 3",
    "stream-mix": "--stream-mix --embedding-norm --layers 3 --position rope", "qkv-norm": f"--qk-norm qkv {GQA}",
    "moe": f"--experts 4 --placement sub-ln {UNUSUAL}", "moe-switch": f"--experts 4 --experts-per-token 1 "
    f"--no-router-renormalize --router-bias 0.01 {UNUSUAL}", "moe-shared": "--preset mixtral --experts 4 "
    "--shared-experts 2 --block parallel-shared",
    "moe-hybridnorm": "--experts 4 --placement hybridnorm --layers 3",
    "norms": f"--placement sandwich --norm-in rmsnorm --norm-out simple-rmsnorm --norm-final dyt {UNUSUAL}",
    "norms-sub-ln": f"--placement sub-ln --norm rmsnorm --norm-in batchnorm --norm-inner scalenorm {UNUSUAL}",
    "hybridnorm": "--placement hybridnorm --layers 3", "hybridnorm-star": f"--placement hybridnorm-star {GQA}",
}  # fmt: skip

# ---- models that transformers makes -------------------------------------------------------------------------

GPT = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": T}
BLOOM = {"n_layer": 2, "n_head": 4, "hidden_size": 32}
USUAL = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48,
    "max_position_embeddings": T,
}  # fmt: skip
LLAMA = USUAL | {"num_key_value_heads": 2}
OPT = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "ffn_dim": 48, "max_position_embeddings": T,
    "word_embed_proj_dim": 32,
}  # fmt: skip
# layers of both kinds, and stretching that matters for so few positions
GEMMA3 = LLAMA | {"head_dim": 12, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
STRETCHED = {"rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 20}
NTK = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
FALCON = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "max_position_embeddings": T}
MADE = {
    "gpt2": hf.GPT2Config(**GPT), "openai-gpt": hf.OpenAIGPTConfig(**GPT), "gpt-bigcode": hf.GPTBigCodeConfig(**GPT),
    "opt": hf.OPTConfig(**OPT), "opt-post": hf.OPTConfig(**OPT, do_layer_norm_before=False),
    "opt-narrow": hf.OPTConfig(**OPT | {"word_embed_proj_dim": 20}, do_layer_norm_before=False),
    "llama": hf.LlamaConfig(**LLAMA), "mistral": hf.MistralConfig(**LLAMA, sliding_window=5),
    "mixtral": hf.MixtralConfig(**LLAMA, num_local_experts=4),
    "qwen3-moe": hf.Qwen3MoeConfig(**LLAMA, num_experts=4, moe_intermediate_size=24, num_experts_per_tok=2),
    "gpt-oss": hf.GptOssConfig(**GEMMA3, num_local_experts=4, num_experts_per_tok=2, rope_parameters={
        "rope_type": "yarn", **STRETCHED, "truncate": False,
    }),
    "olmoe": hf.OlmoeConfig(**USUAL, num_experts=4, num_experts_per_tok=2),
    "qwen2": hf.Qwen2Config(**LLAMA), "qwen3": hf.Qwen3Config(**LLAMA, head_dim=12), "olmo2": hf.Olmo2Config(**LLAMA),
    "gemma": hf.GemmaConfig(**LLAMA, head_dim=12), "gemma2": hf.Gemma2Config(**LLAMA, head_dim=12, sliding_window=5),
    "gemma3": hf.Gemma3TextConfig(**GEMMA3), "gemma3-4b": hf.Gemma3TextConfig(**GEMMA3, rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }),
    "olmo3": hf.Olmo3Config(**USUAL, sliding_window=5, layer_types=GEMMA3["layer_types"], rope_parameters={
        "full_attention": {"rope_type": "yarn", **STRETCHED},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
    }),
    "smollm3": hf.SmolLM3Config(**LLAMA, no_rope_layers=[1, 0]),
    "olmo": hf.OlmoConfig(**LLAMA),
    "granite": hf.GraniteConfig(
        **LLAMA, embedding_multiplier=12, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.05
    ),
    "cohere": hf.CohereConfig(**LLAMA, logit_scale=2.0),
    "cohere2": hf.Cohere2Config(**LLAMA, logit_scale=2.0, sliding_window=5, layer_types=GEMMA3["layer_types"]),
    "gptj": hf.GPTJConfig(**GPT, rotary_dim=4), "codegen": hf.CodeGenConfig(**GPT, rotary_dim=6),
    "glm4": hf.Glm4Config(**LLAMA, head_dim=8), "nanochat": hf.NanoChatConfig(**LLAMA),
    "phi4-mini": hf.Phi3Config(**LLAMA, original_max_position_embeddings=20, rope_parameters={
        "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
        "short_factor": [1.0, 1.25, 1.5], "long_factor": [2.0, 3.0, 4.5],
    }),
    "gpt-neo": hf.GPTNeoConfig(
        num_layers=2, num_heads=4, hidden_size=32, max_position_embeddings=T, window_size=5,
        attention_types=[[["global", "local"], 1]],
    ),
    "llama3.2": hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "llama3", **STRETCHED, **NTK}),
    "llama-linear": hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 5e2}),
    "llama-yarn": hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "yarn", **STRETCHED}),
    "deepseek-yarn": hf.LlamaConfig(**LLAMA, rope_parameters={
        "rope_type": "yarn", **STRETCHED, "mscale": 0.7, "mscale_all_dim": 1.5, "beta_fast": 16.0, "beta_slow": 2.0,
    }),
    "llama-dynamic": hf.LlamaConfig(**LLAMA, rope_parameters={
        "rope_type": "dynamic", "factor": 4.0, "rope_theta": 5e2,
    }),
    "neox-linear": hf.GPTNeoXConfig(**USUAL, rope_parameters={
        "rope_type": "linear", "factor": 2.0, "rope_theta": 1e4, "partial_rotary_factor": 0.25,
    }),
    "bloom": hf.BloomConfig(**BLOOM, seq_length=T), "falcon-7b": hf.FalconConfig(**FALCON),
    "falcon-40b": hf.FalconConfig(**FALCON, new_decoder_architecture=True, num_kv_heads=2),
    "gpt-neox": hf.GPTNeoXConfig(**USUAL), "pythia": hf.GPTNeoXConfig(**USUAL, use_parallel_residual=False),
    "phi": hf.PhiConfig(**LLAMA), "phi3": hf.Phi3Config(**LLAMA), "glm": hf.GlmConfig(**LLAMA, attention_bias=True),
    "stablelm": hf.StableLmConfig(**LLAMA, use_qkv_bias=True), "starcoder2": hf.Starcoder2Config(**LLAMA),
}  # fmt: skip
if hasattr(hf, "HyperCLOVAXConfig"):  # not in the oldest
    MADE["hyperclovax"] = hf.HyperCLOVAXConfig(
        **LLAMA, embedding_multiplier=12, logits_scaling=0.125, residual_multiplier=0.22, attention_multiplier=0.05
    )
    MADE["hyperclovax-pre"] = hf.HyperCLOVAXConfig(**LLAMA, use_post_norm=False)

CHATS = {
    "chatml": "--chat-template chatml --tokenizer bpe:300", "plain": "--chat-template plain --tokenizer bpe:300",
    "chatml-llama": "--chat-template chatml --preset llama", "plain-char": "--chat-template plain --tokenizer char",
}  # fmt: skip
HARD = ("Who hid it?", "\n\nEmma.", "  It's 25 kg — 漢!\t", "", "ends with a space ")

# Keys that a config.json may have beside those that its class writes: other names, those of older versions and those of
# other classes.
MORE = {
    "n_embed": [64], "n_embd": [64], "n_head": [2], "n_layer": [1], "num_attention_heads": [2], "num_heads": [2],
    "num_hidden_layers": [1], "num_layers": [1], "hidden_size": [64], "num_key_value_heads": [4], "num_kv_heads": [4],
    "num_experts": [3], "num_local_experts": [3], "rope_theta": [500.0], "rotary_emb_base": [500.0],
    "rotary_pct": [0.5], "partial_rotary_factor": [0.5], "rope_parameters": [{"rope_theta": 5.0}],
    "rope_scaling": [{"rope_type": "default", "rope_theta": 5.0}, {"type": "linear", "factor": 2.0}],
    "is_causal": [False], "use_bidirectional_attention": [True], "hidden_act": ["relu", "gelu"],
    "hidden_activation": ["relu", None], "activation_function": ["relu"], "sliding_window": [3], "head_dim": [4],
    "attention_bias": [True], "mlp_bias": [True], "alibi": [True], "logit_scale": [2.0], "query_pre_attn_scalar": [4],
    "attn_logit_softcapping": [2.0], "final_logit_softcapping": [2.0], "rms_norm_eps": [0.1], "layer_norm_eps": [0.1],
    "layer_norm_epsilon": [0.1], "norm_eps": [0.1], "scale_embedding": [True], "embedding_multiplier": [2.0],
    "residual_multiplier": [2.0], "attention_multiplier": [2.0], "logits_scaling": [2.0], "clip_qkv": [0.1],
    "parallel_attn": [False], "multi_query": [False], "no_rope_layers": [[0, 1]],
    "no_rope_layer_interval": [2], "rope_local_base_freq": [50.0], "sliding_window_pattern": [2],
    "use_post_norm": [False], "use_qk_norm": [True], "rotary_dim": [2], "qk_layernorm": [True],
    "original_max_position_embeddings": [16], "attention_types": [[[["local"], 2]]], "window_size": [3],
    "layer_types": [["full_attention", "full_attention"]],
}  # fmt: skip

ROPES = [
    {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}, {"rope_type": "yarn", **STRETCHED},
    {"rope_type": "llama3", **STRETCHED, **NTK}, {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0},
]  # fmt: skip

# Keys that change no logits, or the precision alone, or (the last three) the length of the rows of text.
UNCOMPARED = (
    "token_id", "architectures", "dtype", "reorder_and_upcast_attn", "seq_length", "max_position_embeddings",
    "n_positions",
)  # fmt: skip
FLOAT32_ATTENTION = "gpt_neo", "gptj", "codegen"
MIXTURES = "mixtral", "qwen3-moe", "olmoe", "gpt-oss"
UNTRAINED = "running_mean", "running_var", "selection_bias"
# Their first two rows are never read.
UNREAD = {
    "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight",
    "roberta.embeddings.position_embeddings.weight",
}  # fmt: skip
TEXT = ("One day the fox met a crow. The crow had cheese, and the fox had a plan.\n" * 80).encode()[: 60 * T + 1]
PROMPT = "One"


class Exchange(Checks):
    auto, generates = hf.AutoModelForCausalLM, True
    text, short = "text.txt", "short.txt"

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.write_text(self.text)

    def write_text(self, name):
        (self.folder / name).write_bytes(TEXT if name == self.text else TEXT[: 2 * T + 1])

    def loss_of_eval(self, run):
        done = self.run(f"eval {run} --data {self.text} --batch {B} --logits logits.npy --force")
        found = re.search(r"loss ([0-9.]+) nats", done.stdout.decode())
        self.check(f"eval {run}", found, done.stderr.decode())
        return float(found[1]) if found else float("nan")

    def load(self, name, own=False):
        model, info = self.auto.from_pretrained(
            self.folder / "hf", dtype=torch.float64, output_loading_info=True, trust_remote_code=own, **self.eager(),
        )  # fmt: skip
        lost = {k: v for k, v in info.items() if v}
        self.check(f"{name}: tensors", not lost, lost)
        return model.eval()

    def eager(self):
        return {"attn_implementation": "eager", "experts_implementation": "eager"}

    def inputs(self, text, tokenizer, rows):
        """-> what the model reads of the first rows of a text, and the targets, (rows,T) each"""
        ids = self.ids(text, tokenizer)
        return ids[: rows * T].view(-1, T), ids[1 : rows * T + 1].view(-1, T)

    def tokenizer(self):
        if (self.folder / "hf" / "tokenizer.json").exists():
            return hf.AutoTokenizer.from_pretrained(self.folder / "hf", trust_remote_code=True)
        return None

    def ids(self, text, tokenizer):
        """Token numbers; a character's is its position in the order."""
        if tokenizer is None:
            alphabet = sorted(set(TEXT.decode()))
            return torch.tensor([alphabet.index(c) for c in text.decode()])
        return torch.tensor(tokenizer(text.decode())["input_ids"])

    def compare_logits(self, name, model, tokenizer):
        """Computed from the first batch of windows, which are contiguous."""
        ours = torch.from_numpy(np.load(self.folder / "logits.npy")).double()
        with torch.no_grad():
            theirs = model(input_ids=self.inputs(TEXT, tokenizer, len(ours))[0]).logits
        error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        self.check(f"{name}: logits", error < 1e-5, f"differ by {error:.1e}")
        return error

    def compare_loss(self, name, model, tokenizer, loss):
        if len(self.ids(TEXT, tokenizer)) != len(TEXT):
            return
        ids, targets = self.inputs(TEXT, tokenizer, len(TEXT) // T)
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        theirs = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1).item()
        self.check(f"{name}: loss", abs(theirs - loss) < 1e-4, f"{theirs:.6f}, and {loss:.6f} by eval")

    def compare_text(self, name, model, tokenizer):
        sampled = self.must(f"sample run --prompt {PROMPT} --greedy --length {LENGTH}").stdout[:-1]
        prompt = self.ids(PROMPT.encode(), tokenizer)[None]
        for cache in True, False:
            tokens = model.generate(prompt, max_new_tokens=LENGTH, do_sample=False, use_cache=cache)[0]
            if tokenizer is None:
                text = "".join(sorted(set(TEXT.decode()))[t] for t in tokens)
            else:
                text = tokenizer.decode(tokens)
            ok = text == sampled.decode(errors="replace")
            self.check(f"{name}: text, cache {cache}", ok, f"{text!r}, and {sampled!r} by sample")

    def compare_cached(self, name, model, tokenizer):
        """Text may agree by chance: each step's logits must be those without a cache, greedy and with beams."""
        prompt = self.ids(PROMPT.encode(), tokenizer)[None]
        for beams in 1, 2:
            cached, full = (
                model.generate(
                    prompt, max_new_tokens=8, do_sample=False, num_beams=beams, use_cache=cache, output_logits=True,
                    return_dict_in_generate=True,
                ).logits
                for cache in (True, False)
            )  # fmt: skip
            error = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(cached, full, strict=True))
            limit = 1e-6 if model.config.model_type in FLOAT32_ATTENTION else 1e-9
            self.check(f"{name}: logits with a cache, {beams} beams", error < limit, f"differ by {error:.1e}")

    def compare_arguments(self, name, model):
        """Our class refuses what it does not know, as transformers may rename an argument; it takes either cache."""
        tokens = torch.arange(6)[None]
        with torch.no_grad():
            full = model(tokens, new_name=None).logits[:, -1]
            for key in "cache", "past_key_values":
                cache = hf.DynamicCache()
                model(tokens[:, :5], **{key: cache})
                again = model(tokens[:, 5:], **{key: cache}).logits[:, -1]
                self.check(f"{name}: {key}", torch.allclose(again, full, rtol=1e-9), "other logits")
            for wrong in {"new_name": 1}, {"output_attentions": True}, {"position_ids": tokens + 1}:
                try:
                    model(tokens, **wrong)
                    self.check(f"{name}: {wrong}", False, "not refused")
                except (TypeError, ValueError):
                    pass

    def open_checkpoint(self, name):
        """It has the weights by our names, with both moments of each that trains, and the export has its embedding."""
        tensors = load_file(self.folder / "run" / "checkpoint.safetensors")
        weights = {key: t for key, t in tensors.items() if not key.startswith("optimizer.")}
        trained = {key: t for key, t in weights.items() if not key.endswith(UNTRAINED)}
        moments = {f"optimizer.{slot}.{key}": t for slot in ("exp_avg", "exp_avg_sq") for key, t in trained.items()}
        fits = tensors.keys() == {*weights, *moments} and all(tensors[k].shape == t.shape for k, t in moments.items())
        exported = load_file(self.folder / "hf" / "model.safetensors").values()
        embedding = weights["embedding.token.weight"].sort().values  # Marian has its channels in another order
        fits = fits and any(torch.equal(embedding, t.sort().values) for t in exported)
        self.check(f"{name}: checkpoint", fits, f"has {sorted(tensors)}")

    def out(self, name, options, own):
        self.must(f"train {self.text} {SIZES} {options} --out run --force")
        done = self.must("export run --to hf --out hf --force")
        self.check(f"{name}: class", (b"modeling_train_gpt.py" in done.stdout) == own, done.stdout)
        self.open_checkpoint(name)
        model, tokenizer = self.load(name, own), self.tokenizer()
        loss = self.loss_of_eval("run")
        error = self.compare_logits(name, model, tokenizer)
        self.compare_loss(name, model, tokenizer, loss)
        self.check(f"{name}: import", self.loss_of_eval("hf") == loss, "another loss after import")
        if self.generates:
            self.compare_text(name, model, tokenizer)
            self.compare_cached(name, model, tokenizer)
        if own and self.generates:
            self.compare_arguments(name, model)
        self.must("export hf --to hf --out again --force")
        first, second = (load_file(self.folder / f / "model.safetensors") for f in ("hf", "again"))
        same = first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
        self.check(f"{name}: the same bits after import and export", same)
        self.halves(name, first, own)
        print(f"out  {name:24}{type(model).__name__:24} loss {loss:.4f}  logits {error:.0e}", flush=True)

    def halves(self, name, weights, own):
        """In 16 bits the weights are those that PyTorch rounds to, and transformers takes the type from config.json."""
        for dtype, kind in ("bf16", torch.bfloat16), ("f16", torch.float16):
            self.must(f"export run --to hf --dtype {dtype} --out hf --force")
            stored = load_file(self.folder / "hf" / "model.safetensors")
            same = all(torch.equal(stored[key], w.to(kind)) for key, w in weights.items())
            model = self.auto.from_pretrained(self.folder / "hf", trust_remote_code=own)
            self.check(f"{name}: {dtype}", same and model.dtype == kind, f"{same}, {model.dtype}")

    def adapters(self, name, options):
        """LoRA: the base model of transformers with the adapters by `peft`, and the merged model."""
        self.must(f"train text.txt {SIZES} {options} --out base --force")
        self.must("export base --to hf --out hf --force")
        base = self.loss_of_eval("base")
        self.must(
            f"train text.txt --init-from base --steps 20 --lr 1e-2 --warmup 2 --batch {B} --quiet --eval-every 0 "
            f"--lora 3 --lora-alpha 7 --lora-on q,k,v,o{'' if name in MIXTURES else ',up,down'} --out run --force"
        )
        loss = self.loss_of_eval("run")
        self.check(f"{name}: adapters learn", loss < base - 0.001, f"{loss:.4f} with them, {base:.4f} without")
        self.must("export run --to hf --out adapters --force")
        model = PeftModel.from_pretrained(self.load(name), self.folder / "adapters").eval().double()
        error = self.compare_logits(f"{name} adapters", model, self.tokenizer())
        self.must("export run --to hf --lora-merge --out hf --force")
        merged = self.compare_logits(f"{name} merged", self.load(name), self.tokenizer())
        print(f"lora {name:24}{base:.4f} -> {loss:.4f}  logits {error:.0e}, merged {merged:.0e}", flush=True)

    def adapters_in(self, name, config, plain):
        """LoRA: adapters that `peft` makes for all linear layers of a class, also scaled by its rank's root."""
        self.make(config)
        base = self.load(name)
        settings = LoraConfig(
            r=3, lora_alpha=7, use_rslora=not plain, target_modules="all-linear", task_type="CAUSAL_LM"
        )  # fmt: skip
        model = get_peft_model(base, settings, autocast_adapter_dtype=False).eval()
        with torch.no_grad():
            for key, w in model.named_parameters():
                if "lora_" in key:
                    w.copy_((torch.randn_like(w) * 0.05).float())
        model.float().save_pretrained(self.folder / "adapters")
        model.double()
        loss = self.loss_of_eval("adapters")
        error = self.compare_logits(f"{name} adapters in", model, byte_tokenizer())
        self.must("export adapters --to hf --out again --force")
        first, second = (load_file(self.folder / f / "adapter_model.safetensors") for f in ("adapters", "again"))
        same = first.keys() == second.keys() and all(torch.equal(w.float(), second[k]) for k, w in first.items())
        self.check(f"{name}: adapters go back", same, f"{first.keys() ^ second.keys() or 'other values'}")
        again = PeftModel.from_pretrained(self.load(name), self.folder / "again").eval().double()
        self.compare_logits(f"{name} adapters back", again, byte_tokenizer())
        self.must(f"train text.txt --init-from adapters --steps 1 --lr 0 --batch {B} --quiet --eval-every 0 --out more")
        self.check(f"{name}: training goes on", abs(self.loss_of_eval("more") - loss) < 1e-4, "another loss")
        print(f"peft {name:24}{len(first) // 2:3} adapters  loss {loss:.4f}  logits {error:.0e}", flush=True)

    def chat(self, name, options):
        def turns(n, texts):
            return [{"role": ("user", "assistant")[i % 2], "content": texts[(n + i) % len(texts)]} for i in range(2)]

        conversations = [turns(n, HARD) for n in range(len(HARD))]
        lines = [json.dumps({"messages": c}) + "\n" for c in conversations]
        (self.folder / "chat.jsonl").write_text("".join(lines * 20))
        self.must(f"train chat.jsonl {SIZES} {options} --out run --force --val-fraction 0")
        self.must("export run --to hf --out hf --force")
        model, tokenizer = self.load(name), self.tokenizer()
        for number, conversation in enumerate(conversations):
            whole = tokenizer.apply_chat_template(conversation, return_dict=True)["input_ids"]
            if "bpe" in options:
                (self.folder / "one.jsonl").write_text(lines[number])
                words = f"tokenize one.jsonl {options.split('--tokenizer')[0]} --tokenizer hf/tokenizer.json"
                self.must(f"{words} --val-fraction 0 --out tokens --force")
                ours = np.fromfile(self.folder / "tokens" / "train_000000.bin", np.uint16)[512:].tolist()
                ours = ours[: len(whole)] if "chatml" in options else ours  # then the document ends, too
                self.check(f"{name}: tokens of {conversation}", ours == whole, f"{ours}, and {whole}")
            asked = conversation[0]["content"]
            prompt = tokenizer.apply_chat_template(
                conversation[:1], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
            got = model.generate(prompt, max_new_tokens=20, do_sample=False, pad_token_id=0)[0, prompt.shape[1] :]
            words = [self.program, *"sample run --greedy --json --length 20 --prompt".split(), asked]
            done = subprocess.run(words, cwd=self.folder, capture_output=True)
            want = json.loads(done.stdout)["tokens"] if asked else None
            same = want is None or got[: len(want)].tolist() == want
            self.check(f"{name}: answer to {asked!r}", same, f"{got.tolist()}, and {want}")
        return f"{len(conversations)} conversations"

    def make(self, config):
        """Writes a model of this class with random weights, which reads bytes."""
        torch.manual_seed(17)
        config.vocab_size = 256
        config.bos_token_id = config.eos_token_id = config.pad_token_id = None
        self.save(self.auto.from_config(config, dtype=torch.float32))

    def save(self, model, sharp=()):
        with torch.no_grad():
            for name, w in model.named_parameters():
                if not w.requires_grad:  # sinusoidal positions
                    continue
                scale = 0.1 if name.removesuffix(".weight").endswith(sharp) else 0.3
                w.copy_(torch.randn_like(w) * scale if w.ndim > 1 else w + torch.randn_like(w) * 0.2)
        model.save_pretrained(self.folder / "hf")

    def come_in(self, name, config):
        self.make(config)
        model, loss = self.load(name), self.loss_of_eval("hf")
        tokenizer = self.tokenizer_in()
        error = self.compare_logits(f"{name} in", model, tokenizer)
        self.goes_back(name)
        tried = self.perturb(name, model, tokenizer)
        print(f"in   {name:24}{type(model).__name__:24} loss {loss:.4f}  logits {error:.0e}  {tried}", flush=True)

    def tokenizer_in(self):
        return byte_tokenizer()

    def goes_back(self, name):
        """What came goes back: the files with the same bytes, and the tensors with the same values and type."""
        self.must("export hf --to hf --out again --force")
        for file in "config.json", "generation_config.json":
            first, second = (self.folder / where / file for where in ("hf", "again"))
            texts = [path.read_bytes() if path.exists() else b"" for path in (first, second)]
            self.check(f"{name}: {file} goes back", texts[0] == texts[1], "is another")
        first, second = (load_file(self.folder / where / "model.safetensors") for where in ("hf", "again"))
        for tensors in first, second:
            for key in UNREAD & tensors.keys():
                tensors[key] = tensors[key][2:]
        same = all(torch.equal(w, second[key]) and w.dtype == second[key].dtype for key, w in first.items())
        others = first.keys() ^ second.keys()
        self.check(f"{name}: tensors go back", same and not others, f"{others or 'other values'}")

    def perturb(self, name, model, tokenizer):
        """config.json with one key less, or other: train_gpt computes what the class does then, or refuses."""
        path, (same, refused) = self.folder / "hf" / "config.json", (0, 0)
        whole = json.loads(path.read_text())
        self.write_text(self.short)
        for what, key, file in variants(whole):
            path.write_text(json.dumps(file))
            done = self.run(f"eval hf --data {self.short} --batch 2 --logits logits.npy --force")
            refused += done.returncode != 0
            if done.returncode != 0 or key.endswith(UNCOMPARED):
                continue
            if OLDEST and (name, key) in KEYS_NOT_OLDEST:
                print(f"skipped: {name} {what} {key}, which transformers {hf.__version__} computes wrong", flush=True)
                continue
            try:
                config = hf.AutoConfig.from_pretrained(path.parent)
            except Exception:  # a value of another type
                continue
            try:
                theirs = self.with_config(config, model)
                self.try_out(theirs)
            except Exception as error:
                # Many classes do not take null, and some fail with a RoPE that is stretched.
                if file.get(key, True) is not None and file.get("rope_parameters") not in ROPES:
                    self.check(f"{name} {what} {key}", False, f"only train_gpt loads it: {error!r}"[:200])
                continue
            same += 1
            self.compare_logits(f"{name} {what} {key}", theirs, tokenizer)
        return f"{same} times with another config.json, {refused} refused"


    def with_config(self, config, model):
        theirs = self.auto.from_config(config, dtype=torch.float64, **self.eager()).eval()
        theirs.load_state_dict(model.state_dict())
        theirs.tie_weights()
        return theirs

    def try_out(self, model):
        model(input_ids=torch.zeros(1, 1, dtype=torch.long))


class Pairs(Exchange):
    """Models that write the target of a source. What comes in has T5's tokenizer, which ends each text with </s>."""

    auto = hf.AutoModelForSeq2SeqLM
    text, short = "pairs.tsv", "short.tsv"

    def write_text(self, name):
        pairs = PAIR_TEXTS if name == self.text else PAIR_TEXTS[:2]
        (self.folder / name).write_text("".join(f"{source}\t{target}\n" for source, target in pairs))

    def eager(self):
        return {"attn_implementation": "eager"}

    def make(self, config):
        torch.manual_seed(17)
        config.vocab_size = config.decoder_vocab_size = len(T5_PIECES)
        config.decoder_start_token_id = config.pad_token_id = 0
        config.bos_token_id, config.eos_token_id, config.forced_eos_token_id = None, 1, None
        self.save(self.auto.from_config(config, dtype=torch.float32))
        hf.T5Tokenizer(vocab=T5_PIECES, extra_ids=4).save_pretrained(self.folder / "hf")

    def save(self, model):
        """T5 1.1 has a head of its own. T5 does not scale its scores, so that noise would make attention too sharp."""
        if not getattr(model.config, "scale_decoder_outputs", True):
            model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
        super().save(model, ("Attention.q", "Attention.k"))

    def with_config(self, config, model):
        return self.auto.from_pretrained(self.folder / "hf", config=config, dtype=torch.float64, **self.eager()).eval()

    def tokenizer_in(self):
        return hf.AutoTokenizer.from_pretrained(self.folder / "hf")

    def pair(self, tokenizer, texts):
        """-> the tokens of a source, of what the decoder reads, and of what it is to write"""
        start, end = (len(tokenizer) - 1,) * 2 if self.own_tokens else (0, 1)
        source, target = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
        return [*source, end], [start, *target], [*target, end]

    def logits_of(self, model, source, written):
        with torch.no_grad():
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([written]), use_cache=False)
        return out.logits[0]

    def compare_logits(self, name, model, tokenizer):
        errors, largest = [], []
        for row, texts in zip(torch.from_numpy(np.load(self.folder / "logits.npy")).double(), PAIR_TEXTS):
            theirs = self.logits_of(model, *self.pair(tokenizer, texts)[:2])
            errors.append((row[: len(theirs)] - theirs).abs().max().item())
            largest.append(theirs.abs().max().item())
        error = max(errors) / max(largest)
        self.check(f"{name}: logits", error < 1e-5, f"differ by {error:.1e}")
        return error

    def compare_loss(self, name, model, tokenizer, loss):
        """All pairs in one batch with padding."""
        rows = [self.pair(tokenizer, texts) for texts in PAIR_TEXTS]
        source, written, targets = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in side], True, padding)
            for side, padding in zip(zip(*rows), (0, 0, -1))
        )  # fmt: skip
        read = torch.arange(source.shape[1]) < torch.tensor([len(row[0]) for row in rows])[:, None]
        with torch.no_grad():
            logits = model(input_ids=source, attention_mask=read.long(), decoder_input_ids=written).logits
        theirs = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1).item()
        self.check(f"{name}: loss", abs(theirs - loss) < 1e-4, f"{theirs:.6f}, and {loss:.6f} by eval")

    def compare_text(self, name, model, tokenizer, run="run"):
        for texts in PAIR_TEXTS[:3]:
            source, (start, *_), (*_, end) = self.pair(tokenizer, texts)
            read = tokenizer(texts[0])["input_ids"]
            self.check(f"{name}: source as AutoTokenizer reads it", read == source, f"{read}, and {source} in training")
            words = [self.program, *f"sample {run} --greedy --json --length {LENGTH} --prompt".split(), texts[0]]
            done = subprocess.run(words, cwd=self.folder, capture_output=True)
            ours = json.loads(done.stdout)["tokens"]
            for cache in True, False:
                tokens = model.generate(
                    torch.tensor([source]), max_new_tokens=LENGTH, do_sample=False, use_cache=cache,
                    decoder_start_token_id=start, eos_token_id=end, pad_token_id=start,
                )[0, 1:].tolist()  # fmt: skip
                tokens = tokens[: tokens.index(end)] if end in tokens else tokens
                self.check(f"{name}: text, cache {cache}", tokens == ours, f"{tokens}, and {ours} by sample")

    def compare_cached(self, name, model, tokenizer):
        source = torch.tensor([self.pair(tokenizer, PAIR_TEXTS[0])[0]])
        cached, full = (
            model.generate(
                source, max_new_tokens=8, do_sample=False, use_cache=cache, output_logits=True,
                return_dict_in_generate=True,
            ).logits
            for cache in (True, False)
        )  # fmt: skip
        error = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(cached, full, strict=True))
        limit = 1e-6 if OLDEST and model.config.model_type == "t5" else 1e-9  # its softmax is in float
        self.check(f"{name}: logits with a cache", error < limit, f"differ by {error:.1e}")

    def compare_arguments(self, name, model):
        """Our class computes the loss of labels, and refuses what it does not know."""
        start, end = model.config.decoder_start_token_id, model.config.eos_token_id
        source, written = torch.tensor([[97, 98, end]] * 2), torch.tensor([[start, 99, 100]] * 2)
        labels = torch.tensor([[99, 100, end], [99, 100, -100]])
        with torch.no_grad():
            found = model(source, labels=labels)
            logits = model(source, decoder_input_ids=written, new_name=None).logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        self.check(f"{name}: labels", torch.allclose(found.loss, loss, rtol=1e-9), f"{found.loss}, and {loss}")
        model(source, decoder_input_ids=written, cache_position=torch.arange(3))
        for wrong in (
            {"new_name": 1}, {"output_attentions": True}, {"attention_mask": torch.tensor([[0, 1, 1]] * 2)},
            {"cache_position": torch.arange(1, 4)},
        ):  # fmt: skip
            try:
                model(source, decoder_input_ids=written, **wrong)
                self.check(f"{name}: {wrong}", False, "not refused")
            except (TypeError, ValueError):
                pass

    def out(self, name, options, own):
        self.own_tokens = True
        super().out(name, f"{PAIR_SIZES} {options}", own)

    def come_in(self, name, config):
        self.own_tokens = False
        super().come_in(name, config)

    def goes_back(self, name):
        super().goes_back(name)
        self.compare_text(f"{name} in", self.load(name), self.tokenizer_in(), "hf")
        before, after = ((self.folder / where / "tokenizer.json").read_text() for where in ("hf", "again"))
        self.check(f"{name}: tokenizer.json goes back", json.loads(before) == json.loads(after), "is another")

    def try_out(self, model):
        model(input_ids=torch.zeros(1, 1, dtype=torch.long), decoder_input_ids=torch.zeros(1, 1, dtype=torch.long))


class Masked(Exchange):
    """Models that predict masked tokens. Their tokenizer has 256 bytes, <pad> and [MASK]."""

    auto, generates = hf.AutoModelForMaskedLM, False

    def eager(self):
        return {"attn_implementation": "eager"}

    def inputs(self, text, tokenizer, rows):
        ids, mask, special, vocabulary = self.ids(text, tokenizer).tolist(), 257, {256, 257}, 258
        if isinstance(tokenizer, hf.PreTrainedTokenizerBase):
            mask, vocabulary = tokenizer.mask_token_id, len(tokenizer)
            special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        windows = [
            masking.masked(ids[start : start + T], mask, special, vocabulary, 0.15, masking.validation_key(start))
            for start in range(0, rows * T, T)
        ]
        return tuple(torch.tensor(part) for part in zip(*windows))

    def make(self, config):
        torch.manual_seed(17)
        config.vocab_size, config.bos_token_id, config.eos_token_id = 258, None, None
        config.pad_token_id = 1 if config.model_type != "bert" else 256
        self.save(self.auto.from_config(config, dtype=torch.float32))
        (self.folder / "hf" / "tokenizer.json").write_text(bytes_and_mask())

    def pooled(self, name, config):
        """The published files of BERT have its pooler and its second head, and an old name of LayerNorm."""
        torch.manual_seed(17)
        config.vocab_size, config.pad_token_id = 258, 256
        self.save(hf.BertForPreTraining(config))
        path = self.folder / "hf" / "model.safetensors"
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        tensors = load_file(path)
        before = dict(tensors)
        for new, old in names.items():
            tensors = {key.replace(new, old): w for key, w in tensors.items()}
        save_file(tensors, path, metadata={"format": "pt"})
        (self.folder / "hf" / "tokenizer.json").write_text(bytes_and_mask())
        self.loss_of_eval("hf")
        self.must("export hf --to hf --out again --force")
        after = load_file(self.folder / "again" / "model.safetensors")
        same = before.keys() == after.keys() and all(torch.equal(w, after[key]) for key, w in before.items())
        self.check(f"{name}: every tensor goes back", same, before.keys() ^ after.keys())
        print(f"in   {name:24}{'BertForPreTraining':24} {len(after)} tensors", flush=True)


def bytes_and_mask():
    """The text of a tokenizer.json without merges. GPT-2 writes a byte as a letter that is visible."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letters[byte]: byte for byte in range(256)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<pad>", "[MASK]"])
    return tokenizer.to_str()


def t5_pieces():
    """Pieces of a unigram model, with their scores: all letters of the pairs, and some words."""
    letters = sorted(set("".join(map("".join, PAIR_TEXTS)).replace(" ", "")))
    words = ["\u2581", *letters, "\u2581the", "\u2581fox", "ow", "er", "\u2581crow", "ing"]
    pieces = [(name, 0.0) for name in ("<pad>", "</s>", "<unk>")]
    pieces += [(word, -2.0 - i / 8) for i, word in enumerate(words)]
    return pieces + [(f"<extra_id_{i}>", 0.0) for i in reversed(range(4))]


def byte_tokenizer():
    return type("Bytes", (), {"__call__": lambda self, text: {"input_ids": list(text.encode())}})()


def variants(whole):
    """(what, key, file): a config.json without each key, with null there, with another value, and with more keys."""
    for key, value in whole.items():
        yield "without", key, {k: v for k, v in whole.items() if k != key}
        yield "with null for", key, {**whole, key: None}
        yield "with another", key, {**whole, key: other(value)}
    for key, values in MORE.items():
        for value in values:
            if whole.get(key) is None:
                yield f"and {value} as", key, {**whole, key: value}
    if "rope_type" in (whole.get("rope_parameters") or {}):
        for rope in ROPES:
            yield f"and {rope['rope_type']} in", "rope_parameters", {**whole, "rope_parameters": rope}


def other(value):
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 2 if value else 1
    if isinstance(value, list):
        return value[::-1]
    if isinstance(value, dict):
        return {k: other(v) if isinstance(v, (float, dict)) else v for k, v in value.items()}
    return "relu" if value else 3


# What this version of transformers computes wrong: Olmo 3 has one RoPE for all layers, Phi-4-mini's factors do not fit,
# and some keys of config.json are not read.
OLDEST = hf.__version__ == "5.0.0"
NOT_OLDEST = {"olmo3", "lora-olmo3", "peft-olmo3", "in-olmo3", "peft-phi4-mini", "in-phi4-mini"}
NOT_OLDEST |= {"hyperclovax", "lora-hyperclovax", "peft-hyperclovax"}
KEYS_NOT_OLDEST = {(name, "rope_parameters") for name in ("gpt-neox", "pythia", "neox-linear")}
KEYS_NOT_OLDEST |= {(name, "encoder_layers") for name in ("bart", "marian", "mbart", "pegasus")}

MASKED = {
    "bert": "--preset bert --tokenizer bpe:300", "roberta": "--preset roberta --tokenizer bpe:300",
    "bert-relu": "--preset bert --activation relu",
}
MASKED_OWN = {
    "masked-rope": "--objective mlm --position rope --window 9 --placement sandwich",
    "masked-alibi": "--preset bert --position alibi --norm rmsnorm --attention-cap 2",
    "masked-relative": "--preset bert --position relative --relative-buckets 8 --relative-distance 5",
    "masked-causal": "--objective mlm --attention causal",
}
ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
MASKED_MADE = {
    "bert": hf.BertConfig(**ENCODER, max_position_embeddings=T),
    "roberta": hf.RobertaConfig(**ENCODER, max_position_embeddings=T + 2, type_vocab_size=1),
    "xlm-roberta": hf.XLMRobertaConfig(**ENCODER, max_position_embeddings=T + 2, type_vocab_size=1),
}


def pair_texts():
    """Sources of several lengths. No two targets fit into a row."""
    words = "the fox met a crow, and that crow had some cheese there; it was taking it over!".split()
    for i in range(20):
        source = " ".join(words[i * j % 17 - 1] for j in range(1, 2 + i * 7 % 11))
        yield source, (source + " ".join(words))[::-1][-T + 2 + i :][: T - 2]


PAIR_TEXTS = list(pair_texts())
assert all(len(target) > T // 2 + 10 for _, target in PAIR_TEXTS)
T5_PIECES = t5_pieces()
PAIR_SIZES = "--encoder-layers 2 --objective pairs --val-fraction 0 --tokenizer byte"
PAIRS = {
    "t5": "--preset t5 --head-dim 5", "t5-gelu": "--preset t5 --activation gelu --encoder-layers 3",
    "t5-v1.1": "--preset t5-v1.1 --hidden 20", "t5-geglu": "--preset t5-v1.1 --activation geglu --tied",
    "t5-swiglu": "--preset t5 --activation swiglu --relative-buckets 8 --relative-distance 9",
    "transformer": "--preset transformer", "marian": "--preset transformer --activation silu --embedding-scale 1",
    "bart": "--preset transformer --position learned --embedding-norm --activation gelu --embedding-scale 1",
    "mbart": "--preset transformer --position learned --embedding-norm --activation gelu --placement pre",
    "pegasus": "--preset transformer --placement pre --head-bias --channels 36",
}
T5 = {"num_layers": 3, "num_decoder_layers": 2, "num_heads": 4, "d_model": 32, "d_ff": 48, "d_kv": 6, "n_positions": T}
PAIRS_OWN = {
    "pairs-deepnorm": "--preset transformer --placement deepnorm", "pairs-dyt": "--norm dyt --no-tied",
    "pairs-stacks": "--preset t5 --placement sandwich --encoder-placement post --encoder-norm layernorm",
    "pairs-causal": "--preset t5 --encoder-attention causal",
    "pairs-norms": "--encoder-placement post --norm-in derf --norm-sum rmsnorm --norm-final nonparametric-layernorm",
    "pairs-rope": f"--position rope --window 5 --window-layers 1 --qk-norm head {GQA} --attention-cap 3",
    "pairs-full": f"--position alibi --qk-norm full --head-scale --output-gate elementwise {GQA}",
    "pairs-moe": "--preset t5 --experts 4 --attention-sinks --value-residual learned",
    "pairs-gain": "--placement layerscale --position none --stream-mix", "pairs-rezero": "--placement rezero",
    "pairs-gpas": "--placement gpas", "pairs-admin": "--placement admin --skip-scale 1.5",
    "pairs-sub": "--placement sub-ln --embedding-channels 20 --position sinusoidal --channels 33 --heads 3",
    "pairs-hybrid": "--placement hybridnorm --norm rmsnorm", "pairs-b2t": "--placement b2t --head-transform",
    "pairs-batchnorm": "--norm batchnorm --no-bias", "pairs-normformer": "--placement normformer --no-bias",
}
FAIRSEQ = {
    "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_model": 32, "max_position_embeddings": T,
}  # fmt: skip
PAIRS_MADE = {
    "t5": hf.T5Config(**T5), "t5-few": hf.T5Config(
        **T5, relative_attention_num_buckets=7, relative_attention_max_distance=9, feed_forward_proj="gelu",
    ),
    "t5-v1.1": hf.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5-silu": hf.T5Config(**T5, feed_forward_proj="gated-silu"),
    "mt5": hf.MT5Config(**T5), "marian": hf.MarianConfig(**FAIRSEQ, activation_function="swish", scale_embedding=True),
    "bart": hf.BartConfig(**FAIRSEQ), "mbart": hf.MBartConfig(**FAIRSEQ, scale_embedding=True),
    "pegasus": hf.PegasusConfig(**FAIRSEQ, activation_function="relu", scale_embedding=True),
}  # fmt: skip
JOBS = {n: lambda c, n=n, o=o: c.out(n, o, False) for n, o in CLASSES.items()}
JOBS |= {n: lambda c, n=n, o=o: c.out(n, o, True) for n, o in OWN.items()}
JOBS |= {f"lora-{n}": lambda c, n=n, o=o: c.adapters(n, o) for n, o in CLASSES.items()}
# peft's all-linear has no experts, and it adapts OPT's projections, which train_gpt does not.
IN_PEFT = [n for n in MADE if n not in (*MIXTURES, "opt-narrow")]
JOBS |= {f"peft-{n}": lambda c, n=n, i=i: c.adapters_in(n, MADE[n], i % 2 == 0) for i, n in enumerate(IN_PEFT)}
JOBS |= {f"chat-{n}": lambda c, n=n, o=o: c.chat(n, o) for n, o in CHATS.items()}
JOBS |= {f"in-{n}": lambda c, n=n, o=o: c.come_in(n, o) for n, o in MADE.items()}
MASKED_JOBS = {n: lambda c, n=n, o=o: c.out(n, o, False) for n, o in MASKED.items()}
MASKED_JOBS |= {n: lambda c, n=n, o=o: c.out(n, o, True) for n, o in MASKED_OWN.items()}
MASKED_JOBS |= {f"in-{n}": lambda c, n=n, o=o: c.come_in(n, o) for n, o in MASKED_MADE.items()}
MASKED_JOBS["in-bert-pooled"] = lambda c: c.pooled("bert-pooled", copy.deepcopy(MASKED_MADE["bert"]))
JOBS |= MASKED_JOBS
PAIRS_JOBS = {n: lambda c, n=n, o=o: c.out(n, o, False) for n, o in PAIRS.items()}
PAIRS_JOBS |= {n: lambda c, n=n, o=o: c.out(n, o, True) for n, o in PAIRS_OWN.items()}
PAIRS_JOBS |= {f"in-{n}": lambda c, n=n, o=o: c.come_in(n, o) for n, o in PAIRS_MADE.items()}
JOBS |= PAIRS_JOBS
KINDS = dict.fromkeys(MASKED_JOBS, Masked) | dict.fromkeys(PAIRS_JOBS, Pairs)


def one(program, name):
    if OLDEST and name in NOT_OLDEST:
        print(f"skipped: {name}, which transformers {hf.__version__} computes wrong", flush=True)
        return 0, 0
    with tempfile.TemporaryDirectory() as folder:
        checks = KINDS.get(name, Exchange)(program, Path(folder))
        try:
            JOBS[name](checks)
        except Exception as error:
            checks.check(name, False, repr(error)[:500])
        return checks.passed, checks.failed


def main():
    parser = argparse.ArgumentParser(description="Exchanges tiny models with transformers.")
    parser.add_argument("--program", type=Path, default=Path(__file__).parent.parent / "build" / "train_gpt")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case (default: all)")
    parser.add_argument("names", nargs="*", help="cases (default: all)")
    given = parser.parse_args()
    names = list(given.names or JOBS)[::given.every]
    passed, failed = side_by_side(partial(one, given.program.resolve()), names)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
