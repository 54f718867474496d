"""Compares our tokens with llama.cpp's own test vectors.

    make check-vocabularies

The source archive of llama-cpp-python holds vocabularies of published models (ggml-vocab-NAME.gguf), texts (.inp) and
the tokens that the models' own tokenizers give (.out). Downloads it to build/vocabularies, writes a tiny GGUF model
with each vocabulary, exports its tokenizer, as GGUF again if that can hold it, and compares `train_gpt tokenize` with
the vectors. Some vocabularies are also written as the files that others have, and compared on the texts of all vectors:
Llama 3's as tiktoken's tokenizer.model with tiktoken, BERT's as vocab.txt with tokenizers, XLM-R's as spiece.model with
sentencepiece and as tokenizer.json with tokenizers. Prints "N passed, N failed".
Needs requirements-gguf.txt, pip and a network; tiktoken, sentencepiece and tokenizers for those files.
"""

import argparse
import base64
import json
import struct
import subprocess
import sys
import tarfile
from array import array
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python_ref"))
from protobuf import field  # noqa: E402

WORK = ROOT / "build" / "vocabularies"
PACKAGE = "llama-cpp-python"
BETWEEN = "\n__ggml_vocab_test__\n"
CHANNELS = 8


def write_model(path, vocabulary):
    """Writes a tiny Llama with this vocabulary."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(CHANNELS)
    writer.add_feed_forward_length(CHANNELS)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, field in vocabulary.fields.items():
        if key.startswith("tokenizer."):
            of_elements = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], of_elements)
    shapes = {"token_embd": (len(vocabulary.fields["tokenizer.ggml.tokens"].data), CHANNELS), "output_norm": CHANNELS}
    shapes |= {f"blk.0.{name}": CHANNELS for name in ("attn_norm", "ffn_norm")}
    for name in "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down":
        shapes[f"blk.0.{name}"] = (CHANNELS, CHANNELS)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def exported(program, folder):
    """Our tokenizer of the model: its file, and a special token that begins no text. None if it reads no text."""
    for to, file in ("hf", "tokenizer.json"), ("llama2c", "tokenizer.bin"):
        words = [program, "export", "model.gguf", "--to", to, "--out", to, "--force"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if "reads token files only" in done.stderr:
            return None
        if done.returncode:
            raise SystemExit(f"{folder.name}: {done.stderr}")
        if not (folder / to / file).exists():
            continue
        if file == "tokenizer.bin":
            return Path(to) / file, "</s>"
        added = json.loads((folder / to / file).read_text(encoding="utf-8"))["added_tokens"]
        return Path(to) / file, [row["content"] for row in added if row["special"]][-1]


def written_again(program, folder):
    """The GGUF file that we write from the model's. None if we say that it cannot hold our tokenizer."""
    words = [program, "export", "model.gguf", "--to", "gguf", "--out", "back.gguf", "--force"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(f"{folder.name:16} not as GGUF: {done.stderr.strip()}", flush=True)
    return None if done.returncode else "back.gguf"


def encoded(program, folder, tokenizer, separator, cases, vocabulary):
    """Our tokens of each text. A special token separates them in the token file."""
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": case}) + "\n" for case in cases))
    words = ["tokenize", "texts.jsonl", "--tokenizer", tokenizer, "--special-tokens", "text", "--out", "tokens",
             "--document-separator", separator, "--val-fraction", "0", "--unknown", "skip", "--force"]
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder.name}: {done.stderr}")
    bits = "H" if len(vocabulary) <= 1 << 16 else "I"
    tokens = array(bits, (folder / "tokens" / "train_000000.bin").read_bytes()[1024:])
    found = [[]]
    for token in tokens[1:]:
        found[-1].append(token) if token != vocabulary.index(separator) else found.append([])
    return [row for row in found if row]


def texts_of(path):
    return [text for text in Path(f"{path}.inp").read_text(encoding="utf-8").split(BETWEEN) if text]


def all_texts():
    """All of the test vectors, and what is hard for a unigram model: runs, and characters that are normalized."""
    more = ["-" * 9 + "=" * 70, "\ufb01\u0301 \uff21\u0301 \u2460", "a" * 50, " \u2581\u2581 x ", "e\u0301\u0302"]
    return sorted({text for path in WORK.glob("ggml-vocab-*.inp") for text in texts_of(path.with_suffix(""))}) + more


def tiktoken_file(tokens, scores, rules):
    letters = {printable: byte for byte, printable in byte_names().items()}
    ranks = [bytes(letters[c] for c in token) for token in tokens[:128000]]
    lines = b"".join(base64.b64encode(token) + f" {rank}\n".encode() for rank, token in enumerate(ranks))

    def theirs(_):
        import tiktoken

        pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                   r"\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
        by_rank = {token: rank for rank, token in enumerate(ranks)}
        return tiktoken.Encoding("llama3", pat_str=pattern, mergeable_ranks=by_rank, special_tokens={}).encode_ordinary

    return lines, theirs


def byte_names():
    """GPT-2's alphabet."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def bert_file(tokens, scores, rules):
    def name(token):
        is_special = token.startswith("[") and token.endswith("]") and len(token) > 2
        return token if is_special else token[1:] if token.startswith("\u2581") else f"##{token}"

    lines = "".join(f"{name(token)}\n" for token in tokens).encode()

    def theirs(path):
        from tokenizers import BertWordPieceTokenizer

        tokenizer = BertWordPieceTokenizer(str(path))
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids

    return lines, theirs


def sentencepiece_file(tokens, scores, rules):
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3, "<pad>": 3, "<mask>": 3}
    pieces = b"".join(
        field(1, field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kinds.get(token, 1)]))
        for token, score in zip(tokens, scores)
    )

    def theirs(path):
        import sentencepiece

        return sentencepiece.SentencePieceProcessor(model_file=str(path)).encode

    return pieces + field(2, b"\x18\x01") + field(3, field(1, b"nmt_nfkc") + field(2, rules)), theirs


def json_file(tokens, scores, rules):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.Unigram(list(zip(tokens, scores)), tokens.index("<unk>"), False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(rules), normalizers.Replace(Regex(" {2,}"), " ")])  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("</s>", normalized=False)])
    return tokenizer.to_str().encode(), lambda _: lambda text: tokenizer.encode(text, add_special_tokens=False).ids


# Vocabularies as files of others: their name, what writes them, and a special token.
FILES = {
    "llama-bpe": [("tokenizer.model", tiktoken_file, "<|end_of_text|>")],
    "bert-bge": [("vocab.txt", bert_file, "[SEP]")],
    "nomic-bert-moe": [("spiece.model", sentencepiece_file, "</s>"), ("tokenizer.json", json_file, "</s>")],
}


def compare_files(program, path):
    name, passed, failed = path.stem.removeprefix("ggml-vocab-"), 0, 0
    fields = gguf.GGUFReader(path).fields
    empty = lambda key: f"tokenizer.ggml.{key}" not in fields  # noqa: E731
    read = lambda key: [] if empty(key) else fields[f"tokenizer.ggml.{key}"].contents()  # noqa: E731
    tokens = read("tokens")
    for file, write, separator in FILES.get(name, []):
        folder = WORK / f"{name}-{file}"
        folder.mkdir(exist_ok=True)
        content, reader = write(tokens, read("scores"), bytes(read("precompiled_charsmap")))
        (folder / file).write_bytes(content)
        theirs, texts = reader(folder / file), all_texts()
        cases = [(text, theirs(text)) for text in texts if separator not in text]
        cases = [(text, row) for text, row in cases if row]
        ours = encoded(program, folder, file, separator, [text for text, _ in cases], tokens)
        for (text, row), got in zip(cases, ours, strict=True):
            if got != list(row):
                print(f"FAILED {name} as {file}: {text[:60]!r}: {got} and {row}", flush=True)
            passed, failed = passed + (got == list(row)), failed + (got != list(row))
        print(f"{name:16} as {file}: {passed} of {passed + failed} texts so far", flush=True)
    return passed, failed


def compare(program, path):
    name = path.stem.removeprefix("ggml-vocab-")
    folder = WORK / name
    folder.mkdir(exist_ok=True)
    vocabulary = gguf.GGUFReader(path)
    write_model(folder / "model.gguf", vocabulary)
    found = exported(program, folder)
    if not found:
        print(f"{name:16} left out: train_gpt does not read it", flush=True)
        return 0, 0
    texts = Path(f"{path}.inp").read_text(encoding="utf-8").split(BETWEEN)
    rows = Path(f"{path}.out").read_text().split("\n")
    cases = [(text, [int(token) for token in row.split()]) for text, row in zip(texts, rows) if text]
    tokens = vocabulary.fields["tokenizer.ggml.tokens"].contents()
    passed = failed = 0
    file, separator = found
    for tokenizer in filter(None, (file, written_again(program, folder))):
        ours = encoded(program, folder, tokenizer, separator, [text for text, _ in cases], tokens)
        good = 0
        for i, (text, theirs) in enumerate(cases):
            got = ours[i] if i < len(ours) else None
            good += got == theirs
            if got != theirs:
                print(f"FAILED {name} {tokenizer}: {text[:60]!r}: {got} and {theirs}", flush=True)
        print(f"{name:16} {good} of {len(cases)} texts by {tokenizer}", flush=True)
        passed, failed = passed + good, failed + len(cases) - good
    return passed, failed


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
        tries = [compare] if Path(f"{vocabulary}.inp").exists() else []
        for compare_one in [*tries, compare_files]:
            good, bad = compare_one(program, vocabulary)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
