"""Reads a checkpoint of train_gpt: a safetensors file, whose layout data/run_directory/README.md states."""

import json
import math
import struct
from dataclasses import dataclass

import numpy as np

VERSION = "3"


@dataclass
class Checkpoint:
    header: dict
    options: dict  # every effective option of the run, spelled as on the command line
    parameters: dict  # name -> float32 array, in the table's order


def read(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack_from("<Q", data)
    rows = json.loads(data[8 : 8 + size])
    metadata = rows.pop("__metadata__")
    if metadata.get("version") != VERSION:
        raise SystemExit(f"{path}: not a checkpoint of version {VERSION}")
    header = json.loads(metadata["train_gpt"])
    parameters = {
        name: np.frombuffer(data, "<f4", math.prod(row["shape"]), 8 + size + row["data_offsets"][0])
        .reshape(row["shape"])
        .copy()
        for name, row in rows.items()
        if not name.startswith("optimizer.")
    }
    return Checkpoint(header, header["settings"], parameters)


def encode(tokenizer, data):
    """bytes -> token ids, by the checkpoint's tokenizer"""
    if tokenizer["kind"] == "byte":
        return np.frombuffer(data, np.uint8).astype(np.int64)
    points = np.frombuffer(data.decode().encode("utf-32-le"), "<u4")
    ids = np.full(0x110000, -1, np.int64)
    ids[tokenizer["codepoints"]] = np.arange(len(tokenizer["codepoints"]))
    tokens = ids[points]
    if (tokens < 0).any():
        raise SystemExit(f"the vocabulary lacks {chr(points[tokens < 0][0])!r}")
    return tokens
