"""Exports tiny models with train_gpt, loads them with `transformers`, and compares logits in float64.

    python python_ref/check_formats.py [--program build/train_gpt]

Trains each preset that has a model class for a few steps, exports it, and checks that the folder loads without a
missing or unexpected tensor, that its loss is that of `train_gpt eval`, and that importing the folder again gives the
same weights. Prints "N passed, N failed". Needs requirements-huggingface.txt and no network.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

T = 16
SIZES = f"--layers 2 --heads 4 --channels 32 --context {T} --batch 4 --steps 20 --lr 3e-2 --warmup 1 --quiet"
CASES = {
    "gpt2": "--preset gpt2", "gpt2-gelu-untied": "--preset gpt2 --activation gelu --no-tied --hidden 48",
    "gpt2-no-bias": "--preset gpt2 --no-bias", "llama": "--preset llama", "llama2": "--preset llama2 --head-dim 10",
    "llama3": "--preset llama3 --tied", "mistral": "--preset mistral --window 5", "qwen": "--preset qwen",
    "qwen2": "--preset qwen2", "qwen3": "--preset qwen3 --head-dim 12", "baichuan-7b": "--preset baichuan-7b",
    "olmo2": "--preset olmo2",
    "gemma2": "--preset gemma2 --window 5 --attention-cap 2 --logit-cap 3 --attention-scale 0.25",
}  # fmt: skip
REFUSED = {"--placement post": "--placement", "--placement deepnorm": "--placement", "--norm dyt": "--norm"}
TEXT = ("One day the fox met a crow. The crow had cheese, and the fox had a plan.\n" * 40).encode()[: 150 * T + 1]


class Checks:
    def __init__(self, program):
        self.program, self.passed, self.failed = program, 0, 0

    def run(self, folder, words):
        return subprocess.run([self.program, *words.split()], cwd=folder, capture_output=True, text=True)

    def check(self, name, ok, detail=""):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        if not ok:
            print(f"FAILED {name}: {detail}", flush=True)

    def train(self, folder, options):
        (folder / "text.txt").write_bytes(TEXT)
        done = self.run(folder, f"train text.txt {SIZES} {options} --out run --force")
        assert done.returncode == 0, done.stderr

    def export(self, folder, name, options):
        self.train(folder, options)
        done = self.run(folder, "export run --out hf --force")
        self.check(f"{name}: export", done.returncode == 0, done.stderr)
        return done.returncode == 0

    def loss_of_eval(self, folder, run):
        done = self.run(folder, f"eval {run} --data text.txt")
        found = re.search(r"loss ([0-9.]+) nats", done.stdout)
        return float(found[1]) if found else float("nan")

    def compare(self, folder, name):
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder / "hf", dtype=torch.float64, attn_implementation="eager", output_loading_info=True
        )
        lost = {k: v for k, v in info.items() if v}
        self.check(f"{name}: tensors", not lost, lost)
        ids = torch.tensor(list(TEXT))  # eval reads windows, one behind the other
        with torch.no_grad():
            logits = model(input_ids=ids[:-1].view(-1, T)).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[1:]).item()
        ours = self.loss_of_eval(folder, "run")
        self.check(f"{name}: loss", abs(loss - ours) < 1e-4, f"{loss:.6f}, and {ours:.6f} by eval")
        self.check(f"{name}: import", self.loss_of_eval(folder, "hf") == ours, "another loss after import")
        self.run(folder, "export hf --out again --force")
        first, second = (load_file(folder / f / "model.safetensors") for f in ("hf", "again"))
        same = first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
        self.check(f"{name}: the same bits after import and export", same)

    def refuse(self, folder, options, named):
        self.train(folder, options)
        done = self.run(folder, "export run --out refused --force")
        ok = done.returncode == 1 and named in done.stderr and done.stderr.count("\n") == 1
        self.check(f"{options}: refused", ok, done.stderr)


def main():
    parser = argparse.ArgumentParser(description="Checks exported folders with transformers.")
    parser.add_argument("--program", type=Path, default=Path(__file__).parent.parent / "build" / "train_gpt")
    checks = Checks(parser.parse_args().program.resolve())
    for name, options in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            if checks.export(Path(folder), name, options):
                checks.compare(Path(folder), name)
    for options, named in REFUSED.items():
        with tempfile.TemporaryDirectory() as folder:
            checks.refuse(Path(folder), options, named)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
