"""Compares AutoTokenizer's tokens with train_gpt's, on many MB of text that is hard to tokenize.

    make check-tokenizers

Trains a model of each kind of tokenizer for one step and exports it with --to hf. AutoTokenizer reads the folder and
encodes each text; `train_gpt tokenize` writes its tokens of the same text with the folder's tokenizer.json. Both must
be equal, and decoding must give the text. The same for tokenizers that `tokenizers` trains with the splits of Llama 3
(and its token before a text) and Qwen 2 (with NFC), which train_gpt imports and exports again. Tokenizers in the shape
of each published family (published_tokenizers.py) give the same tokens, added tokens among them. The pipeline
"text-generation" must write the greedy text of `sample`. A character without a token is an error in both.

The texts are code, words of many scripts, emoji, combining marks, runs of spaces, CRLF, and lines of 100 kB. train_gpt
reads a text file without byte order mark and with LF line ends, so both get the text in that form.
Prints "N passed, N failed". Needs requirements-huggingface.txt and no network.
"""

import argparse
import random
import re
import sys
import tempfile
import unicodedata
from array import array
from pathlib import Path

import transformers as hf
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors

import checks
from published_tokenizers import FAMILIES, built
from tokenizer import HARD, SPLITS, TO_ADD, TO_NORMALIZE, WORDS, rules, text, trained

hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()
ROOT = Path(__file__).resolve().parent.parent
SMALL = "--layers 1 --heads 1 --channels 8 --context 16 --batch 2 --steps 1 --quiet"
BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
PROMPT = "the"


def is_settled(c):
    """True if Unicode has not changed its kind since version 3.2. PCRE2 and `tokenizers` know different versions."""
    return unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c) not in ("Cn", "Cs")


def characters(rng, count):
    """Random characters, most of them rare, of those that is_settled() allows."""
    drawn = (rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)])
             for _ in range(count))  # fmt: skip
    return "".join(filter(is_settled, map(chr, drawn)))


def unix(content):
    """Without CRLF: train_gpt keeps it in files with control characters, which it takes for binary."""
    return re.sub("\r+\n", "\n", content)


def texts():
    rng = random.Random(3)
    code = "\n".join(p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("layers/**/*.[ch]pp")))
    yield "code", code
    yield "code, CRLF", code[:200000].replace("\n", "\r\n")
    yield "CR and CRLF", code[:200000].replace("\n", "\r\r\n")  # becomes CRLF
    yield "many scripts", unix(text(WORDS + HARD, 60000, 5))
    yield "combining marks", text(WORDS + TO_NORMALIZE, 40000, 6)
    yield "any characters", unix(characters(rng, 400000))
    yield "runs of spaces", "".join(" " * rng.randrange(40) + rng.choice(WORDS) for _ in range(20000))
    yield "lines of 100 kB", "\n".join("".join(rng.choice(WORDS) for _ in range(25000)) for _ in range(3))
    yield "100 kB of a, of spaces, of marks", "\n".join(c * 100000 for c in ("a", " ", "e\u0301"))
    yield "special tokens as text", text(WORDS + ["<|endoftext|>", "<|end", BEGIN], 5000, 7).replace(BEGIN, "<|begin")


class Checks(checks.Checks):
    def output(self, words):
        return self.must(words).stdout.decode(errors="replace").removesuffix("\n")

    def tokens_of(self, content, tokenizer):
        (self.folder / "text.txt").write_bytes(content.encode())
        self.must(f"tokenize text.txt --tokenizer {tokenizer} --val-fraction 0 --out tokens --force "
                 "--shard-tokens 100000000")  # fmt: skip
        return list(array("H", (self.folder / "tokens" / "train_000000.bin").read_bytes()[1024:]))

    def compare(self, name, normal=lambda t: t, begin=None):
        theirs = hf.AutoTokenizer.from_pretrained(self.folder / "hf")
        alphabet = sorted(theirs.get_vocab()) if name == "char" else None
        size = 0
        for what, content in texts():
            if alphabet:
                content = "".join(c for c in content if c in alphabet)
            if "<|endoftext|>" in theirs.get_vocab():  # transformers parses it out of text, train_gpt never does
                content = content.replace("<|endoftext|>", "<|endoftex|>")
            read = content.replace("\r\n", "\n")
            expected = theirs(read)["input_ids"]
            if alphabet:  # `tokenize` writes files of byte-pair tokens only
                ours = [alphabet.index(c) for c in read]
            else:
                ours = self.tokens_of(content, "hf/tokenizer.json")
            if begin is None and "<|endoftext|>" in theirs.get_vocab():
                expected = [theirs.convert_tokens_to_ids("<|endoftext|>"), *expected]  # before each file
            if begin is not None:
                expected = [*expected, theirs.convert_tokens_to_ids(END)]  # after each file
            at = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
            self.check(f"{name}: {what}", ours == expected,
                       f"token {at}: {ours[at:at + 5]} and {expected[at:at + 5]}, "
                       f"{len(ours)} and {len(expected)} tokens")  # fmt: skip
            back = theirs.decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            self.check(f"{name}: {what}, decoded", back == normal(read))
            if begin is not None:
                self.check(f"{name}: {what}, begin", expected[0] == begin, expected[:3])
            size += len(read.encode())
        print(f"{name:8}  {size / 1e6:.1f} MB, vocabulary {len(theirs)}", flush=True)

    def of_run(self, kind):
        (self.folder / "train.txt").write_text(text(WORDS, 5000, 1) * 3, encoding="utf-8", newline="")
        self.must(f"train train.txt --tokenizer {kind} --out run --force {SMALL}")
        self.must("export run --to hf --out hf --force")
        self.compare(kind)
        self.generate(kind)
        if kind == "char":
            self.unknown_character()

    def generate(self, kind):
        written = self.output(f"sample run --greedy --length 8 --prompt {PROMPT}")
        pipeline = hf.pipeline("text-generation", str(self.folder / "hf"))
        got = pipeline(PROMPT, max_new_tokens=8, do_sample=False)[0]["generated_text"]
        self.check(f"{kind}: pipeline", got == written, f"{got!r} and {written!r}")

    def unknown_character(self):
        try:
            tokens = hf.AutoTokenizer.from_pretrained(self.folder / "hf")("\u0416\u4e8c")["input_ids"]
            self.check("char: unknown character", False, f"has the tokens {tokens}")
        except Exception as error:
            self.check("char: unknown character", "WordLevel" in str(error), repr(error))

    # A tokenizer of `tokenizers` is read, trained with, and written.
    def of_tokenizers(self, name, normalizer=None):
        words = pre_tokenizers.Split(Regex(SPLITS[name]), "isolated")
        split = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer = trained(text(WORDS, 5000, 1), split, normalizer, ignore_merges=name == "llama3")
        tokenizer.decoder = decoders.ByteLevel()
        begin = None
        if name == "llama3":
            tokenizer.add_special_tokens([AddedToken(BEGIN), AddedToken(END)])
            begin = tokenizer.token_to_id(BEGIN)
            template = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin)])
            tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
        tokenizer.save(str(self.folder / "their.json"))
        (self.folder / "train.txt").write_text(text(WORDS, 5000, 1), encoding="utf-8", newline="")
        separator = f"--document-separator {BEGIN}" if name == "llama3" else ""  # so the model knows the token
        self.must(f"train train.txt --tokenizer their.json {separator} --out run --force {SMALL}")
        self.must("export run --to hf --out hf --force")
        self.compare(name, normalizer.normalize_str if normalizer else lambda t: t, begin)


    # Without the tokens around a text, which `tokenize` writes once per file.
    def of_family(self, name):
        theirs = built(text(WORDS, 5000, 1), name, rules())
        theirs.save(str(self.folder / "their.json"))
        family = FAMILIES[name]
        around = theirs.token_to_id("<|endoftext|>") or family.get("begin") or family.get("roberta") or (
            "template" in family and not family["template"].startswith("$A"))  # fmt: skip
        size = 0
        for what, content in [*texts(), ("added tokens", unix(text(WORDS + TO_ADD * 3, 20000, 9)))]:
            read = content.replace("\r\n", "\n")
            expected = theirs.encode(read, add_special_tokens=False).ids
            options = "--special-tokens tokens --unknown skip"
            ours = self.tokens_of(content, f"their.json {options}")
            if around:
                ours = ours[1:-1] if len(ours) > len(expected) + 1 else ours[1:]
            at = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
            self.check(f"{name}: {what}", ours == expected,
                       f"token {at}: {ours[at:at + 5]} and {expected[at:at + 5]}, "
                       f"{len(ours)} and {len(expected)} tokens")  # fmt: skip
            size += len(read.encode())
        print(f"{name:16}  {size / 1e6:.1f} MB, vocabulary {theirs.get_vocab_size()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Compares AutoTokenizer's tokens with train_gpt's.")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "train_gpt")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = Checks(given.program.resolve(), Path(folder))
        for kind in ("byte", "char", "bpe:1024"):
            done.of_run(kind)
        done.of_tokenizers("llama3")
        done.of_tokenizers("qwen2", normalizers.NFC())
        for family in FAMILIES:
            done.of_family(family)
    print(f"{done.passed} passed, {done.failed} failed")
    sys.exit(done.failed > 0)


if __name__ == "__main__":
    main()
