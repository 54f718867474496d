"""What scripts that try the program share: they run it in a folder and count what holds."""

import multiprocessing
import os
import subprocess


class Checks:
    def __init__(self, program, folder=None):
        self.program, self.folder, self.passed, self.failed = program, folder, 0, 0

    def run(self, words):
        return subprocess.run([self.program, *words.split()], cwd=self.folder, capture_output=True)

    def must(self, words):
        done = self.run(words)
        assert done.returncode == 0, (words, done.stderr.decode())
        return done

    def check(self, name, ok, detail=""):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        if not ok:
            print(f"FAILED {name}: {detail}", flush=True)


def side_by_side(one, cases):
    """Calls one(case) -> (passed, failed) for all cases, in a process for each processor. Returns both sums."""
    os.environ["OMP_NUM_THREADS"] = "1"  # of the program, which has the same bits with any number
    with multiprocessing.get_context("fork").Pool() as pool:
        counts = pool.map(one, cases, chunksize=1)
    return tuple(sum(column) for column in zip(*counts)) or (0, 0)
