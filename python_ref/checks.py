"""What scripts that try the program share: they run it in a folder and count what holds."""

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
