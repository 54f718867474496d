"""Trains the twin from a checkpoint of train_gpt, on the same batches and with the same schedule.

    python python_ref/train.py --checkpoint x/checkpoint.safetensors --data input.txt --steps 200 --out losses.csv

Writes step,loss,grad_norm for steps 1, 2, ...: the loss of a step's batch before its update. The options are those of
the checkpoint; --option key=value changes one, e.g. --option warmup=100. --steps is the number of steps to run, the
option `steps` the end of the schedule.
"""

import argparse
import csv
import math
import tomllib

import numpy as np
import torch

import checkpoint as checkpoints
import rng
from config import Config
from layers import model, ngpt, optimizer
from layers.parameters import Parameters

torch.set_num_threads(1)  # more threads would not help, because the matrices are small

DEFAULTS = {"accumulate": 1, "schedule": "cosine", "dropout": 0.0, "norm-decay": 0.0}


def learning_rate(o, step):
    if step < o["warmup"]:
        return o["lr"] * (step + 1) / (o["warmup"] + 1)
    progress = (step - o["warmup"]) / max(1, o["steps"] - o["warmup"])
    falling = {"cosine": (1 + math.cos(math.pi * progress)) / 2, "linear": 1 - progress}
    if o["schedule"] == "constant":
        return o["lr"]
    return o["min-lr"] + falling[o["schedule"]] * (o["lr"] - o["min-lr"])


def batch(o, tokens, n_train, step):
    """Random windows, drawn with replacement as a function of (data-seed, step, row)."""
    T, rows = o["context"], o["batch"] * o["accumulate"]
    name = rng.word("batch")
    starts = [rng.below(n_train - T, rng.key(o["data-seed"], name, step, row), 0) for row in range(rows)]
    windows = torch.from_numpy(np.stack([tokens[s : s + T + 1] for s in starts]))
    return windows[:, :-1], windows[:, 1:]


def starting_point(saved, config, dtype):
    """The checkpoint's parameters. Checks that its table follows from its options."""
    found = {name: value.shape for name, value in saved.parameters.items()}
    expected = dict(model.table(config))
    for name in expected.keys() | found.keys():
        if expected.get(name) != found.get(name):
            raise SystemExit(f"{name}: expected {expected.get(name)}, the checkpoint has {found.get(name)}")
    tensors = {name: torch.from_numpy(value).to(dtype) for name, value in saved.parameters.items()}
    return Parameters({name: t.requires_grad_(Parameters.trains(name)) for name, t in tensors.items()})


def train(path, data, steps, dtype=torch.float64, overrides=()):
    """-> [(step, loss, gradient norm), ...]"""
    saved = checkpoints.read(path)
    o = DEFAULTS | saved.options | dict(overrides)
    assert o["dropout"] == 0, "the twin has no dropout"
    o["vocab-size"] = saved.parameters["embedding.token.weight"].shape[0]
    config = Config.from_options(o)
    assert not config.encoder, "this script reads no pairs"
    p = starting_point(saved, config, dtype)
    tokens = checkpoints.encode(saved.header["tokenizer"], open(data, "rb").read())
    n_train = math.floor(len(tokens) * (1 - o["val-fraction"]))
    decays = o["weight-decay"], o["norm-decay"], o.get("norm-decay-out", o["norm-decay"])
    adamw = optimizer.adamw_of(p, config, o["lr"], o["beta1"], o["beta2"], o["adam-eps"], *decays)
    log = []
    for step in range(steps):
        inputs, targets = batch(o, tokens, n_train, step)
        adamw.zero_grad()
        loss = model.loss(p, config, inputs, targets)
        loss.backward()
        norm = optimizer.clip(p.trained().values(), o["clip"])
        optimizer.set_lr(adamw, learning_rate(o, step))
        adamw.step()
        ngpt.normalize_weights(p, config)
        log.append((step + 1, loss.item(), norm))
    return log


def main():
    parser = argparse.ArgumentParser(description="Trains the PyTorch twin from a checkpoint of train_gpt.")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="as in TOML")
    args = parser.parse_args()
    overrides = tomllib.loads("\n".join(args.option))
    log = train(args.checkpoint, args.data, args.steps, getattr(torch, args.dtype), overrides)
    with open(args.out, "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", "loss", "grad_norm"])
        rows.writerows([step, f"{loss:.17g}", f"{norm:.17g}"] for step, loss, norm in log)


if __name__ == "__main__":
    main()
