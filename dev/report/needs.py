"""Programs here import this first. It names a missing package in one line, and lets them print the name of any file."""

import importlib.util
import sys

for package in ("plotly", "pandas", "matplotlib", "scipy"):
    if importlib.util.find_spec(package) is None:
        sys.exit(f"{package} is missing: `make report` and its like put what they need into .venv/")

sys.stdout.reconfigure(errors="surrogateescape")  # a file's name need not be UTF-8: print it as it is
