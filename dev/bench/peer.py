"""PyTorch's and NumPy's side of `make bench`.

dev/bench starts this program and sends one case per line. The answer is also one line: the seconds of each repetition,
or "error ...". While the C++ side works, this program waits for input.

    about                                       names of the libraries
    gemm by=torch form=nt m=256 n=768 k=768 matmul=fp32 least=0.03
    forget                                      frees all tensors
"""

import argparse
import ctypes
import os
import re
import sys
import time
import warnings

PARSER = argparse.ArgumentParser(description="answers dev/bench, line by line on standard input")
PARSER.add_argument("--threads", type=int, default=1)
THREADS = PARSER.parse_args().threads

# Libraries read these variables when they load. OpenBLAS's threads spin for a tenth of a second after their work, which
# would slow down the next contestant. 2^20 cycles still keep them awake from one product to the next.
os.environ["OPENBLAS_THREAD_TIMEOUT"] = "20"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = str(THREADS)
warnings.filterwarnings("ignore")

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    from gpt import ACTIVATIONS, Gpt
except ImportError as error:
    sys.exit(f"peer.py: {error} ({sys.executable})")

torch.set_num_threads(THREADS)
torch.manual_seed(1)

# ---- timing --------------------------------------------------------------------------------------------------


def seconds_of(run, least, first):
    """Like dev/bench/measure.cpp: a warm-up, then repetitions of at least a millisecond each. From the second round
    on, a long case needs no warm-up."""
    start = time.perf_counter()
    run()
    once = time.perf_counter() - start
    if not first and once > 10 * least:
        return [once]
    seconds, calls = [], max(1, int(1e-3 / once))
    while not seconds or sum(seconds) * calls < least:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        seconds.append((time.perf_counter() - start) / calls)
    return seconds


# ---- products ------------------------------------------------------------------------------------------------
# a and b have the layout of layers/kernels/gemm.hpp, and the result goes into an existing matrix, as in our code.


def gemm(o):
    m, n, k, form = int(o["m"]), int(o["n"]), int(o["k"]), o["form"]
    shape_a, shape_b = {"nt": ((m, k), (n, k)), "nn": ((m, k), (k, n)), "tn": ((k, m), (k, n))}[form]
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape, dtype=np.float32) for shape in (shape_a, shape_b))
    c = np.zeros((m, n), np.float32)
    if o["by"] == "torch":
        a, b, c = map(torch.from_numpy, (a, b, c))
    A, B = (a.T if form == "tn" else a), (b.T if form == "nt" else b)
    if o["by"] == "numpy":
        if form != "tn":
            return lambda: np.matmul(A, B, out=c)
        product = np.zeros_like(c)  # NumPy cannot accumulate a product

        def multiply_and_add():
            np.matmul(A, B, out=product)
            np.add(c, product, out=c)

        return multiply_and_add
    if o["matmul"] == "bf16":
        product = lambda: torch.mm(A.to(torch.bfloat16), B.to(torch.bfloat16))  # noqa: E731
        return (lambda: c.add_(product())) if form == "tn" else (lambda: c.copy_(product()))
    return (lambda: c.addmm_(A, B)) if form == "tn" else (lambda: torch.mm(A, B, out=c))


# ---- layers --------------------------------------------------------------------------------------------------


def forward_or_backward(o, f, inputs, parameters=()):
    """Backward computes all gradients. Its forward pass runs once, before the timing."""
    if o["direction"] == "forward":

        def run():
            with torch.no_grad():
                f(*inputs, *parameters)

        return run
    leaves = [t.requires_grad_() for t in (*inputs, *parameters)]
    y = f(*leaves)
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


def norm(o):
    N, C = int(o["rows"]), int(o["width"])
    x, gain, bias = torch.randn(N, C), torch.ones(C), torch.zeros(C)
    if o["kind"] == "layernorm":
        return forward_or_backward(o, lambda x, g, b: F.layer_norm(x, (C,), g, b), [x], [gain, bias])
    return forward_or_backward(o, lambda x, g: F.rms_norm(x, (C,), g, 1e-5), [x], [gain])


def activation(o):
    return forward_or_backward(o, ACTIVATIONS[o["kind"]](), [torch.randn(int(o["rows"]), int(o["width"]))])


def attention(o):
    shape = (int(o["batch"]), int(o["heads"]), int(o["time"]), int(o["size"]))
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    dtype = torch.bfloat16 if o["matmul"] == "bf16" else torch.float32
    return forward_or_backward(o, f, [torch.randn(shape, dtype=dtype) for _ in range(3)])


def cross_entropy(o):
    N, V = int(o["rows"]), int(o["width"])
    logits, targets = torch.randn(N, V), torch.randint(V, (N,))
    if o["direction"] == "forward":
        return lambda: F.cross_entropy(logits, targets)

    def both():
        torch.autograd.grad(F.cross_entropy(logits, targets), logits)

    logits.requires_grad_()
    return both


def adamw(o):
    w = nn.Parameter(torch.randn(int(o["size"])))
    w.grad = torch.randn_like(w)
    return torch.optim.AdamW([w], lr=1e-4, fused=True).step


# ---- whole steps ---------------------------------------------------------------------------------------------


MODELS = {}  # fp32, bf16, eager and compiled share one model: GPT-2 takes 2 GB with gradients and moments


def step(o):
    key = tuple(o[name] for name in ("layers", "encoder", "heads", "channels", "vocab", "context", "norm"))
    if key not in MODELS:
        model = Gpt(o)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        MODELS[key] = model, optimizer, torch.compile(model)
    model, optimizer, compiled = MODELS[key]
    forward = compiled if o["mode"] == "compile" else model
    tokens, targets = torch.randint(int(o["vocab"]), (2, int(o["batch"]), int(o["time"])))

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=o["matmul"] == "bf16"):
            loss = forward(tokens, targets, tokens if int(o["encoder"]) else None)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return run


# ---- tokenizers ----------------------------------------------------------------------------------------------
# Each splits words as GPT-2 does, and gets the text in parts, so that it can use all threads.


def parts_of(o, repeats=1):
    with open(o["text"], encoding="utf-8", newline="") as file:
        text = file.read() * repeats
    parts = []
    while text:
        end = text.find("\n", 65536) + 1 or len(text)
        parts.append(text[:end])
        text = text[end:]
    return parts


GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def encode(o):
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe_file=o["merges"], encoder_json_file=o["encoder"])
    gpt2 = tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    parts = parts_of(o, int(o["repeats"]))
    return lambda: gpt2.encode_ordinary_batch(parts, num_threads=THREADS)


def train_tokenizer(o):
    parts, vocabulary = parts_of(o), int(o["vocabulary"])
    if o["by"] == "rustbpe":
        import rustbpe

        return lambda: rustbpe.Tokenizer().train_from_iterator(iter(parts), vocabulary, pattern=GPT2)
    import tokenizers as hf

    def train():
        tokenizer = hf.Tokenizer(hf.models.BPE())
        tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = hf.pre_tokenizers.ByteLevel.alphabet()
        trainer = hf.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(parts, trainer)

    return train


# ---- one line, one answer ------------------------------------------------------------------------------------


def instructions():
    """What this processor has, or what the environment holds the libraries to: of PyTorch's loops and its compiler."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa = pick_vec_isa()
    width = f"{isa.bit_width()} bits" if isa else "no vectors"
    return f"{torch.backends.cpu.get_cpu_capability()}, compiled {width}"


def openblas_kernels():
    """The processor for which OpenBLAS chose its kernels: the environment may hold it to another than this one."""
    try:
        with open("/proc/self/maps") as maps:
            library = ctypes.CDLL(next(line.split()[-1] for line in maps if "openblas" in line))
        name = library.scipy_openblas_get_corename64_
        name.restype = ctypes.c_char_p
        return ", kernels of " + name().decode()
    except (OSError, StopIteration, AttributeError):
        return ""


def about():
    config = torch.__config__.show()
    found = re.search(r"Math Kernel Library Version ([\d.]+)", config), re.search(r"MKL-DNN v(\S+)", config)
    libraries = [name + match[1] for name, match in zip(("MKL ", "oneDNN "), found) if match]
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return (
        f"PyTorch {torch.__version__} ({', '.join(libraries) or 'BLAS unknown'}; {instructions()}) · "
        f"NumPy {np.__version__} ({blas.get('name', 'BLAS unknown')} {blas.get('version', '')}{openblas_kernels()})"
    )


CASES = {
    f.__name__: f
    for f in (gemm, norm, activation, attention, cross_entropy, adamw, step, encode, train_tokenizer)
}
KNOWN = {}  # the cases that are set up, by their line


def answer(line):
    if line == "about":
        return about()
    if line == "forget":
        KNOWN.clear()
        MODELS.clear()
        return "ok"
    what, *options = line.split()
    o = dict(option.split("=", 1) for option in options)
    first = line not in KNOWN
    if first:
        KNOWN[line] = CASES[what](o)
    return " ".join(f"{s:.4g}" for s in seconds_of(KNOWN[line], float(o["least"]), first))


def main():
    answers = os.fdopen(os.dup(1), "w")  # libraries must not print between the answers
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            text = answer(line.strip())
        except Exception as error:
            text = f"error {type(error).__name__}: " + " ".join(str(error).split())[:200]
        print(text, file=answers, flush=True)


if __name__ == "__main__":
    main()
