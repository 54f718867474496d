"""The pictures, watch and the TensorBoard files."""

import contextlib
import fcntl
import http.client
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from matplotlib import image

import browser
import fixtures
from testing import HERE, Scratch, rewrite, rows_of, run

RUN = "placement=pre,norm=layernorm/seed=1"


class Pictures(Scratch):
    make = {"full": fixtures.full, "plain": fixtures.plain}

    def ink(self, path):
        """{color: how many pixels} of the cells' colors."""
        pixels = (image.imread(path)[..., :3] * 255).round().astype(int).reshape(-1, 3)
        colors, counts = np.unique(pixels, axis=0, return_counts=True)
        return {"#" + "".join(f"{c:02X}" for c in color): int(n) for color, n in zip(colors, counts)}

    def test_of_a_comparison(self):
        for name, pictures in (("full", ["loss.png", "lr.png", "profiles.png"]), ("plain", ["loss.png"])):
            directory = self.scratch / name
            (directory / "lr.png").write_text("of an earlier report")
            result = run("picture.py", directory)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(sorted(p.name for p in directory.glob("*.png")), pictures)
            colors = ("#0072B2", "#D55E00", "#009E73") + (("#B5568F",) if name == "full" else ())
            for picture in pictures:
                ink = self.ink(directory / picture)
                for color in colors:
                    self.assertGreater(ink.get(color, 0), 300, (picture, color))

    def test_what_only_plain_runs_take(self):
        result = run("picture.py", self.scratch / "plain", "--title", "Mine", "--x", "seconds")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertIn("--title, --x", result.stderr)

    def test_of_plain_runs(self):
        runs = [self.scratch / "full" / f"placement={p},norm=layernorm" / "seed=1" for p in ("pre", "sandwich")]
        copies = [Path(shutil.copytree(r, self.scratch / f"0{i}-run")) for i, r in enumerate(runs)]
        result = run("picture.py", *copies, "--out", self.scratch / "runs.png", "--floor", 0.0894, "--x", "seconds")
        self.assertEqual(result.returncode, 0, result.stderr)
        ink = self.ink(self.scratch / "runs.png")
        self.assertGreater(ink["#0072B2"], 300)
        self.assertGreater(ink["#D55E00"], 300)

    def test_bad_runs(self):
        for path, words in ((self.scratch / "none", "is no directory"), (self.scratch, "cannot read")):
            result = run("picture.py", path)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
            self.assertIn(words, result.stderr)


class TensorBoard(Scratch):
    make = {"full": fixtures.full}

    def test_every_value_is_read_back(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        directory = self.scratch / "full" / RUN
        diagnostics = [row for row in rows_of(self.scratch / "full/diagnostics.csv")
                       if row["cell"] == RUN.split("/")[0] and row["seed"] == "1"]
        with open(directory / "diagnostics.csv", "w", encoding="utf-8") as file:
            file.write("step,layer,part,what,value\n")
            file.writelines(f"{r['step']},{r['layer']},{r['part']},{r['what']},{r['value']}\n" for r in diagnostics)
        for _ in range(2):  # the second replaces the first
            result = run("events.py", directory)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(list((directory / "tensorboard").iterdir())), 1)

        want = {}
        for row in rows_of(directory / "metrics.csv"):
            for name, value in row.items():
                if value and name not in ("step", "elapsed_s"):
                    want[f"metrics/{name}", int(row["step"])] = float(value)
        for r in diagnostics:
            want[f"{r['what']}/{r['part']}/layer {int(r['layer']):02d}", int(r["step"])] = float(r["value"])

        reader = EventAccumulator(str(directory / "tensorboard"), size_guidance={"scalars": 0})
        reader.Reload()
        got = {(tag, e.step): e.value for tag in reader.Tags()["scalars"] for e in reader.Scalars(tag)}
        self.assertEqual(got.keys(), want.keys())
        for key, value in want.items():
            self.assertEqual(np.float32(got[key]), np.float32(value), key)
        times = [e.wall_time for e in reader.Scalars("metrics/train_loss")]
        last = float(rows_of(directory / "metrics.csv")[-1]["elapsed_s"])
        self.assertAlmostEqual(times[-1] - times[0], last, delta=0.01)

    def test_every_run_of_a_comparison(self):
        self.assertEqual(run("events.py", self.scratch / "full").returncode, 0)
        runs = {path.parent for path in self.scratch.rglob("metrics.csv")}
        self.assertEqual({path.parent.parent for path in self.scratch.rglob("events.out.tfevents.*")}, runs)

    def test_nothing_there(self):
        (self.scratch / "empty").mkdir()
        for name, words in (("empty", "has no metrics.csv"), ("none", "is no directory")):
            result = run("events.py", self.scratch / name)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
            self.assertIn(words, result.stderr)


def in_longer_tokens(directory, bytes_per_token):
    """Rewrites a run's validation losses as if each token held so many bytes."""
    rewrite(directory / "metrics.csv", lambda rows: [
        {**row, "val_bpb": row["val_loss"] and float(row["val_loss"]) / math.log(2) / bytes_per_token} for row in rows])


class SeveralRuns(Scratch):
    make = {"full": fixtures.full}

    def setUp(self):
        self.place = Path(tempfile.mkdtemp(dir=self.scratch))
        for name, placement in (("one/seed=1", "pre"), ("two/seed=1", "sandwich")):
            shutil.copytree(self.scratch / f"full/placement={placement},norm=layernorm/seed=1", self.place / name)
        self.final = {name: next(float(row["val_loss"]) for row in reversed(rows_of(self.place / name / "metrics.csv"))
                                 if row["val_loss"]) for name in ("one/seed=1", "two/seed=1")}

    def text(self, *args):
        result = run("report.py", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"{self.place / 'report.html'}\n")
        return (self.place / "report.html").read_text(encoding="utf-8")

    def test_a_page_of_several_runs(self):
        for args in ([self.place], [self.place / "one", self.place / "two"],
                     [self.place / "two/seed=1", self.place / "one/seed=1"]):
            text = self.text(*args)
            lowest = min(self.final, key=self.final.get)
            self.assertIn(f"Lowest validation loss of 2 runs: {lowest}, {self.final[lowest]:.4f} nats per token.", text)
            self.assertIn("loss (nats per token)", text)

    def test_different_tokenizers_are_compared_in_bits_per_byte(self):
        lowest, other = sorted(self.final, key=self.final.get)
        in_longer_tokens(self.place / other, 3)
        text = self.text(self.place)
        bits = self.final[other] / math.log(2) / 3
        self.assertIn(f"Lowest validation loss of 2 runs: {other}, {bits:.4f} bits per byte.", text)
        self.assertIn("loss (bits per byte)", text)
        self.assertNotIn("Thin: training loss", text)

    def test_a_comparison_and_a_run(self):
        result = run("report.py", self.scratch / "full", self.place / "one/seed=1")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)


class Watch(Scratch):
    make = {"full": fixtures.full}

    def start(self, *args):
        # Background jobs of a shell ignore Ctrl-C, and their children inherit that.
        process = subprocess.Popen([sys.executable, HERE / "watch.py", *map(str, args)], text=True,
                                   errors="surrogateescape", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        line = process.stdout.readline()
        self.assertIn("http://127.0.0.1:", line)
        return process, line.split(" at ")[1].split()[0]

    def runs(self, url):
        def no_number(word):
            raise ValueError(f"{word} is not JSON")

        with urllib.request.urlopen(url + "runs.json") as answer:
            return json.load(answer, parse_constant=no_number)

    def test_a_file_that_grows(self):
        directory = self.scratch / "growing"
        _, url = self.start(directory)
        self.assertEqual(self.runs(url), [])  # the directory does not exist yet
        directory.mkdir()
        (directory / "config.toml").write_text("steps = 4\n")
        self.assertEqual([(r["name"], r["step"]) for r in self.runs(url)], [("growing", 0)])
        lines = (self.scratch / "full" / RUN / "metrics.csv").read_text().splitlines(keepends=True)
        with open(directory / "metrics.csv", "w") as file:
            for text, step in ((lines[0][:9], 0), (lines[0][9:], 0), (lines[1], 1), (lines[2][:-3], 1),
                               (lines[2][-3:], 2)):
                file.write(text)
                file.flush()
                got, = self.runs(url)
                self.assertEqual((got["step"], len(got["train_loss"][0])), (step, step))
        self.assertAlmostEqual(got["train_loss"][1][1], float(lines[2].split(",")[3]), delta=1e-6)
        self.assertEqual(got["steps"], 4)
        self.assertEqual(got["condition"], "training")
        (directory / "outcome.json").write_text('{"state": "finished"}')
        self.assertEqual(self.runs(url)[0]["condition"], "finished")
        (directory / "metrics.csv").write_text("\x00\x00garbage\n1,2\n")
        self.assertEqual(self.runs(url)[0]["step"], 0)

    def test_a_run_that_died_is_not_training(self):
        directory = self.scratch / "dead"
        directory.mkdir()
        (directory / "config.toml").write_text("steps = 1000\n")
        shutil.copy(self.scratch / "full" / RUN / "metrics.csv", directory)
        _, url = self.start(directory)
        (directory / ".lock").write_text(f"process 1 on {socket.gethostname()}")
        with open(directory / ".lock") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertEqual(self.runs(url)[0]["condition"], "training")
        self.assertEqual(self.runs(url)[0]["condition"], "stopped")  # killed: nobody holds its lock
        (directory / ".lock").write_text("process 1 on another-machine")
        self.assertEqual(self.runs(url)[0]["condition"], "training")
        long_ago = time.time() - 3600
        os.utime(directory / "metrics.csv", (long_ago, long_ago))
        _, url = self.start(directory)
        got, = self.runs(url)
        self.assertEqual(got["condition"], "stopped")
        self.assertLess(got["written"], time.time() - 3500)
        (directory / "outcome.json").write_text('{"state": "diverged"}')
        self.assertEqual(self.runs(url)[0]["condition"], "diverged")

    @unittest.skipUnless(browser.find(), "no Chromium or Chrome here")
    def test_38_runs_are_filtered_grouped_and_hidden(self):
        directory = self.scratch / "many"
        for i in range(38):
            shutil.copytree(self.scratch / "full" / RUN, directory / f"{i:04d}")
            config = f'placement = "{("pre", "post")[i % 2]}"\nlr = {1 + i % 3}e-3\nsteps = {1000 if i == 7 else 400}\n'
            (directory / f"{i:04d}" / "config.toml").write_text(config)
        (directory / "0007/.lock").write_text(f"process 1 on {socket.gethostname()}")
        (directory / "0007/outcome.json").unlink()
        _, url = self.start(directory)
        shown = "document.body.dataset.shown.split(',').filter(Boolean).length"
        groups = "[...document.querySelectorAll('#runs .group span')].map((s) => s.textContent)"
        with browser.Browser() as chrome:
            chrome.open(url)
            chrome.wait("document.body.dataset.shown")
            self.assertEqual(chrome.evaluate(shown), 38)
            self.assertEqual(chrome.evaluate("document.getElementById('headline').textContent"),
                             "38 runs: 37 finished, 1 stopped")
            dead = chrome.evaluate("document.querySelector('.run.stopped').textContent")
            self.assertIn("step 400 of 1,000", dead)
            self.assertIn("stopped, silent for", dead)
            self.assertNotIn("left", dead)
            chrome.evaluate("filter.value = 'placement=post lr=0.002'; filter.dispatchEvent(new Event('input'))")
            self.assertEqual(chrome.evaluate(shown), sum(i % 2 == 1 and i % 3 == 1 for i in range(38)))
            chrome.evaluate("filter.value = ''; filter.dispatchEvent(new Event('input'))")
            chrome.evaluate("group.value = 'placement'; group.dispatchEvent(new Event('change'))")
            self.assertEqual([text.split(",")[0] for text in chrome.evaluate(groups)],
                             ["all 38 listed", "placement = pre: 19 runs", "placement = post: 19 runs"])
            chrome.evaluate("document.querySelectorAll('#runs .group input')[1].click()")
            self.assertEqual(chrome.evaluate(shown), 19)
            chrome.evaluate("document.querySelector('[data-condition=stopped]').click()")
            self.assertEqual(chrome.evaluate(shown), 1)
            self.assertEqual(chrome.errors(), [])

    def test_ctrl_c_ends_it(self):
        process, _ = self.start(self.scratch / "full")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        self.assertEqual((process.returncode, err), (0, ""))

    def test_a_port_that_is_taken(self):
        _, one = self.start(self.scratch / "full", "--port", 0)
        _, two = self.start(self.scratch / "full", "--port", one.split(":")[2].strip("/"))
        self.assertNotEqual(one, two)
        self.assertEqual(self.runs(one), self.runs(two))

    def test_only_its_own_addresses(self):
        _, url = self.start(self.scratch / "full")
        for path in ("config.toml", "../", "etc/passwd"):
            with self.assertRaises(urllib.error.HTTPError):
                urllib.request.urlopen(url + path)

    def test_several_runs_with_different_tokenizers(self):
        places = [self.scratch / "tokenizers" / name for name in ("bytes", "pairs")]
        for place in places:
            shutil.copytree(self.scratch / "full" / RUN, place)
            with open(place / "config.toml", "a") as file:
                file.write('tokenizer = "byte"\n')
        _, url = self.start(*places)
        self.assertEqual([(r["name"], r["in_bits"]) for r in self.runs(url)], [("bytes", False), ("pairs", False)])
        (places[0] / "config.toml").rename(places[0] / "later.toml")  # a run that has just begun
        (places[0] / "metrics.csv").touch()
        self.assertEqual([r["in_bits"] for r in self.runs(url)], [False, False])
        in_longer_tokens(places[1], 3)
        found = self.runs(url)
        self.assertEqual([r["in_bits"] for r in found], [True, True])
        self.assertAlmostEqual(found[1]["bits"], 1 / math.log(2) / 3)
        if browser.find():
            with browser.Browser() as chrome:
                chrome.open(url)
                chrome.wait("document.body.dataset.shown")
                self.assertIn("in bits per byte", chrome.evaluate("document.getElementById('drawn').textContent"))
                losses = "document.getElementById('loss').data.filter((t) => t.y.length).map((t) => t.y.at(-1))"
                bytes_, pairs = chrome.evaluate(losses)
                self.assertAlmostEqual(bytes_ / pairs, 3, delta=1e-4)

    def test_only_under_its_own_name(self):
        """Not under a name of the web that leads to this machine (DNS rebinding)."""
        _, url = self.start(self.scratch / "full")
        port = int(url.split(":")[2].strip("/"))

        def status(host):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.putrequest("GET", "/runs.json", skip_host=True)
            if host is not None:
                connection.putheader("Host", host)
            connection.endheaders()
            return connection.getresponse().status

        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "localhost:9000",
                     f"{socket.gethostname()}:{port}"):
            self.assertEqual(status(host), 200, host)
        for host in ("evil.example", f"evil.example:{port}", f"localhost.evil.example:{port}", "127.0.0.1.evil.example",
                     "", None, f"localhost:{port}@evil.example", f"evil.example:{port}:{port}", "0.0.0.0"):
            self.assertEqual(status(host), 403, host)

    def test_silent_connections_are_closed(self):
        _, url = self.start(self.scratch / "full")
        address = "127.0.0.1", int(url.split(":")[2].strip("/"))
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(60)]
            for connection in silent[::2]:
                connection.sendall(b"GET / HT")
            self.assertGreater(len(self.runs(url)), 0)
            for connection in silent:
                while connection.recv(1 << 16):  # nothing, or an error page
                    pass

    def test_one_strange_run_does_not_silence_the_others(self):
        directory = self.scratch / "strange"
        for name in fixtures.STRANGE:
            shutil.copytree(self.scratch / "full" / RUN, directory / os.fsdecode(name))
        for i, (file, bad) in enumerate((file, bad) for file, some in fixtures.DAMAGED.items() for bad in some):
            shutil.copytree(self.scratch / "full" / RUN, directory / f"damaged-{i}")
            (directory / f"damaged-{i}" / file).write_bytes(bad)
        _, url = self.start(directory)
        runs = self.runs(url)
        self.assertEqual(len(runs), len(list(directory.iterdir())))
        self.assertEqual({run["step"] for run in runs if "damaged" not in run["name"]}, {400})
        _, url = self.start(directory / os.fsdecode(b"not \xff utf8"))
        with urllib.request.urlopen(url) as answer:
            self.assertIn("watching not \ufffd utf8", answer.read().decode())
        self.assertEqual(self.runs(url)[0]["step"], 400)

    def test_a_file_is_no_run(self):
        result = run("watch.py", self.scratch / "full/runs.csv")
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)

    @unittest.skipUnless(browser.find(), "no Chromium or Chrome here")
    def test_the_page_follows(self):
        directory = self.scratch / "live"
        (directory / "one").mkdir(parents=True)
        _, url = self.start(directory)
        source = self.scratch / "full" / RUN
        lines = (source / "metrics.csv").read_text().splitlines(keepends=True)
        points = "document.querySelectorAll('#loss .scatterlayer .trace path.js-line').length"
        with browser.Browser() as chrome:
            chrome.open(url)
            self.assertIn("Waiting", chrome.evaluate("document.getElementById('headline').textContent"))
            (directory / "one/metrics.csv").write_text("".join(lines[:101]))
            chrome.wait("document.body.dataset.shown === '100'")
            self.assertEqual(chrome.evaluate(points), 2)
            (directory / "one/metrics.csv").write_text("".join(lines[:201]) + lines[201][:7])
            chrome.wait("document.body.dataset.shown === '200'")
            shutil.copytree(source, directory / "two")
            chrome.wait("document.body.dataset.shown === '200,400'")
            self.assertEqual(chrome.evaluate(points), 4)
            self.assertIn("step 400 of 400", chrome.evaluate("document.getElementById('runs').textContent"))
            self.assertEqual(chrome.errors(), [])
            self.assertTrue(all(u.startswith(url) for u in chrome.requests()))
            chrome.open(url, 390)
            chrome.wait("document.body.dataset.shown === '200,400'")
            self.assertLessEqual(chrome.evaluate("document.documentElement.scrollWidth"), 390)
