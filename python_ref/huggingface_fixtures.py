"""Writes test/huggingface/: tiny models as `transformers` saves them, with loss and gradients of one batch in float64.

    python python_ref/huggingface_fixtures.py [--out test/huggingface]

Each folder has config.json and model.safetensors as save_pretrained() leaves them, and expected.json with the tokens
(B,T+1), the loss, and two numbers of the gradient of each tensor: its norm, and its product with cos(0), cos(1), ...,
which depends on the order of the elements. Needs requirements-huggingface.txt and no network. The same bytes each time.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoModelForMaskedLM as MaskedLM

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
MASKED = {"bert": transformers.BertConfig(**SMALL), "roberta": transformers.RobertaConfig(**SMALL | ROBERTA)}
OTHERS |= MASKED
for config in OTHERS.values():
    config.vocab_size = 31
    config.bos_token_id = config.eos_token_id = None
    config.pad_token_id = 1 if config.model_type == "roberta" else None
B, T = 2, 9

# name: configuration, how the weights are stored, bytes of a shard
MODELS = {
    "gpt2": (transformers.GPT2Config(**GPT2), torch.float32, "1GB"),
    "llama": (transformers.LlamaConfig(**LLAMA), torch.float32, "1GB"),
    "llama-bf16-shards": (transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True), torch.bfloat16, "4KB"),
} | {name: (config, torch.float32, "1GB") for name, config in OTHERS.items()}


def stored_gradients(model):
    """The gradients of the tensors in the file. Their names differ, and the matrices of experts are joined here."""
    kind = model.config.model_type
    for name, w in model.named_parameters():
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


def write(folder, config, dtype, shard):
    torch.manual_seed(17)
    kind = MaskedLM if config in MASKED.values() else transformers.AutoModelForCausalLM
    model = kind.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, w in model.named_parameters():  # gains and biases too: 1 and 0 would hide that one is missing
            w.copy_(torch.randn_like(w) * 0.3 if w.ndim > 1 else w + torch.randn_like(w) * 0.2)
            if config.model_type == "gpt_oss" and name.endswith("gate_up_proj"):
                w *= 20  # far enough for its limits
    model = model.to(dtype)
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(2 if kind is MaskedLM else 0, config.vocab_size, (B, T + 1))
    with double():  # angles and norms, too
        eager = {"attn_implementation": "eager", "dtype": torch.double}
        exact = kind.from_config(config, **eager | ({} if kind is MaskedLM else {"experts_implementation": "eager"}))
        exact.eval().load_state_dict(model.state_dict())
        logits = exact(input_ids=tokens[:, :-1], **{} if kind is MaskedLM else {"use_cache": False}).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
    gradients = {}
    for name, g in stored_gradients(exact):
        g = g.flatten()
        gradients[name] = [g.norm().item(), (g @ torch.arange(len(g)).double().cos()).item()]
    expected = {"tokens": tokens.tolist(), "loss": loss.item(), "gradients": gradients}
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
