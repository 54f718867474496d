"""Compares our tokens with llama.cpp's own test vectors.

    make check-vocabularies

The source archive of llama-cpp-python holds vocabularies of published models (ggml-vocab-NAME.gguf), texts (.inp) and
the tokens that the models' own tokenizers give (.out). Downloads it to build/vocabularies, writes each vocabulary as a
tokenizer.json, and compares `train_gpt tokenize` with the vectors. Prints "N passed, N failed".
Needs requirements-gguf.txt, pip and a network.
"""

import argparse
import json
import subprocess
import sys
import tarfile
from array import array
from pathlib import Path

from gguf import GGUFReader

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "vocabularies"
PACKAGE = "llama-cpp-python"
BETWEEN = "\n__ggml_vocab_test__\n"
SPACE = "\u2581"
CONTROL, USER_DEFINED = 3, 4  # token types of llama.cpp

ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CJK = "[一-龥ࠀ-一가-\ud7ff]+"
# The regular expressions of each tokenizer.ggml.pre, which split one after the other.
SPLITS = {
    "gpt-2": [GPT2],
    "mpt": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "refact": [r"\p{N}", GPT2],
    "command-r": [r"\p{N}", GPT2],
    "llama-bpe": [rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}"],
    "qwen2": [rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{REST}"],
    "qwen35": [rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
               r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "falcon": [r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-llm": ["[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$",
                     CJK, r"\p{N}+"],
}  # fmt: skip
WORDS_FIRST = ("llama-bpe", "deepseek-llm", "deepseek-coder")  # words that are tokens need no merges


def part(kind, **fields):
    return {"type": kind, **fields}


def sequence(name, parts):
    return part("Sequence", **{name: parts})


def split(pattern):
    return part("Split", pattern={"Regex": pattern}, behavior="Isolated", invert=False)


def merges_of(tokens, scores):
    """SentencePiece merges the pair that makes the piece with the highest score."""
    known = {token: i for i, token in enumerate(tokens)}
    found = []
    for token, score in zip(tokens, scores):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in known and token[i:] in known]
        found += [(score, *pair) for pair in sorted(pairs, key=lambda pair: (known[pair[0]], known[pair[1]]))]
    return [[left, right] for _, left, right in sorted(found, key=lambda row: row[0], reverse=True)]


def tokenizer_json(read):
    """The tokenizer.json of a vocabulary, or None if its algorithm is not byte-pair encoding."""
    kind, tokens, types = read("model"), read("tokens"), read("token_type")
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": types[i] == CONTROL}
             for i, token in enumerate(tokens) if types[i] in (CONTROL, USER_DEFINED)]  # fmt: skip
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None}  # fmt: skip
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if kind == "gpt2" and read("pre") in SPLITS:
        byte_level = part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
        file["pre_tokenizer"] = sequence("pretokenizers", [*map(split, SPLITS[read("pre")]), byte_level])
        file["decoder"] = part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
        file["model"] = part("BPE", vocab=vocabulary, merges=[merge.split(" ") for merge in read("merges")],
                             ignore_merges=read("pre") in WORDS_FIRST)  # fmt: skip
        return file
    if kind not in ("llama", "gemma4"):
        return None
    space = part("Replace", pattern={"String": " "}, content=SPACE)
    prefix = kind == "llama" and read("add_space_prefix") is not False
    first = [part("Prepend", prepend=SPACE)] if prefix else []
    if kind == "gemma4":
        file["pre_tokenizer"] = split("[^\n]+|\n+")
    merges = read("merges")
    merges = [merge.split(" ") for merge in merges] if merges else merges_of(tokens, read("scores"))
    file["normalizer"] = sequence("normalizers", [*first, space])
    file["decoder"] = sequence("decoders", [part("Replace", pattern={"String": SPACE}, content=" "),
                                            part("ByteFallback"), part("Fuse")])  # fmt: skip
    file["model"] = part("BPE", vocab=vocabulary, merges=merges, byte_fallback=True,
                         unk_token=tokens[read("unknown_token_id") or 0], fuse_unk=True)  # fmt: skip
    return file


def encoded(program, folder, file, cases):
    """Our tokens of each text. A special token separates them in the token file."""
    separator = next(row for row in file["added_tokens"] if row["special"])
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": case}) + "\n" for case in cases))
    words = ["tokenize", "texts.jsonl", "--tokenizer", "tokenizer.json", "--special-tokens", "text", "--out", "tokens",
             "--document-separator", separator["content"], "--val-fraction", "0", "--unknown", "skip", "--force"]
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder.name}: {done.stderr}")
    bits = "H" if len(file["model"]["vocab"]) <= 1 << 16 else "I"
    tokens = array(bits, (folder / "tokens" / "train_000000.bin").read_bytes()[1024:])
    found = [[]]
    for token in tokens[1:]:
        found[-1].append(token) if token != separator["id"] else found.append([])
    return [row for row in found if row]


def compare(program, vocabulary):
    fields = GGUFReader(vocabulary).fields
    file = tokenizer_json(lambda name: (f := fields.get(f"tokenizer.ggml.{name}")) and f.contents())
    name = vocabulary.stem.removeprefix("ggml-vocab-")
    if not file:
        print(f"{name:16} left out: it is no byte-pair encoding that we know", flush=True)
        return 0, 0
    texts = Path(f"{vocabulary}.inp").read_text(encoding="utf-8").split(BETWEEN)
    rows = Path(f"{vocabulary}.out").read_text().split("\n")
    cases = [(text, [int(token) for token in row.split()]) for text, row in zip(texts, rows) if text]
    folder = WORK / name
    folder.mkdir(exist_ok=True)
    ours = encoded(program, folder, file, [text for text, _ in cases])
    failed = 0
    for i, (text, theirs) in enumerate(cases):
        got = ours[i] if i < len(ours) else None
        if got != theirs:
            failed += 1
            print(f"FAILED {name}: {text[:60]!r}: {got} and {theirs}", flush=True)
    print(f"{name:16} {len(cases) - failed} of {len(cases)} texts", flush=True)
    return len(cases) - failed, failed


def download():
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest",
                    WORK, PACKAGE], check=True)  # fmt: skip
    (archive,) = WORK.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        for member in files:
            if "/models/ggml-vocab-" in member.name:
                (WORK / Path(member.name).name).write_bytes(files.extractfile(member).read())
    archive.unlink()


def main():
    parser = argparse.ArgumentParser(description="Compares our tokens with llama.cpp's test vectors.")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "train_gpt")
    program = parser.parse_args().program.resolve()
    if not list(WORK.glob("ggml-vocab-*.inp")):
        download()
    passed = failed = 0
    for vocabulary in sorted(WORK.glob("ggml-vocab-*.gguf")):
        if Path(f"{vocabulary}.inp").exists():
            good, bad = compare(program, vocabulary)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
