"""Compares our tokens with llama.cpp's own test vectors.

    make check-vocabularies

The source archive of llama-cpp-python holds vocabularies of published models (ggml-vocab-NAME.gguf), texts (.inp) and
the tokens that the models' own tokenizers give (.out). Downloads it to build/vocabularies, writes a tiny GGUF model
with each vocabulary, exports its tokenizer, and compares `train_gpt tokenize` with the vectors. Prints
"N passed, N failed".
Needs requirements-gguf.txt, pip and a network.
"""

import argparse
import json
import subprocess
import sys
import tarfile
from array import array
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
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
    ours = encoded(program, folder, *found, [text for text, _ in cases], tokens)
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
