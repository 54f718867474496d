"""Reads a checkpoint of train_gpt.

The file holds "TRAINGPT", a uint32 version, the uint32 size of the header, a JSON header padded with spaces, the
parameters in float32 (at the offsets in the header), both moments if "optimizer" is true, and an 8-byte checksum.
"""

import json
import math
import struct
import tomllib
from dataclasses import dataclass

import numpy as np

MAGIC, VERSION = b"TRAINGPT", 1


@dataclass
class Checkpoint:
    header: dict
    options: dict  # every effective option of the run, spelled as on the command line
    parameters: dict  # name -> float32 array, in the table's order


def read(path):
    data = open(path, "rb").read()
    version, size = struct.unpack_from("<II", data, 8)
    if data[:8] != MAGIC or version != VERSION:
        raise SystemExit(f"{path}: not a checkpoint of version {VERSION}")
    header = json.loads(data[16 : 16 + size])
    buffer = np.frombuffer(data, "<f4", header["floats"], 16 + size)
    parameters = {
        row["name"]: buffer[row["offset"] :][: math.prod(row["shape"])].reshape(row["shape"]).copy()
        for row in header["table"]
    }
    return Checkpoint(header, tomllib.loads(header["options"]), parameters)


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
