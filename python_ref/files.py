"""Writes reference files, with the same bytes each time."""

import json

import numpy as np


def write_array(path, value):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(value), version=(1, 0))


def write_json(path, about, table="tensors"):
    """Writes indented JSON, with each row of `table` on one line."""
    rows = "[\n  " + ",\n  ".join(json.dumps(row) for row in about[table]) + "\n ]"
    text = json.dumps(about | {table: "ROWS"}, indent=1).replace('"ROWS"', rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
