#!/usr/bin/env python3
"""Times steps of several ranks on one machine, against one process with as many threads and PyTorch's
DistributedDataParallel with gloo.

    dev/bench/ranks.py build/train_gpt [--ranks 2] [--rounds 3] [--recipe TEXT] [--torch] [--link 10]...

Needs `make`, `make MPI=1` and mpirun; --torch also PyTorch; --link root, Linux, iproute2 and Open MPI. The contestants
take turns, in both orders. A row has the median of the tokens per second, its range, and the ratio to one process. The
tokens are random.

With --link, each rank has a network namespace of its own, whose link sends and receives no faster. Then let `compute`
be the seconds of a step of the ranks without a link, `exchange` the bytes that a rank sends by the link's speed, and
`step` the seconds of a step over the link:

    bound   tokens / max(compute, exchange): the tokens per second if everything could overlap
    hidden  1 - (step - compute) / exchange, from 0 to 1: the share of the exchange that costs no time
"""
import argparse
import csv
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

RECIPES = {
    "GPT-2 124M, B4 T64 A4": dict(layers=12, heads=12, channels=768, vocab=50257, context=64, bias=1, batch=4, parts=4,
                                  activation="gelu-tanh", norm="layernorm", steps=5),
    "nanoGPT's, B6 T64 A2": dict(layers=4, heads=4, channels=128, vocab=65, context=64, bias=0, batch=6, parts=2,
                                 activation="gelu", norm="layernorm", steps=150),
}
WARM_UP = 2  # steps that do not count


# ---- ours ------------------------------------------------------------------------------------------------


def write_text(path, vocabulary):
    """A text with as many different characters as the vocabulary has tokens."""
    characters = [chr(0x100 + token) for token in range(vocabulary)]
    path.write_text("".join(characters + random.Random(1).choices(characters, k=1 << 18)), encoding="utf-8")


def options(o):
    words = ["--position", "learned", "--tied", "--bias" if o["bias"] else "--no-bias", "--accumulate", o["parts"]]
    for name in ("layers", "heads", "channels", "context", "batch", "activation", "norm"):
        words += [f"--{name}", o[name]]
    return words


def ours(program, launcher, threads, o, folder):
    words = [*launcher, program, "train", "--data", "text.txt", "--tokenizer", "char", "--out", "r", "--force",
             "--quiet", "--eval-every", "0", "--save-every", "0", "--threads", threads,
             "--steps", o["steps"] + WARM_UP, *options(o)]
    subprocess.run([str(word) for word in words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/r/metrics.csv") as file:
        return [float(row["step_ms"]) / 1000 for row in csv.DictReader(file)][WARM_UP:]


def sent_bytes(program, ranks, o):
    """The bytes that a rank sends in a step, from the table of `info --cost`."""
    words = [program, "info", "--cost", "--ranks", ranks, "--vocab-size", o["vocab"], *options(o)]
    text = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
    row = next(line.split() for line in reversed(text.splitlines()) if line.split()[:1] == [str(ranks)])
    return int(row[4].replace(",", ""))


# ---- networks --------------------------------------------------------------------------------------------


class Network:
    """Hosts rank0, rank1, ... on a bridge. launcher() is the command that starts a rank on each."""

    def __init__(self, hosts, folder):
        self.hosts = [f"rank{i}" for i in range(hosts)]
        self.agent = pathlib.Path(folder, "agent")  # in place of ssh: HOST COMMAND...
        self.agent.write_text('#!/bin/sh\nhost=$1; shift\n'
                              'exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n')
        self.agent.chmod(0o755)
        self.remove()
        self.sh("ip link add ranks type bridge", "ip link set ranks up")
        for i, host in enumerate(self.hosts):
            self.sh(f"ip netns add {host}", f"ip link add to{i} type veth peer name eth0 netns {host}",
                    f"ip link set to{i} master ranks up", f"ip -n {host} link set lo up",
                    f"ip -n {host} link set eth0 up", f"ip -n {host} address add 10.77.0.{i + 1}/24 dev eth0")
            names = pathlib.Path(f"/etc/netns/{host}/hosts")
            names.parent.mkdir(parents=True, exist_ok=True)
            names.write_text("".join(f"10.77.0.{k + 1} {name}\n" for k, name in enumerate(self.hosts)))

    def sh(self, *lines):
        for line in lines:
            subprocess.run(line.split(), check=True)

    def hold(self, rate):
        """Lets `rate` Gb/s through, in bursts of 2 ms."""
        for i, host in enumerate(self.hosts):
            for where in f"-n {host} qdisc replace dev eth0", f"qdisc replace dev to{i}":
                self.sh(f"tc {where} root tbf rate {rate}gbit burst {int(256 * rate)}kb latency 100ms")

    def launcher(self):
        return [self.agent, self.hosts[0], "mpirun", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self",
                "--host", ",".join(self.hosts), "--bind-to", "none"]

    def remove(self):
        for i, host in enumerate(self.hosts):
            for line in f"ip link delete to{i}", f"ip netns delete {host}", "ip link delete ranks":
                subprocess.run(line.split(), stderr=subprocess.DEVNULL)
        for host in self.hosts:
            shutil.rmtree(f"/etc/netns/{host}", ignore_errors=True)


def linked(program, network, rate, o, folder):
    network.hold(rate)
    return ours(program + "-mpicxx", network.launcher(), 1, o, folder)


# ---- PyTorch ---------------------------------------------------------------------------------------------


def torch_rank(o, threads, mode):
    """Prints the seconds of each step, as one of the processes that torchs() starts."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from gpt import Gpt

    torch.set_num_threads(threads)
    ranks = int(os.environ["WORLD_SIZE"])
    model = Gpt(o)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    if ranks > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    forward = torch.compile(model) if mode == "compile" else model
    tokens, targets = torch.randint(o["vocab"], (2, o["batch"], o["context"]))
    parts = o["parts"] // ranks
    for step in range(o["steps"] + WARM_UP):
        began = time.perf_counter()
        optimizer.zero_grad()
        for part in range(parts):
            if ranks > 1:
                model.require_backward_grad_sync = part + 1 == parts
            (forward(tokens, targets) / parts).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= WARM_UP and int(os.environ["RANK"]) == 0:
            print(time.perf_counter() - began, flush=True)


def torchs(ranks, threads, mode, recipe):
    environment = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    words = [sys.executable, __file__, "", "--rank-of", recipe, "--threads", str(threads), "--mode", mode]
    processes = [subprocess.Popen(words, env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE)
                 for rank in range(ranks)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("ranks.py: PyTorch failed")
    return [float(line) for line in outputs[0].split()]


# ---- all -------------------------------------------------------------------------------------------------


def time_all(a, network, folder):
    program, n = os.path.realpath(a.program).removesuffix("-mpicxx"), a.ranks
    for path in program, program + "-mpicxx":
        if not os.path.exists(path):
            sys.exit(f"ranks.py: {path} is missing: make && make MPI=1")
    print(f"| {'recipe':24} | {'who':34} | tokens/s | range         | ratio | bound | hidden |\n"
          "|---|---|--:|--:|--:|--:|--:|")
    for name, o in RECIPES.items():
        if a.recipe not in name:
            continue
        write_text(pathlib.Path(folder, "text.txt"), o["vocab"])
        contestants = {
            f"1 process, {n} threads": lambda o=o: ours(program, [], n, o, folder),
            f"{n} ranks, 1 thread each": lambda o=o: ours(program + "-mpicxx", ["mpirun", "-n", n], 1, o, folder)}
        links = {f"{n} ranks, links of {rate:g} Gb/s": rate for rate in a.link}
        for who, rate in links.items():
            contestants[who] = lambda r=rate, o=o: linked(program, network, r, o, folder)
        for mode in ("eager", "compile") if a.torch else ():
            contestants[f"PyTorch {mode}, 1 process"] = lambda m=mode, r=name: torchs(1, n, m, r)
            contestants[f"PyTorch {mode}, DDP with {n} ranks"] = lambda m=mode, r=name: torchs(n, 1, m, r)
        seconds = {who: [] for who in contestants}
        for turn in range(a.rounds):
            for who in list(contestants)[::1 if turn % 2 == 0 else -1]:
                seconds[who].append(statistics.median(contestants[who]()))
        tokens = o["batch"] * o["context"] * o["parts"]
        medians = {who: statistics.median(times) for who, times in seconds.items()}
        first, compute = list(medians.values())[:2]
        for who, times in seconds.items():
            median, overlap = medians[who], " " * 5 + " | " + " " * 6
            if who in links:
                exchange = 8e-9 * sent_bytes(program, n, o) / links[who]
                hidden = min(1, max(0, 1 - (median - compute) / exchange))
                overlap = f"{tokens / max(compute, exchange):5.0f} | {hidden:6.2f}"
            spread = f"{tokens / max(times):.0f} to {tokens / min(times):.0f}"
            row = f"| {name:24} | {who:34} | {tokens / median:8.0f} | {spread:13} | {first / median:5.2f} | {overlap} |"
            print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description="times steps of several ranks on one machine")
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipe", default="", help="only recipes whose names have this text")
    parser.add_argument("--torch", action="store_true", help="also PyTorch")
    parser.add_argument("--link", type=float, action="append", default=[], help="also ranks with links of so many Gb/s")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.rank_of:
        return torch_rank(RECIPES[a.rank_of], a.threads, a.mode)
    with tempfile.TemporaryDirectory() as folder:
        network = Network(a.ranks, folder) if a.link else None
        try:
            time_all(a, network, folder)
        finally:
            if network:
                network.remove()


main()
