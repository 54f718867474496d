"""Programs here import this first. It names a missing package in one line."""

import importlib.util
import sys

for package in ("plotly", "pandas", "matplotlib", "scipy"):
    if importlib.util.find_spec(package) is None:
        sys.exit(f"{package} is missing: `make report` and its like put what they need into .venv/")
