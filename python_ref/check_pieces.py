"""Compares the tokens of data/tokenizer/models/pieces.cpp with sentencepiece's and llama2.c's, on several MB of text.

    python python_ref/check_pieces.py [TOKENIZER.model] [--llama2c CHECKOUT] [--text FILES] [--tests PROGRAM]

Writes texts and their tokens into a folder that a hidden test reads ("[.pieces_of_folder]"). The texts are code, words
of many scripts, emoji, combining marks, bytes that are not UTF-8, runs of spaces, CRLF, and a line of 1 MB without a
space. sentencepiece replaces bytes that are not UTF-8 by U+FFFD, so it gets a character that is in no piece for them.
llama2.c merges in quadratic time and gets the short texts only. It does not take U+2581 for a space, ends a text at a
NUL, and takes a continuation byte without a beginning for a part of the character before it.
Without a model, trains one of each of KINDS, and compares thousands of short texts that are hard to normalize or have
many segmentations of the same score.
Prints "N texts ... equal". Needs sentencepiece; for llama2.c also a C compiler.
"""

import argparse
import ctypes
import os
import random
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

import sentencepiece

from tokenizer import HARD, TO_NORMALIZE, WORDS, text

ROOT = Path(__file__).resolve().parent.parent
BAD = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\xaf", b"\xf4\x90\x80\x80"]
STAND_IN = "\uf8ff"
NOT_LLAMA2C = ["\u2581".encode(), b"\0", b"\x80\n"]
LITERAL = ["<s>", "</s>", "<unk>", "<0x41>", "\n<s>\n", "\u2581", "\u2581the", "\ufffd", "\x00", "\x7f", "\u200b"]


TIES = ["a", "aa", "aaa", "ab", "b", "bb", "-", "--", "---", "=", "  ", "the", "e"]
USER = ["<sep>", "\ufb01", "aab", "\u2581\u2581", "\n", "the"]
IDENTITY = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
KINDS = {  # the default is a unigram model with the rules nmt_nfkc
    "unigram": {},
    "unigram, nmt_nfkc_cf": dict(normalization_rule_name="nmt_nfkc_cf"),
    "unigram, bytes": dict(byte_fallback=True, character_coverage=0.99),
    "unigram, identity": IDENTITY,
    "unigram without a prefix": dict(normalization_rule_name="nfkc", add_dummy_prefix=False),
    "unigram, user-defined": dict(user_defined_symbols=USER),
    "unigram across spaces": dict(split_by_whitespace=False),
    "bpe": dict(model_type="bpe", vocab_size=260),
    "bpe, bytes": dict(model_type="bpe", byte_fallback=True, character_coverage=0.99, vocab_size=500),
    "bpe, user-defined": dict(model_type="bpe", vocab_size=260, user_defined_symbols=USER),
    "bpe of Gemma": dict(IDENTITY, model_type="bpe", vocab_size=520, byte_fallback=True, add_dummy_prefix=False,
                         user_defined_symbols=[*USER, "\n\n", "\u2581\u2581\u2581"]),
}  # fmt: skip


def characters(rng, count):
    """Any characters at all, most of them rare."""
    drawn = (rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)])
             for _ in range(count))
    return "".join(chr(c) for c in drawn if not 0xD800 <= c < 0xE000)


def texts(files):
    rng = random.Random(3)
    code = "\n".join(p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("layers/**/*.[ch]pp")))
    yield "code", code.encode()
    yield "code, CRLF", code[:300000].replace("\n", "\r\n").encode()
    yield "many scripts", text(WORDS + HARD, 150000, 5).encode()
    yield "literal special tokens", text(WORDS + LITERAL, 20000, 6).encode()
    yield "any characters", characters(rng, 300000).encode()
    yield "runs of spaces", "".join(" " * rng.randrange(40) + rng.choice(WORDS) for _ in range(20000)).encode()
    yield "1 MB without a space", "".join(rng.choice(WORDS) for _ in range(250000)).encode()[:1 << 20]
    yield "1 MB of a", b"a" * (1 << 20)
    yield "1 MB of spaces", b" " * (1 << 20)
    words = [w.encode() for w in WORDS] + BAD
    yield "bytes that are not UTF-8", b" ".join(rng.choice(words) for _ in range(100000))
    yield "random bytes", rng.randbytes(300000)
    for file in files:
        yield file.name, file.read_bytes()
    for i in range(2000):
        yield f"short {i}", text(WORDS + HARD + LITERAL, 12, 100 + i).encode() + rng.choice(BAD + [b""] * 8) + b"\n"


def is_utf8(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def tokens_of(processor, data):
    """sentencepiece's tokens, with bytes that are not UTF-8 as a character that is in no piece."""
    if is_utf8(data):
        return processor.encode(data.decode())
    first_byte = processor.piece_to_id("<0x00>")
    stand_in = [first_byte + byte for byte in STAND_IN.encode()]
    assert processor.encode(STAND_IN)[-3:] == stand_in and STAND_IN.encode() not in data
    chars, replaced, at = [], [], 0
    while at < len(data):
        size = next((n for n in (1, 2, 3, 4) if is_utf8(data[at : at + n])), 0)
        chars.append(data[at : at + size].decode() if size else STAND_IN)
        if not size:
            replaced.append(first_byte + data[at])
        at += size or 1
    bad, given, tokens = iter(replaced), processor.encode("".join(chars)), []
    while len(tokens) < len(given) - 2 * len(replaced):
        at = len(tokens) + 2 * (len(replaced) - bad.__length_hint__())
        tokens.append(next(bad) if given[at : at + 3] == stand_in else given[at])
    return tokens


class Llama2c:
    """The functions of run.c, compiled as a library."""

    def __init__(self, checkout, folder, processor):
        library = folder / "run.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-DTESTING", "-o", library, checkout / "run.c", "-lm"],
                       check=True)
        self.run = ctypes.CDLL(str(library))
        self.tokenizer = ctypes.create_string_buffer(4096)  # larger than its struct Tokenizer
        path = str(checkout / "tokenizer.bin").encode()
        self.run.build_tokenizer(self.tokenizer, path, processor.vocab_size())

    def encode(self, data):
        tokens, count = (ctypes.c_int * (len(data) + 3))(), ctypes.c_int()
        self.run.encode(self.tokenizer, data, ctypes.c_int8(0), ctypes.c_int8(0), tokens, ctypes.byref(count))
        return tokens[: count.value]


def short_texts():
    """Texts on which the rounding of sums may decide, but not where we add them up anew."""
    rng = random.Random(4)
    for i in range(6000):
        count = rng.randrange(1, 25)
        yield [text(WORDS + HARD[:-1] + TO_NORMALIZE + LITERAL, count, 1000 + i),
               "".join(rng.choice(TO_NORMALIZE + TIES) for _ in range(count)),
               characters(rng, count),
               "".join(rng.choice(TIES) for _ in range(3 * count))][i % 4]  # fmt: skip


def check(folder, model, tests):
    env = os.environ | {"PIECES_MODEL": str(model.resolve()), "PIECES_FOLDER": str(folder)}
    return subprocess.run([tests.resolve(), "[.pieces_of_folder]"], cwd=ROOT, env=env).returncode


def check_kinds(tests):
    failed = 0
    for name, settings in KINDS.items():
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            lines = text([word for word in WORDS if word.isprintable()] + TIES, 3000, 1)
            (folder / "lines").write_text(lines, encoding="utf-8")
            sentencepiece.SentencePieceTrainer.train(
                input=str(folder / "lines"), model_prefix=str(folder / "kind"), minloglevel=2,
                hard_vocab_limit=False, **{"vocab_size": 460, **settings})  # fmt: skip
            processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "kind.model"))
            for i, content in enumerate(short_texts()):
                (folder / f"{i}.txt").write_text(content, encoding="utf-8", newline="")
                (folder / f"{i}.tokens").write_bytes(array("I", processor.encode(content)).tobytes())
            print(f"{name}, {processor.vocab_size()} pieces: ", end="", flush=True)
            failed += check(folder, folder / "kind.model", tests) != 0
    return failed


def main():
    parser = argparse.ArgumentParser(description="Compares tokens with sentencepiece's and llama2.c's.")
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--llama2c", type=Path, help="checkout whose tokenizer.bin is the same model")
    parser.add_argument("--text", type=Path, nargs="*", default=[])
    parser.add_argument("--tests", type=Path, default=ROOT / "build" / "auto-native" / "tests")
    args = parser.parse_args()
    if not args.model:
        sys.exit(check_kinds(args.tests) > 0)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(args.model))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        llama2c = Llama2c(args.llama2c, folder, processor) if args.llama2c else None
        size = short = differ = 0
        for i, (what, data) in enumerate(texts(args.text)):
            (folder / f"{i}.txt").write_bytes(data)
            tokens = tokens_of(processor, data)
            (folder / f"{i}.tokens").write_bytes(array("I", tokens).tobytes())
            size += len(data)
            if llama2c and what.startswith("short") and not any(part in data for part in NOT_LLAMA2C):
                short += 1
                if llama2c.encode(data) != tokens:
                    differ += 1
                    print(f"llama2.c differs from sentencepiece: {data!r}")
        print(f"{i + 1} texts, {size / 1e6:.1f} MB by sentencepiece; {short} of them by llama2.c, {differ} differ")
        sys.exit(check(folder, args.model, args.tests) != 0 or differ > 0)


if __name__ == "__main__":
    main()
