"""Runs the PyTorch lines of each page in layers/, and compares them with the worked example of that page:

    make check-pages

A variable of the lines is compared with the row of the same name, to the digits shown there. Subscripts of a row's name
are omitted: `y2` is the row y₂. A page without a worked example asserts what it claims.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import torch

from markdown_page import parse_page

LAYERS = Path(__file__).resolve().parents[1] / "layers"
NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?"
SMALL = str.maketrans("₀₁₂₃", "0123")


def worked_rows(blocks):
    """The rows of a page's worked examples by name: a list of numbers, as text."""
    rows = {}
    for mark, block in zip(blocks, blocks[1:]):
        if mark.text != "<!-- worked -->":
            continue
        name = None
        for line in block.text.splitlines():
            begin, found, rest = line.partition("=")
            if found and begin.strip() and "#" not in begin:
                name = begin.strip().translate(SMALL)
                rows.setdefault(name, [])
            else:
                rest = line
            rows[name] += re.findall(NUMBER, rest.split("#")[0])
    return rows


def differs(value, numbers):
    """Whether a tensor is not the row of a page, whose last digit may be rounded either way."""
    flat = value.detach().flatten().tolist()
    if len(flat) != len(numbers):
        return True
    return any(abs(got - float(text)) > 1.01 * 10.0 ** -len(text.partition(".")[2]) for got, text in zip(flat, numbers))


def check(path):
    """(names compared, names that differ) of a page; None if it has no lines of PyTorch."""
    blocks = parse_page(path.read_text(encoding="utf-8"))
    code = [block.text for block in blocks if block.info == "python"]
    if not code:
        return None
    variables, rows = {}, worked_rows(blocks)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile("\n".join(code), str(path), "exec"), variables)
    compared = [name for name, value in variables.items() if name in rows and torch.is_tensor(value)]
    if not rows and "assert" in "".join(code):
        return ["assert"], []
    if len(compared) < 3:
        return compared, ["too few rows"]
    return compared, [name for name in compared if differs(variables[name], rows[name])]


def main():
    failed = 0
    for path in sorted(LAYERS.glob("*/*.md")):
        result = check(path)
        if result is None:
            continue
        compared, wrong = result
        failed += bool(wrong)
        print(f"{path.relative_to(LAYERS.parent)}: {', '.join(compared)}" + (f"  DIFFERS: {wrong}" if wrong else ""))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
