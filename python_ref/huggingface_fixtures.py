"""Writes test/huggingface/: tiny models as `transformers` saves them, with loss and gradients of one batch in float64.

    python python_ref/huggingface_fixtures.py [--out test/huggingface]

Each folder has config.json and model.safetensors as save_pretrained() leaves them, and expected.json with the tokens
(B,T+1), the sources (B,S) and their lengths if there are any, the loss, and two numbers of the gradient of each
tensor: its norm, and its product with cos(0), cos(1), ..., which depends on the order of the elements. Needs
requirements-huggingface.txt and no network. The same bytes each time.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoModelForMaskedLM as MaskedLM
from transformers import AutoModelForSeq2SeqLM as Seq2SeqLM

from huggingface import double

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

GPT2 = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 12, "vocab_size": 31}
LLAMA = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16,
    "intermediate_size": 24, "max_position_embeddings": 12, "vocab_size": 31,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rms_norm_eps": 1e-5,
}  # fmt: skip

# One tiny model of each other class, with every feature that could go wrong.
SMALL = {
    "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 12,
    "max_position_embeddings": 12,
}  # fmt: skip
HALF = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 6,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.5],
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 1e3, "factor": 4.0, "original_max_position_embeddings": 6, "beta_fast": 8.0,
    "beta_slow": 0.1, "truncate": False,
}  # fmt: skip
WINDOW_FIRST = ["sliding_attention", "full_attention"]
FALCON = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 16, "max_position_embeddings": 12}
OPT = SMALL | {"ffn_dim": 12, "word_embed_proj_dim": 8}
ROBERTA = {"max_position_embeddings": 14, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
MOE = {"num_key_value_heads": 1, "num_experts_per_tok": 2}
OTHERS = {
    "openai-gpt": transformers.OpenAIGPTConfig(n_layer=2, n_head=2, n_embd=8, n_positions=12),
    "gpt_bigcode": transformers.GPTBigCodeConfig(n_layer=2, n_head=2, n_embd=8, n_positions=12),
    "opt": transformers.OPTConfig(**OPT),
    "opt-post": transformers.OPTConfig(**OPT, do_layer_norm_before=False),
    "opt-narrow": transformers.OPTConfig(**OPT | {"word_embed_proj_dim": 6}, do_layer_norm_before=False),
    "bloom": transformers.BloomConfig(n_layer=2, n_head=2, hidden_size=8),
    "falcon-7b": transformers.FalconConfig(**FALCON),
    "falcon-40b": transformers.FalconConfig(**FALCON, new_decoder_architecture=True, num_kv_heads=2),
    "gpt_neox": transformers.GPTNeoXConfig(**SMALL, **HALF),
    "phi": transformers.PhiConfig(**SMALL, **HALF),
    "phi3": transformers.Phi3Config(**SMALL, num_key_value_heads=1),
    "glm": transformers.GlmConfig(**SMALL, **HALF, num_key_value_heads=1, head_dim=8, attention_bias=True),
    "gemma": transformers.GemmaConfig(**SMALL, num_key_value_heads=1, head_dim=6),
    "gemma3": transformers.Gemma3TextConfig(
        **SMALL, num_key_value_heads=1, head_dim=6, sliding_window=4, layer_types=WINDOW_FIRST
    ),
    "olmo": transformers.OlmoConfig(**SMALL, num_key_value_heads=1),
    "granite": transformers.GraniteConfig(
        **SMALL, num_key_value_heads=1, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
        attention_multiplier=0.25,
    ),
    "hyperclovax": transformers.HyperCLOVAXConfig(
        **SMALL, num_key_value_heads=1, embedding_multiplier=12.0, logits_scaling=0.125, residual_multiplier=0.22,
        attention_multiplier=0.25,
    ),
    "cohere": transformers.CohereConfig(**SMALL, num_key_value_heads=1, logit_scale=0.25),
    "cohere2": transformers.Cohere2Config(
        **SMALL, num_key_value_heads=1, sliding_window=4, layer_types=WINDOW_FIRST, attention_bias=True
    ),
    "gptj": transformers.GPTJConfig(n_layer=2, n_head=2, n_embd=8, n_positions=12, rotary_dim=2),
    "codegen": transformers.CodeGenConfig(n_layer=2, n_head=2, n_embd=16, n_positions=12, rotary_dim=4),
    "glm4": transformers.Glm4Config(**SMALL, **HALF, num_key_value_heads=1, head_dim=8),
    "nanochat": transformers.NanoChatConfig(**SMALL, num_key_value_heads=1),
    "phi4-mini": transformers.Phi3Config(
        **SMALL, num_key_value_heads=1, original_max_position_embeddings=6, rope_parameters=LONGROPE
    ),
    "olmo3": transformers.Olmo3Config(**SMALL, num_key_value_heads=1, sliding_window=4, layer_types=WINDOW_FIRST),
    "smollm3": transformers.SmolLM3Config(**SMALL, num_key_value_heads=1, no_rope_layers=[1, 0]),
    "llama3.2": transformers.LlamaConfig(**SMALL, num_key_value_heads=1, rope_parameters=LLAMA3),
    "gpt_neo": transformers.GPTNeoConfig(
        num_layers=2, num_heads=2, hidden_size=8, intermediate_size=12, max_position_embeddings=12, window_size=4,
        attention_types=[[["global", "local"], 1]],
    ),
    "stablelm": transformers.StableLmConfig(**SMALL, **HALF, num_key_value_heads=1, use_parallel_residual=True),
    "starcoder2": transformers.Starcoder2Config(**SMALL, num_key_value_heads=1, sliding_window=4),
    "mixtral": transformers.MixtralConfig(**SMALL, **MOE, num_local_experts=3),
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **SMALL, **MOE, num_experts=3, moe_intermediate_size=6, head_dim=6, norm_topk_prob=True
    ),
    "gpt_oss": transformers.GptOssConfig(
        **SMALL, **MOE, num_local_experts=3, head_dim=8, sliding_window=4, layer_types=WINDOW_FIRST,
        rope_parameters=YARN,
    ),
    "olmoe": transformers.OlmoeConfig(**SMALL, num_experts=3, num_experts_per_tok=2),
}
T5 = {"num_layers": 2, "num_decoder_layers": 1, "num_heads": 2, "d_model": 8, "d_ff": 12, "d_kv": 3}
BART = {
    "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "d_model": 8, "max_position_embeddings": 12,
}  # fmt: skip
PAIRS = {
    "t5": transformers.T5Config(**T5, relative_attention_num_buckets=8, relative_attention_max_distance=6),
    "t5-v1.1": transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "mt5": transformers.MT5Config(**T5),
    "marian": transformers.MarianConfig(**BART, activation_function="swish", scale_embedding=True),
    "bart": transformers.BartConfig(**BART), "mbart": transformers.MBartConfig(**BART, scale_embedding=True),
    "pegasus": transformers.PegasusConfig(**BART, activation_function="relu"),
}  # fmt: skip
OTHERS |= PAIRS
MASKED = {"bert": transformers.BertConfig(**SMALL), "roberta": transformers.RobertaConfig(**SMALL | ROBERTA)}
OTHERS |= MASKED
for config in OTHERS.values():
    config.vocab_size = config.decoder_vocab_size = 31
    config.bos_token_id = config.eos_token_id = None
    config.pad_token_id = 1 if config.model_type == "roberta" else None
for config in PAIRS.values():
    config.decoder_start_token_id = 0
B, T = 2, 9
SOURCES = (7, 4)  # lengths

# name: configuration, how the weights are stored, bytes of a shard
MODELS = {
    "gpt2": (transformers.GPT2Config(**GPT2), torch.float32, "1GB"),
    "llama": (transformers.LlamaConfig(**LLAMA), torch.float32, "1GB"),
    "llama-bf16-shards": (transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True), torch.bfloat16, "4KB"),
} | {name: (config, torch.float32, "1GB") for name, config in OTHERS.items()}


def with_bias(model):
    """The parameters, and the bias of BART's head, which is none."""
    yield from ((name, w) for name, w in model.named_parameters() if w.requires_grad)
    yield from ((name, w) for name, w in model.named_buffers() if name == "final_logits_bias")


def stored_gradients(model):
    """The gradients of the tensors in the file. Their names differ, and the matrices of experts are joined here."""
    kind = model.config.model_type
    for name, w in with_bias(model):
        if ".mlp.experts." in name and kind != "gpt_oss":
            parts = w.grad.chunk(2, 1) if "gate_up" in name else [w.grad]
            names = ["gate_proj", "up_proj"] if "gate_up" in name else ["down_proj"]
            for part, theirs in zip(parts, names):
                for i, g in enumerate(part):
                    yield stored_name(kind, f"{name.rpartition('.')[0]}.{i}.{theirs}.weight"), g
        else:
            yield stored_name(kind, name), w.grad


def stored_name(kind, name):
    if kind == "gpt_neox":
        return name.replace("lm_head", "embed_out")
    if kind == "mixtral":
        name = name.replace(".mlp.", ".block_sparse_moe.")
        for ours, theirs in {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}.items():
            name = name.replace(ours, theirs)
    return name


def with_head(model):
    """T5 1.1 has a head of its own, which the class ties to the embedding at first."""
    if model.config.model_type in ("t5", "mt5") and not getattr(model.config, "scale_decoder_outputs", False):
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    return model


def write(folder, config, dtype, shard):
    torch.manual_seed(17)
    masked, pairs = config in MASKED.values(), config in PAIRS.values()
    kind = MaskedLM if masked else Seq2SeqLM if pairs else transformers.AutoModelForCausalLM
    model = with_head(kind.from_config(config, dtype=torch.float32).eval())
    with torch.no_grad():
        for name, w in with_bias(model):  # gains and biases too: 1 and 0 would hide that one is missing
            w.copy_(torch.randn_like(w) * 0.3 if w.ndim > 1 else w + torch.randn_like(w) * 0.2)
            if config.model_type == "gpt_oss" and name.endswith("gate_up_proj"):
                w *= 20  # far enough for its limits
    model = model.to(dtype)
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(2 if masked else 0, config.vocab_size, (B, T + 1))
    inputs = {"input_ids": tokens[:, :-1]} | ({} if masked else {"use_cache": False})
    expected = {"tokens": tokens.tolist()}
    if pairs:
        sources, lengths = torch.randint(0, config.vocab_size, (B, max(SOURCES))), torch.tensor(SOURCES)
        read = torch.arange(max(SOURCES)) < lengths[:, None]
        inputs = {"input_ids": sources, "attention_mask": read.long(), "decoder_input_ids": tokens[:, :-1]}
        expected |= {"sources": sources.tolist(), "lengths": SOURCES}
    with double():  # angles and norms, too
        eager = {"attn_implementation": "eager", "dtype": torch.double}
        eager |= {} if masked or pairs else {"experts_implementation": "eager"}
        exact = with_head(kind.from_config(config, **eager))
        exact.eval().load_state_dict(model.state_dict())
        for _, w in with_bias(exact):
            w.requires_grad_()
        logits = exact(**inputs).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
    gradients = {}
    for name, g in stored_gradients(exact):
        g = g.flatten()
        gradients[name] = [g.norm().item(), (g @ torch.arange(len(g)).double().cos()).item()]
    expected |= {"loss": loss.item(), "gradients": gradients}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(f"{folder.name:20} loss {loss:.6f}")


def main():
    parser = argparse.ArgumentParser(description="Writes tiny models as transformers saves them.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "test" / "huggingface")
    out = parser.parse_args().out
    for name, (config, dtype, shard) in MODELS.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        write(folder, config, dtype, shard)


if __name__ == "__main__":
    main()
