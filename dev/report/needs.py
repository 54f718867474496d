"""Imported first by the programs here: says in one line which package is missing."""

import importlib.util
import sys

for package in ("plotly", "pandas", "matplotlib", "scipy"):
    if importlib.util.find_spec(package) is None:
        sys.exit(f"{package} is missing: `make report` and its like put what they need into .venv/")
