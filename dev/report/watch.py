#!/usr/bin/env python3
"""Watch runs while they train, in a browser:

    python dev/report/watch.py [RUN]     a run, or a directory with several; without it, the newest below runs/

Reads metrics.csv again whenever the page asks. The server can be reached from this machine alone; Ctrl-C ends it.
"""

import argparse
import errno
import json
import math
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import needs  # noqa: F401
import pandas as pd

import page
import read
import series
import style

PORT = 8123
SHOWN = ("train_loss", "val_loss", "grad_norm", "lr")


def waiting(directory):
    """A directory that a run is about to make is worth waiting for; a file is not."""
    if directory.exists() and not directory.is_dir():
        raise read.Complaint(f"{directory} is no directory")


def planned(run):
    """How many steps the run is to have; 0 where that is not known (yet)."""
    try:
        return int(read.read_config(run / "config.toml").given.get("steps", 0))
    except (read.Complaint, TypeError, ValueError):
        return 0


def thinned(xs, ys, smooth=False):
    """[[x...], [y...]] where y was measured."""
    pairs = [(x, y) for x, y in zip(xs, ys) if x is not None and y is not None and abs(y) < float("inf")]
    if not pairs:
        return [[], []]
    frame = pd.DataFrame(pairs, columns=["x", "y"])
    if smooth:
        frame["y"] = series.smoothed(frame.y.to_numpy())
    frame = series.thinned(frame)
    return [frame.x.tolist(), frame.y.tolist()]


def last(values):
    values = [x for x in values if x is not None and math.isfinite(x)]
    return values[-1] if values else None


class Watched:
    """What a page shows of the runs below a directory; a file that has not changed is not read again."""

    def __init__(self, directory):
        self.directory, self.known, self.seen = directory, {}, []

    def runs(self):
        runs = read.runs_below(self.directory) if self.directory.is_dir() else []
        result = []
        for run in runs:
            if run not in self.seen:  # a run keeps its colour when others join
                self.seen.append(run)
            look = style.by_number(self.seen.index(run))
            state = self.state(run)
            # A run that diverged ends before its last step; it leaves an outcome.json, as all do that end.
            ended = state["step"] >= state["steps"] > 0 or (run / "outcome.json").exists()
            result.append({"name": read.run_name(run, self.directory), "ended": ended, **vars(look), **state})
        return result

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
            self.known[run] = stamp, {"step": last(steps) or 0, "steps": planned(run), **of,
                                      "elapsed": last(metrics.get("elapsed_s", [])),
                                      "speed": last(metrics.get("tokens_per_second", []))}
        return self.known[run][1]


def page_of(directory):
    body = (f'<p class="name">{page.escape(str(directory))}</p><h1 id="headline">Waiting for the first step</h1>'
            '<div id="runs"></div><h2>Loss</h2><p class="note">Bold: validation. Thin: training, smoothed.</p>'
            '<div class="plot" id="loss"></div><div class="panels"><figure><figcaption>gradient norm</figcaption>'
            '<div class="plot" id="grad_norm"></div></figure><figure><figcaption>learning rate</figcaption>'
            '<div class="plot" id="lr"></div></figure></div>')
    return page.document(f"watching {directory.name}", body, {}, "watch.js")


def handler(directory):
    watched, whole_page = Watched(directory), page_of(directory).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/":
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
    allow_reuse_address = False  # a port that another watch has is taken

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that was closed in the middle is no error
            super().handle_error(request, client_address)


def serve(directory, port):
    make = handler(directory)
    try:
        return Server(("127.0.0.1", port), make)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return Server(("127.0.0.1", 0), make)  # any that is free


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run, or a directory with several")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; another where it is taken")
    args = parser.parse_args()
    try:
        directory = Path(args.run) if args.run else read.newest("config.toml")
        waiting(directory)
        server = serve(directory, args.port)
    except (read.Complaint, OSError, OverflowError) as complaint:
        sys.exit(f"watch: {complaint}")
    try:
        print(f"watching {directory} at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    server.server_close()


if __name__ == "__main__":
    main()
