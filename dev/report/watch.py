#!/usr/bin/env python3
"""Shows runs in a browser while they train:

    python dev/report/watch.py [RUN...]  runs, or directories with several; without one, the newest below runs/

Reads metrics.csv again whenever the page asks. The server can be reached from this machine alone; Ctrl-C ends it.
"""

import argparse
import errno
import fcntl
import json
import math
import os
import re
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import needs  # noqa: F401
import pandas as pd

import page
import read
import series
import style
import words

PORT = 8123
HOSTS = {"localhost", "127.0.0.1", "[::1]", socket.gethostname().lower()}
IDLE = 5  # seconds after which a silent connection is closed
SHOWN = ("train_loss", "val_loss", "grad_norm", "lr")


def waiting(directory):
    """Accepts a directory that does not exist yet, because a run may be about to create it."""
    if directory.exists() and not directory.is_dir():
        raise read.Complaint(f"{directory} is no directory")


def options_of(run):
    """The options in config.toml; {} if there is none (yet)."""
    try:
        return read.read_config(run / "config.toml").given
    except read.Complaint:
        return {}


def whole_number(value):
    return value if isinstance(value, int) else 0


def thinned(xs, ys, smooth=False):
    """[[x...], [y...]] of the steps at which y was measured."""
    pairs = [pair for pair in zip(xs, ys) if None not in pair and all(map(math.isfinite, pair))]
    if not pairs:
        return [[], []]
    frame = series.binned(pd.DataFrame(pairs, columns=["x", "y"]))
    y = series.smoothed(frame.y.to_numpy()) if smooth else frame.y
    return [[float(f"{v:.7g}") for v in values] for values in (frame.x, y)]


def last(values):
    values = [x for x in values if x is not None and math.isfinite(x)]
    return values[-1] if values else None


def bits_of_nats(metrics):
    """Bits per byte of one nat per token; None before the first validation."""
    pairs = zip(metrics.get("val_bpb", []), metrics.get("val_loss", []))
    return last([bits / nats if bits and nats else None for bits, nats in pairs])


# ---- Is it still training? -----------------------------------------------------------------------

SILENCE = 60, 20  # (seconds, steps) without a new row after which a run without a lock counts as stopped


def lock_is_held(run):
    """Whether a process of this machine holds the run; None if the lock does not show it."""
    path = run / ".lock"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            holder = file.read()
            if not holder.endswith(f" on {socket.gethostname()}"):
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
    except OSError:
        return None


def condition(run, state, now):
    """training, finished, diverged, or stopped: a process that ended before its last step."""
    outcome = read.read_outcome(run)
    if outcome or state["step"] >= state["steps"] > 0:
        return "diverged" if outcome.get("state") == "diverged" else "finished"
    held = lock_is_held(run)
    if held is not None:
        return "training" if held else "stopped"
    seconds, steps = SILENCE
    step_seconds = (state["elapsed"] or 0) / max(state["step"], 1)
    return "stopped" if now - state["written"] > max(seconds, steps * step_seconds) else "training"


class Watched:
    """The data of the page for the runs below a directory. Reads only files that have changed."""

    def __init__(self, directories):
        self.directories, self.known, self.seen = directories, {}, []
        self.root = read.root_of(directories)

    def runs(self):
        there = [directory for directory in self.directories if directory.is_dir()]
        runs = list(dict.fromkeys(run for directory in there for run in read.runs_below(directory)))
        self.seen += [run for run in runs if run not in self.seen]  # a run keeps its color when others are added
        states = {}
        for run in runs:
            try:
                states[run] = self.state(run)
            except FileNotFoundError:
                pass  # it was removed a moment ago
        values = words.options([read.Config(state["options"], {}) for state in states.values()], "given")
        in_bits = read.several_tokenizers([state["options"].get("tokenizer") for state in states.values()],
                                          [state["bits"] for state in states.values()])
        differing = [key for key, some in values.items() if len(some) > 1 and key != "out"]
        now = time.time()
        return [{**state, "name": read.run_name(run, self.root), "number": self.seen.index(run),
                 "condition": condition(run, state, now), "in_bits": in_bits,
                 "options": {key: words.shown(state["options"][key]) for key in differing if key in state["options"]}}
                for run, state in states.items()]

    def state(self, run):
        path = run / "metrics.csv"
        try:
            stat = path.stat()
            stamp = (stat.st_size, stat.st_mtime_ns)
        except OSError:
            stamp = None
        if self.known.get(run, (None, None))[0] != stamp or stamp is None:
            metrics = read.read_metrics_so_far(path)
            steps = metrics.get("step", [])
            of = {name: thinned(steps, metrics.get(name, [None] * len(steps)), name == "train_loss") for name in SHOWN}
            options = options_of(run)
            self.known[run] = stamp, {"step": last(steps) or 0, "steps": whole_number(options.get("steps")), **of,
                                      "bits": bits_of_nats(metrics), "options": options,
                                      "elapsed": last(metrics.get("elapsed_s", [])),
                                      "speed": last(metrics.get("tokens_per_second", [])),
                                      "written": stat.st_mtime if stamp else run.stat().st_mtime}
        return self.known[run][1]


CONDITIONS = ("all", "training", "finished", "diverged", "stopped")


def page_of(directories):
    states = "".join(f'<button data-condition="{c}" aria-pressed="{str(c == "all").lower()}">{c} <i></i></button>'
                     for c in CONDITIONS)
    path = " ".join(os.fsencode(directory).decode("utf-8", "replace") for directory in directories)
    body = (f'<p class="name">{page.escape(path)}</p><h1 id="headline">Waiting for the first step</h1>'
            '<div class="tools">'
            f'<span class="switch several" role="group" aria-label="state of the runs">{states}</span>'
            '<input id="filter" class="several" type="search" placeholder="filter by name or option">'
            '<label class="several">Group by <select id="group"><option value="">nothing</option></select></label>'
            '<button id="log" aria-pressed="false">log y</button></div>'
            '<div class="plot" id="loss"></div><p class="note" id="drawn"></p><div id="runs"></div>'
            '<div class="panels wide"><figure><figcaption>Gradient norm</figcaption>'
            '<div class="plot" id="grad_norm"></div></figure><figure><figcaption>Learning rate</figcaption>'
            '<div class="plot" id="lr"></div></figure></div>')
    palette = [vars(style.by_number(i)) for i in range(style.IN_TURN * len(style.DASHES))]
    names = " ".join(map(read.shown_name, directories))
    return page.document(f"watching {names}", body, {"palette": palette}, "watch.js")


def handler(directories):
    watched, whole_page = Watched(directories), page_of(directories).encode()

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE

        def do_GET(self):
            # A page of the web whose name leads to this machine (DNS rebinding) sends its own name. The port is free:
            # a tunnel may have another one.
            if re.sub(r":\d+$", "", self.headers.get("Host", "")).lower() not in HOSTS:
                self.send_error(403, f"this page is at http://127.0.0.1:{self.server.server_port}/")
            elif self.path == "/":
                self.answer(whole_page, "text/html; charset=utf-8")
            elif self.path == "/runs.json":
                self.answer(json.dumps(watched.runs()).encode(), "application/json")
            else:
                self.send_error(404)

        def answer(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False  # so that a port in use by another watch is refused

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # closing the page during a reply is no error
            super().handle_error(request, client_address)


def serve(directories, port):
    make = handler(directories)
    try:
        return Server(("127.0.0.1", port), make)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return Server(("127.0.0.1", 0), make)  # any free port


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="*", type=Path, help="runs, or directories with several")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; another where it is taken")
    args = parser.parse_args()
    try:
        directories = args.run or [read.newest("config.toml")]
        for directory in directories:
            waiting(directory)
        server = serve(directories, args.port)
    except (read.Complaint, OSError, OverflowError) as complaint:
        sys.exit(f"watch: {complaint}")
    try:
        names = " ".join(map(str, directories))
        print(f"watching {names} at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    server.server_close()


if __name__ == "__main__":
    main()
