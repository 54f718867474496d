"""Writes test/reference/pieces/: small SentencePiece models with the settings of Llama 2, and their tokens of a text
that is hard to split. other.json has the tokens of models with other settings, and what these tokens decode to: unigram
models, user-defined and unused pieces, rules of normalization. Needs sentencepiece.

    .venv/bin/python python_ref/pieces.py
"""

import contextlib
import json
import random
import struct
from pathlib import Path

import sentencepiece

from protobuf import field, fields
from tokenizer import HARD, WORDS, text

FOLDER = Path(__file__).resolve().parent.parent / "test" / "reference" / "pieces"
LLAMA2 = dict(model_type="bpe", byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True,
              normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True)
MODELS = {"llama2": {}, "across_spaces": dict(split_by_whitespace=False, add_dummy_prefix=False)}
# Rules of normalization: hexadecimal code points, and what replaces them.
RULES = {"\ufb01": "fi", "\t": " ", "\n": " ", "\r": " ", "\r\n": " ", "\u3000": " ", "\u00a0": " ",
         "e\u0301": "\u00e9", "\u0301": "", "\ufeff": "", "\u2460": "1", "A\u030a": "\u00c5", "\u00c0": "\u00e0",
         "\u00c9": "\u00e9", "\u00bd": "1/2", "\u00a8": " \u0308"}  # fmt: skip
NORMALIZED = dict(byte_fallback=False, remove_extra_whitespaces=True, normalization_rule_tsv="rules.tsv")
USER = ["<sep>", "banana", "\ufb01", "\n", "\u2581\u2581"]
OTHERS = {"unigram": dict(NORMALIZED, model_type="unigram"),
          "unigram_bytes": dict(model_type="unigram"),
          "unigram_user": dict(NORMALIZED, model_type="unigram", user_defined_symbols=USER, add_dummy_prefix=False),
          "merges": NORMALIZED,
          "merges_user": dict(user_defined_symbols=USER, add_dummy_prefix=False)}
UNUSED = {"merges_unused": "merges", "unigram_unused": "unigram"}  # models with fewer pieces
TO_NORMALIZE = [*RULES, "a\u0301", "\ufb01\u0301", *USER, "\u2581", "<unk>", "</s>", "   ", "aaaaaaa", "-------"]
SPACE_INSIDE = ["\u2581of\u2581the", "a\u2581b"]  # a text with the character that pieces have for a space


def train(folder, name, vocabulary, **settings):
    words = [w for w in WORDS if w.isprintable()] + SPACE_INSIDE
    lines = folder / "lines.txt"
    lines.write_text("\n".join(text(words, 1500, 1).split("\n")), encoding="utf-8")
    with contextlib.chdir(folder):  # a model keeps the path of its text
        sentencepiece.SentencePieceTrainer.train(
            input=lines.name, model_prefix=name, vocab_size=vocabulary, minloglevel=2,
            **{**LLAMA2, "character_coverage": .999, **settings})
    lines.unlink()
    (folder / f"{name}.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))


def with_unused(model, share):
    """The same model with a share of its pieces unused."""
    rng, result = random.Random(1), b""
    for number, value in fields(model):
        if number == 1:
            row = dict(fields(value))
            score = row.get(2, struct.pack("<f", 0))
            unused = row.get(3, 1) == 1 and row[1] != "\u2581".encode() and rng.random() < share
            value = field(1, row[1]) + b"\x15" + score + bytes([3 << 3, 5 if unused else row.get(3, 1)])
        if number <= 3:
            result += field(number, value)
    return result


def write_others():
    rules = FOLDER / "rules.tsv"
    points = lambda word: " ".join(f"{ord(c):X}" for c in word)  # noqa: E731
    rules.write_text("".join(f"{points(old)}\t{points(new)}\n" for old, new in RULES.items()))
    hard, known = text(WORDS + HARD + TO_NORMALIZE * 3, 500, 7), {}
    for name, settings in OTHERS.items():
        train(FOLDER, name, 300 + 256 * settings.get("byte_fallback", True), hard_vocab_limit=False, **settings)
    rules.unlink()
    for name, of in UNUSED.items():
        (FOLDER / f"{name}.model").write_bytes(with_unused((FOLDER / f"{of}.model").read_bytes(), 0.3))
    for name in [*OTHERS, *UNUSED]:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / f"{name}.model"))
        tokens = processor.encode(hard)
        known[name] = {"tokens": json.dumps(tokens), "decoded": processor.decode(tokens)}
    (FOLDER / "other.json").write_text(json.dumps({"text": hard, "models": known}, indent=0, ensure_ascii=False),
                                       encoding="utf-8", newline="")  # fmt: skip


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_others()
    hard = text(WORDS + HARD + SPACE_INSIDE, 600, 2)
    tokens = {}
    for name, settings in MODELS.items():
        tokens[name] = train(FOLDER, name, 440, **settings).encode(hard)
    (FOLDER / "hard.txt").write_text(hard, encoding="utf-8", newline="")
    (FOLDER / "hard.tokens.json").write_text(json.dumps(tokens))


if __name__ == "__main__":
    main()
