"""Exports tiny models as GGUF with train_gpt, and runs them with the real llama.cpp.

    python python_ref/check_gguf.py [--program build/train_gpt] [--write] [CASE...]

Trains a model of each architecture for a few steps, exports it in each number type, and checks with the wheels
`xllamacpp` (llama.cpp) and `gguf` (its file format) that

- llama.cpp writes the same greedy text as `train_gpt sample`, in float32 with a float32 cache;
- llama.cpp finds the same tokens in a text, and the loss of `train_gpt eval` on it, within BOUND;
- llama.cpp's chat writes a conversation with the tokens that the model has learned, and gets its greedy answer;
- numbers in f16, bf16 and q8_0 have the bits that `gguf.quants` makes of those in f32;
- a file whose matrices llama.cpp has quantized, in all formats that `train_gpt` reads, has the same loss in both, and
  the numbers that `gguf.quants` reads;
- test/gguf/types.gguf holds numbers that llama.cpp quantizes, and what `gguf.quants` reads;
- the files in test/gguf, which are exports of test/huggingface, are what `train_gpt` writes, and have in llama.cpp the
  loss that `transformers` found in float64. --write writes them again.

Prints "N passed, N failed". Needs requirements-gguf.txt; skips with a message if they are not installed.
"""

import argparse
import ctypes
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path

try:
    import gguf
    import numpy as np
    import xllamacpp
except ImportError as error:
    print(f"skipped: {error}; pip install -r python_ref/requirements-gguf.txt")
    sys.exit(0)

from checks import Checks

TESTS = Path(__file__).parent.parent / "test"
T = 64
SIZES = f"--layers 2 --heads 4 --channels 64 --context {T} --batch 4 --steps 100 --lr 1e-2 --warmup 5 --quiet"
GEMMA = "--preset gemma2 --placement pre --window 0 --window-layers all --attention-cap 0 --logit-cap 0"
STABLELM = "--preset llama --norm layernorm --norm-bias"
STARCODER2 = "--preset gpt2 --position rope"
# Stretchings of RoPE that leave no pair of channels in a head of 16 as it is.
LINEAR = "--rope-scaling linear --rope-factor 4"
YARN = "--rope-theta 100 --rope-scaling yarn --rope-factor 8 --rope-original 400"
LLAMA3 = "--rope-theta 100 --rope-scaling llama3 --rope-factor 8 --rope-original 32"
LONGROPE = "--rope-scaling longrope --rope-factor 4 --rope-short 1,1.1,1.2,1.3,1.5,2,2.5,3 " \
    "--rope-long 2,2.5,3,4,5.5,7,8,9"  # llama.cpp takes the first list if the original context is longer than its own
GEMMA3 = "--preset gemma3 --layers 6 --window 17 --rope-theta 1000 --window-rope-theta 50"
OLMO3 = "--preset olmo2 --layers 4 --window 17 --window-layers 0,1,2"
SMOLLM3 = "--preset llama --layers 5 --rope-layers 0,1,2,4"
CASES = {
    "gpt2": "--preset gpt2", "gpt2-char": "--preset gpt2 --tokenizer char --no-tied --hidden 96",
    "gpt2-bpe": "--preset gpt2 --no-bias --tokenizer bpe:300", "gpt2-gqa": "--preset gpt2 --kv-heads 2",
    "llama": "--preset llama", "llama-bpe": "--preset llama3 --tied --tokenizer bpe:300",
    "llama-bias": "--preset llama2 --head-dim 24 --bias --kv-heads 2 --norm-unit-offset",
    "llama-char": "--preset llama --tokenizer char", "llama-odd": "--preset llama --hidden 100",
    "llama-bpe-file": f"--preset llama --tokenizer {TESTS}/reference/tokenizer/tokenizer.json",
    "llama-pieces": f"--preset llama --tokenizer {TESTS}/reference/pieces/llama2.model",
    "qwen2": "--preset qwen2 --tied", "qwen2-head-bias": "--preset qwen2 --head-bias",
    "qwen3": "--preset qwen3 --head-dim 24", "qwen3-bias": "--preset qwen3 --qkv-bias",
    "olmo": "--preset olmo --kv-heads 2", "granite": "--preset llama --branch-scale 0.22 --logit-scale 0.125 "
    "--embedding-scale 12 --attention-scale 0.05 --kv-heads 2 --tied", "llama-o-bias": "--preset llama --o-bias",
    "olmo2": "--preset olmo2", "olmo2-tied": "--preset olmo2 --tied",
    "mixtral": "--preset mixtral --experts 4 --hidden 64", "qwen3moe": "--preset qwen3-moe --hidden 64 --head-dim 24",
    "olmoe": "--preset olmoe --hidden 64", "olmoe-tied": "--preset olmoe --hidden 64 --tied",
    "olmo2-gqa": "--preset olmo2 --kv-heads 2", "mixtral-gqa": "--preset mixtral --experts 4 --hidden 64 --kv-heads 1",
    "qwen3moe-gqa": "--preset qwen3-moe --hidden 64 --kv-heads 2", "gemma2-gqa": "--preset gemma2 --kv-heads 1",
    "qwen3-gqa": "--preset qwen3 --kv-heads 1", "qwen2-gqa": "--preset qwen2 --kv-heads 2",
    "gemma2": "--preset gemma2 --window 17 --attention-cap 2 --logit-cap 3",
    "bloom": "--preset bloom", "bloom-gqa": "--preset bloom --no-tied --kv-heads 1 --heads 6 --channels 72",
    "gptneox": "--preset gpt-neox", "gptneox-tied": "--preset gpt-neox --tied --rope-fraction 1",
    "gptneox-sequential": "--preset gpt-neox --block sequential --kv-heads 2", "phi2": "--preset phi-2",
    "phi2-tied": "--preset phi-2 --tied --kv-heads 1 --rope-fraction 0.5", "gemma": GEMMA,
    "gemma-other": f"{GEMMA} --head-dim 24 --kv-heads 1", "stablelm": f"{STABLELM} --rope-fraction 0.25",
    "stablelm-parallel": f"{STABLELM} --block parallel-shared --qkv-bias --kv-heads 2", "starcoder2": STARCODER2,
    "starcoder2-other": f"{STARCODER2} --no-tied --kv-heads 1 --rope-theta 999 --no-bias",
    "phi3": "--preset llama --rope-fraction 0.5", "phi3-gqa": "--preset llama --rope-fraction 0.75 --kv-heads 1 --tied",
    "gemma2-other": "--preset gemma2 --window 0 --rope-fraction 0.5 --no-norm-unit-offset --head-dim 24",
    "llama3": f"--preset llama {LLAMA3} --tied", "llama3-other": f"--preset llama {LLAMA3} --rope-slow 2 --rope-fast 3",
    "llama-linear": f"--preset llama {LINEAR} --rope-magnitude 1.5", "llama-yarn": f"--preset llama {YARN}",
    "mixtral-llama3": f"--preset mixtral --experts 4 --hidden 64 {LLAMA3}",
    "qwen2-linear": f"--preset qwen2 {LINEAR}", "qwen3-yarn": f"--preset qwen3 {YARN} --rope-magnitude 1.3",
    "qwen3moe-yarn": f"--preset qwen3-moe --hidden 64 {YARN}", "olmoe-linear": f"--preset olmoe --hidden 64 {LINEAR}",
    "gemma-linear": f"{GEMMA} {LINEAR}", "gemma2-yarn": f"--preset gemma2 --window 17 {YARN} --rope-magnitude 1.3",
    "gptneox-yarn": f"--preset gpt-neox {YARN}", "phi2-linear": f"--preset phi-2 {LINEAR}",
    "phi3-longrope": f"--preset llama --rope-original 8 {LONGROPE}",
    "phi3-longrope-short": f"--preset llama --rope-original 999 --tied {LONGROPE}",
    "phi3-yarn": f"--preset llama --rope-fraction 0.5 {YARN}", "starcoder2-yarn": f"{STARCODER2} {YARN}",
    "stablelm-yarn": f"{STABLELM} --rope-fraction 0.25 {YARN}",
    "gemma3": f"{GEMMA3} --window-layers 0,1,2,3,4 {LINEAR}", "gemma3-full": "--preset gemma3 --window 0 --kv-heads 4",
    "gemma3-layers": f"{GEMMA3} --window-layers 1,3 --no-tied --logit-cap 3 --head-dim 24",
    "gemma3-yarn": f"{GEMMA3} --window-layers 0,1,2,3,4 {YARN} --rope-fraction 0.5 --window 64",
    "gemma3-largest": "--preset gemma3 --layers 62 --window 17 --head-dim 24 --attention-scale 0.25 --steps 10",
    "olmo3": f"{OLMO3} {YARN} --window-rope-theta 100 --rope-magnitude 1.3", "olmo3-layers": f"{OLMO3},3 --kv-heads 2",
    "smollm3": f"{SMOLLM3} --tied", "smollm3-other": f"{SMOLLM3} {YARN} --qkv-bias --kv-heads 2 --head-dim 24",
}  # fmt: skip
# Texts that are hard to split, and their tokens by `tokenizers` and `sentencepiece`.
HARD = {
    "llama-bpe-file": ("tokenizer", lambda tokens: tokens), "llama-pieces": ("pieces", lambda tokens: tokens["llama2"]),
}  # fmt: skip
# Tolerances of the loss: a few times the largest error seen, 4.6e-5 (llama.cpp has GELU as a table of halves), 5.8e-5,
# 3.0e-4 and 9.0e-4.
BOUND = {"f32": 1e-4, "f16": 5e-4, "bf16": 2e-3, "q8_0": 5e-3}
# Formats that train_gpt reads. llama.cpp multiplies quantized matrices by rounded activations, so its loss differs.
READ = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
QUANTIZED = {
    name: f"{CASES[name]} --channels 256 --heads 4 --hidden 256 --head-dim 64"
    for name in CASES if "-" not in name
}  # fmt: skip
QUANTIZED_BOUND = 4e-3  # 1.2e-3
CHATS = {  # names of the cases → options
    "chatml": "--chat-template chatml", "chatml-bpe": "--chat-template chatml --preset llama --tokenizer bpe:300",
    "plain": "--chat-template plain", "plain-char": "--chat-template plain --tokenizer char --preset llama",
    "plain-pieces": f"--chat-template plain --preset llama --tokenizer {TESTS}/reference/pieces/llama2.model",
}  # fmt: skip
# What build 8929 computes wrong: it ignores which layers have a window.
NOT_OLDEST = {"gemma3-layers", "olmo3-layers"}
OLDEST = int(version("xllamacpp").split(".")[-1]) <= 8929
FIXTURES, FIXTURE_BOUND = ("gpt2", "llama", "llama3.2") + (() if OLDEST else ("olmo3",)), 1e-4
PROMPT = "One day the fox"
TEXT = (
    "One day the fox met a crow. The crow had cheese;  don't ask, it's 25 kg (\\o/).\n\tÜber Füchse: €5 — 漢!\n"
    "The fox, who'd a plan, said nothing.\n\n"
) * 25

# Conversations with two questions each, whose answers are in them.
CONVERSATIONS = [
    [{"role": "user", "content": f"{name} hid a {thing}. Who?"}, {"role": "assistant", "content": name},
     {"role": "user", "content": "What?"}, {"role": "assistant", "content": f"a {thing}"}]
    for name in ("Emma", "Max", "Lily", "Tom") for thing in ("hat", "duck", "cup")
] * 5  # fmt: skip


class LlamaCpp:
    """A model in llama.cpp, whose server listens on a free port of 127.0.0.1."""

    def __init__(self, path, context=T):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup, params.verbosity = context, 1, False, 1  # errors alone
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(params)

    def ask(self, path, **request):
        url, header = f"{self.server.listening_address}/{path}", {"Content-Type": "application/json"}
        question = urllib.request.Request(url, json.dumps(request).encode(), header)
        with urllib.request.urlopen(question, timeout=120) as answer:
            return json.load(answer)

    def tokens(self, text):
        return self.ask("tokenize", content=text, add_special=True)["tokens"]

    def greedy(self, prompt, length):
        """The text; None if it is not UTF-8 and this build refuses to answer with it."""
        try:
            return self.ask("completion", prompt=prompt, n_predict=length, temperature=0, top_k=1)["content"]
        except urllib.error.HTTPError as error:
            if OLDEST and b"Failed to parse input" in error.read():
                return None
            raise

    def loss(self, tokens):
        """The mean loss of the tokens after the first, in nats."""
        # Probabilities come with tokens that are whole characters.
        nats, letter = 0, next(t for c in "eA" for t in self.tokens(c) if t >= 0)
        for n in range(1, len(tokens)):
            biased = {"n_predict": 1, "n_probs": 1000, "logit_bias": [[letter, 1e4]]}  # acts after the probabilities
            # With a window, the server would also find keys of the text before.
            answer = self.ask("completion", prompt=tokens[:n], temperature=0, cache_prompt=False, **biased)
            rows = answer["completion_probabilities"][0]["top_logprobs"]
            nats -= next(row["logprob"] for row in rows if row["id"] == tokens[n])
        return nats / (len(tokens) - 1)


def quantize(x, kind):
    """Rounds rows of numbers as llama.cpp does."""
    kind, x = gguf.GGMLQuantizationType[kind], np.ascontiguousarray(x, dtype=np.float32)
    if kind.name in ("F32", "F16", "BF16"):
        return gguf.quants.quantize(x, kind)
    library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    run = library.ggml_quantize_chunk
    run.restype = ctypes.c_size_t
    run.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    columns = x.shape[-1]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.empty((*x.shape[:-1], columns // block * size), dtype=np.uint8)
    run(kind, x.ctypes.data, out.ctypes.data, 0, x.size // columns, columns, None)
    return out


class Exchange(Checks):
    def __init__(self, program):
        super().__init__(program)
        self.worst = {}

    def run(self, folder, *words):
        done = subprocess.run([self.program, *words], cwd=folder, capture_output=True)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def case(self, folder, name, options):
        (folder / "text.txt").write_text(TEXT)
        status, _, message = self.run(folder, *f"train text.txt {SIZES} {options} --out run --force".split())
        assert status == 0, message
        types = ["f32", "f16", "bf16", "q8_0"] if "-" not in name or name == "llama-odd" else ["f32"]
        for dtype in types:
            status, _, message = self.run(folder, *f"export run --to gguf --dtype {dtype} --out {dtype}.gguf".split())
            self.check(f"{name}: export {dtype}", status == 0, message)
            if status != 0:
                return
            self.in_llama_cpp(folder, name, dtype)
        for dtype in types[1:]:
            self.same_bits(folder, name, dtype)

    def in_llama_cpp(self, folder, name, dtype):
        model = LlamaCpp(folder / f"{dtype}.gguf")
        window, tokens = self.window(model)
        if "char" in name:
            self.check(f"{name}: tokens", tokens == [sorted(set(TEXT)).index(c) for c in window], tokens)
        elif name in HARD:
            of, part = HARD[name]
            hard = (TESTS / "reference" / of / "hard.txt").read_bytes().decode()
            want = part(json.loads((TESTS / "reference" / of / "hard.tokens.json").read_text()))
            got = model.tokens(hard)
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            self.check(f"{name}: hard text", got == want, f"from token {at}: {got[at:at + 9]}, and {want[at:at + 9]}")
        elif "bpe" not in name:
            self.check(f"{name}: tokens", tokens == list(window.encode()), tokens)
        (folder / "window.txt").write_text(window)
        _, text, message = self.run(folder, "eval", "run", "--data", "window.txt")
        found = re.search(r"loss ([0-9.]+) nats", text)
        loss, ours = model.loss(tokens), float(found[1]) if found else math.nan
        close = abs(loss - ours) < BOUND[dtype]
        self.check(f"{name} {dtype}: loss", close, f"{loss:.6f}, and {ours:.6f} by eval {message}")
        self.worst[dtype] = max(self.worst.get(dtype, 0), abs(loss - ours))
        if dtype == "f32":
            _, want, _ = self.run(folder, "sample", "run", "--greedy", "--length", "40", "--prompt", PROMPT)
            text = model.greedy(PROMPT, 40)
            if text is None:
                print(f"skipped: {name}: greedy text, which is not UTF-8: this build refuses it", flush=True)
                return
            got = PROMPT + text
            same = got.rstrip("\n\ufffd") == want.rstrip("\n\ufffd") and len(got) > len(PROMPT) + 20
            self.check(f"{name}: greedy text", same, f"{got!r}, and {want!r}")

    def chat(self, folder, name, options):
        (folder / "chat.jsonl").write_text("".join(json.dumps({"messages": turns}) + "\n" for turns in CONVERSATIONS))
        words = f"train chat.jsonl {SIZES} --context 128 {options} --out run --force"
        status, _, message = self.run(folder, *words.split())
        assert status == 0, message
        assert self.run(folder, "export", "run", "--to", "gguf", "--out", "chat.gguf")[0] == 0
        model = LlamaCpp(folder / "chat.gguf", 128)
        for turns in CONVERSATIONS[:3]:
            asked = turns[:1]
            got = model.ask("v1/chat/completions", messages=asked, temperature=0, top_k=1, max_tokens=30)
            got = got["choices"][0]["message"]["content"].strip()
            words = "--length", "30", "--prompt", asked[0]["content"]
            _, want, message = self.run(folder, "sample", "run", "--greedy", *words)
            self.check(f"{name}: answer", got == want.strip() and got, f"{got!r}, and {want!r} {message}")

    @staticmethod
    def window(model):
        """As much of the text as fits into the context, and its tokens."""
        start = TEXT.index("don't")
        for end in range(start + T, start, -1):
            if len(tokens := model.tokens(TEXT[start:end])) <= T:
                return TEXT[start:end], tokens
        raise AssertionError("no window")

    def same_bits(self, folder, name, dtype):
        full, small = ({t.name: t for t in gguf.GGUFReader(folder / f"{d}.gguf").tensors} for d in ("f32", dtype))
        kinds = {str(t.tensor_type.name).lower() for t in small.values()}
        self.check(f"{name} {dtype}: types", dtype in kinds and kinds <= {"f32", "f16", dtype}, kinds)
        self.check(f"{name} {dtype}: names", full.keys() == small.keys(), "other tensors")
        for key, t in small.items():
            x = np.array(full[key].data)
            want = gguf.quants.quantize(x, t.tensor_type)
            same = want.tobytes() == np.array(t.data).tobytes()
            error = np.abs(gguf.quants.dequantize(np.array(t.data), t.tensor_type).reshape(x.shape) - x).max()
            self.check(f"{name} {dtype}: {key}", same and error <= np.abs(x).max() / 100, f"other bits, error {error}")

    def quantized(self, folder, name, options):
        """Every format at once: one matrix after the other has the next."""
        (folder / "text.txt").write_text(TEXT)
        words = f"train text.txt {SIZES} {options} --steps 20 --out run --force"
        status, _, message = self.run(folder, *words.split())
        assert status == 0, message
        assert self.run(folder, "export", "run", "--to", "gguf", "--out", "f32.gguf")[0] == 0
        self.requantize(folder / "f32.gguf", folder / "mixed.gguf")
        model = LlamaCpp(folder / "mixed.gguf")
        window, tokens = self.window(model)
        (folder / "window.txt").write_text(window)
        _, text, message = self.run(folder, "eval", "mixed.gguf", "--data", "window.txt")
        found = re.search(r"loss ([0-9.]+) nats", text)
        loss, ours = model.loss(tokens), float(found[1]) if found else math.nan
        detail = f"{loss:.6f}, and {ours:.6f} by eval {message}"
        self.check(f"{name} quantized: loss", abs(loss - ours) < QUANTIZED_BOUND, detail)
        self.worst["quantized"] = max(self.worst.get("quantized", 0), abs(loss - ours))
        status, _, message = self.run(folder, *"export mixed.gguf --to gguf --out again.gguf --force".split())
        self.check(f"{name} quantized: export", status == 0, message)
        again = {t.name: t for t in gguf.GGUFReader(folder / "again.gguf").tensors}
        for t in gguf.GGUFReader(folder / "mixed.gguf").tensors:
            want = gguf.quants.dequantize(np.array(t.data), t.tensor_type)
            got = np.array(again[t.name].data).reshape(want.shape)
            close = np.abs(got - want).max() <= 2e-7 * np.abs(want).max()
            self.check(f"{name} quantized: {t.name} {t.tensor_type.name}", close, np.abs(got - want).max())

    @staticmethod
    def requantize(source, target):
        read = gguf.GGUFReader(source)
        writer = gguf.GGUFWriter(target, read.fields["general.architecture"].contents())
        for key, field in read.fields.items():
            if not key.startswith("GGUF.") and key != "general.architecture":
                of_elements = field.types[-1] if len(field.types) > 1 else None
                writer.add_key_value(key, field.contents(), field.types[0], of_elements)
        for i, t in enumerate(read.tensors):
            matrix = len(t.shape) > 1 and "position" not in t.name and "gate_inp" not in t.name
            kind = READ[i % len(READ)] if matrix else "F32"
            data = quantize(np.array(t.data), kind)
            raw = None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind]
            writer.add_tensor(t.name, data, raw_dtype=raw)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def types(self, folder, write):
        """Writes 256 numbers in each format, and what gguf.quants reads."""
        stored = TESTS / "gguf" / "types.gguf"
        writer = gguf.GGUFWriter(folder / "types.gguf", "none")
        x = np.random.default_rng(1).standard_normal(256, dtype=np.float32)
        x[128:] = 0.1 * x[128:] + 1
        for name in READ:
            kind, data = gguf.GGMLQuantizationType[name], quantize(x, name)
            want = gguf.quants.dequantize(data.view(np.uint8) if name == "BF16" else data, kind).astype(np.float32)
            writer.add_tensor(name.lower(), data, raw_dtype=None if name in ("F32", "F16") else kind)
            writer.add_tensor(f"{name.lower()}.f32", want.reshape(x.shape))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        if write:
            shutil.copy(folder / "types.gguf", stored)
        self.check(f"{stored}: same bytes", (folder / "types.gguf").read_bytes() == stored.read_bytes(), "others")

    def fixture(self, folder, name, write):
        source, stored = TESTS / "huggingface" / name, TESTS / "gguf" / f"{name}.gguf"
        shutil.copytree(source, folder / name)
        config = json.loads((folder / name / "config.json").read_text())
        config["train_gpt_tokenizer"] = {"kind": "char", "codepoints": [65 + i for i in range(config["vocab_size"])]}
        config["eos_token_id"] = None  # letters have no end
        (folder / name / "config.json").write_text(json.dumps(config))
        status, _, message = self.run(folder, "export", name, "--to", "gguf", "--out", "out.gguf")
        self.check(f"test/gguf/{name}.gguf: export", status == 0, message)
        if write:
            shutil.copy(folder / "out.gguf", stored)
        self.check(f"{stored}: same bytes", (folder / "out.gguf").read_bytes() == stored.read_bytes(), "others")
        expected = json.loads((source / "expected.json").read_text())
        model = LlamaCpp(stored, 12)
        loss = sum(model.loss(row) for row in expected["tokens"]) / len(expected["tokens"])
        detail = f"{loss:.7f}, and {expected['loss']:.7f} by transformers"
        self.check(f"{stored}: loss", abs(loss - expected["loss"]) < FIXTURE_BOUND, detail)
        self.worst[name] = abs(loss - expected["loss"])


def main():
    parser = argparse.ArgumentParser(description="Checks exported GGUF files with llama.cpp.")
    parser.add_argument("--program", type=Path, default=Path(__file__).parent.parent / "build" / "train_gpt")
    parser.add_argument("--write", action="store_true", help="write test/gguf again")
    parser.add_argument("cases", nargs="*", help="some of: " + " ".join([*CASES, *CHATS]) + ", or llama-quantized")
    arguments = parser.parse_args()
    checks = Exchange(arguments.program.resolve())
    for name in FIXTURES:
        with tempfile.TemporaryDirectory() as folder:
            checks.fixture(Path(folder), name, arguments.write)
    with tempfile.TemporaryDirectory() as folder:
        checks.types(Path(folder), arguments.write)
    quantized = {f"{name}-quantized": options for name, options in QUANTIZED.items()}
    for name in arguments.cases or [*CASES, *quantized, *CHATS]:
        if OLDEST and name in NOT_OLDEST:
            print(f"skipped: {name}, which this build of llama.cpp computes wrong")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if name in CASES:
                checks.case(Path(folder), name, CASES[name])
            elif name in quantized:
                checks.quantized(Path(folder), name, quantized[name])
            else:
                checks.chat(Path(folder), name, CHATS[name])
    print("largest error of the loss: " + ", ".join(f"{kind} {error:.1e}" for kind, error in checks.worst.items()))
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
