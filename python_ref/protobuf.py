"""Reads and writes messages of protobuf, as in SentencePiece's models."""


def varint(message, at):
    """The number at an index, and the index after it."""
    value = shift = 0
    while message[at] >= 128:
        value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
    return value | message[at] << shift, at + 1


def fields(message):
    """Yields the number and the value of each field. Values are numbers, or bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        value, at = varint(message, at) if kind in (0, 2) else (None, at)
        size = {0: 0, 1: 8, 2: value, 5: 4}[kind]
        yield key >> 3, message[at : at + size] if kind else value
        at += size


def field(number, data):
    """A field of bytes."""
    size, rest = b"", len(data)
    while rest >= 128:
        size, rest = size + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | 2]) + size + bytes([rest]) + data


def normalization_rules(model):
    """The precompiled_charsmap of a SentencePiece model."""
    return dict(fields(dict(fields(model))[3]))[2]
