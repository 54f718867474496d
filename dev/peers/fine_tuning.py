"""Times fine-tuning of a model of SmolLM2-135M's shape beside PyTorch: all weights, and adapters of `peft`.

    python dev/peers/fine_tuning.py [--program build/train_gpt] [--steps 6] [--rounds 3] [--context 512]

Both take steps on one row of tokens with AdamW and clipping, from the same bf16 folder with random weights; the
adapters have rank 8 on q and v. PyTorch runs in fp32, and with --matmul bf16's counterpart, autocast to bf16; attention
is scaled_dot_product_attention. The two take turns, in both orders. A round's time is the median of its steps without
the first two. Prints medians over the rounds, the median of the rounds' ratios, and the lowest and highest one. Needs
requirements-huggingface.txt, and a machine that does nothing else.
"""

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ADAPTED = ["q_proj", "v_proj"]
CASES = [(lora, bf16) for lora in (False, True) for bf16 in (False, True)]
SKIPPED = 2  # steps at the start of a round


def make_folder(folder):
    """A model of SmolLM2-135M's shape (its published config.json), in bf16, with a tokenizer of as many tokens."""
    config = hf.LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                            rope_theta=100000, rms_norm_eps=1e-5, tie_word_embeddings=True)
    hf.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in letters for b in letters][: config.vocab_size - len(letters)]
    vocabulary = {piece: i for i, piece in enumerate(letters + [a + b for a, b in pairs])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def our_steps(args, folder, lora, bf16):
    """Seconds of each step, from metrics.csv."""
    out = folder / "run"
    words = [args.program, "train", str(folder / "text.txt"), "--init-from", str(folder), "--out", str(out), "--force",
             "--context", str(args.context), "--batch", "1", "--steps", str(args.steps + SKIPPED), "--eval-every", "0",
             "--val-fraction", "0", "--save-every", "0", "--threads", str(torch.get_num_threads()), "--quiet"]
    words += ["--lora", "8", "--lora-on", "q,v"] if lora else []
    words += ["--matmul", "bf16"] if bf16 else []
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    with open(out / "metrics.csv", newline="") as file:
        return [float(row["step_ms"]) / 1000 for row in csv.DictReader(file) if row["step_ms"]]


def their_steps(args, folder, lora, bf16):
    model = hf.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    if lora:
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=ADAPTED, task_type="CAUSAL_LM"))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(0, 49152, (1, args.context + 1))
    seconds = []
    for _ in range(args.steps + SKIPPED):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits[0].float(), tokens[0, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/train_gpt")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=512)
    args = parser.parse_args()
    args.program = str(Path(args.program).resolve())
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    print(f"{'tuned':9}{'matmul':8}{'ours':>9}{'PyTorch':>9}  PyTorch / ours (lowest to highest)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder)
        (folder / "text.txt").write_text("The fox met a crow, and the crow had cheese. " * 2000)
        for lora, bf16 in CASES:
            times = {our_steps: [], their_steps: []}
            for round_ in range(args.rounds):
                for side in (our_steps, their_steps) if round_ % 2 else (their_steps, our_steps):
                    times[side].append(statistics.median(side(args, folder, lora, bf16)[SKIPPED:]))
            ratios = [theirs / ours for ours, theirs in zip(times[our_steps], times[their_steps])]
            ours, theirs = map(statistics.median, times.values())
            print(f"{'adapters' if lora else 'all':9}{'bf16' if bf16 else 'fp32':8}{ours:8.3f}s{theirs:8.3f}s  "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
