"""The rules of the track that a program can check. README.md explains them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import texts

ROOT = Path(__file__).resolve().parents[2]

BASELINE = "pre"
BUDGET = 3e11  # FLOPs of a run: of the model, forward and backward, and of the optimizer
FEWEST_STEPS = 150
PARAMETERS = 0.1  # how far an entry's number of parameters may be from the baseline's
SEEDS = tuple(range(1, 11))
RATE_STEP = 3  # the search begins with the entry's learning rate and with that times this
WARMUPS = "10%,30%"
TUNE_RUNS = 9
REPEATED = 3  # runs that a check repeats
SIMD = "AVX2"
MARCH = "x86-64-v3"

# An entry may change these.
DEFAULTS = {"layers": 6, "channels": 48, "heads": 4, "min-lr": 0}
# An entry may not change these. The last four say how the result is measured.
FIXED = {"batch": 4, "eval-every": 1000000, "eval-batches": 1, "final-batches": 0, "save-every": 0}
# An entry may change the options below these headings of `train --help-all`, but for those that are LOCKED.
OPEN = ("Model", "Norms", "Attention and positions", "Mixture of experts", "Weight initialization", "Parametrization",
        "Training")
LOCKED = {"size", "context", "vocab-size", "objective", "mask-fraction", "attention", "token-types", "encoder-layers",
          "encoder-placement", "encoder-norm", "encoder-attention", "batch", "accumulate", "lanes", "steps", "seed",
          "data-seed", "schedule-end", "head-transform"}
TUNED = ("lr", "warmup")


@dataclass(frozen=True, eq=False)
class Text:
    name: str
    title: str
    path: Path
    sha256: str
    options: dict
    written: tuple = ()  # words of `corpus` that write it

    def is_here(self):
        return self.path.exists()

    def is_right(self):
        return hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


TEXTS = (
    Text("tales", "Tales", ROOT / "build" / "tales.txt",
         "723e2c5861e5a77da17f78dd0b29834e5811ae9fe555b9b93917bf48fd776c4b",
         {"context": 152, "val-fraction": 0.01}, ("--grammar", "tales", "--bytes", "4M", "--seed", "1")),
    Text("shakespeare", "Tiny Shakespeare", texts.SHAKESPEARE, texts.SHAKESPEARE_SHA256,
         {"context": 128, "val-fraction": 0.05, "documents": "file"}),
)
