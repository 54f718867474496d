"""Writes test/reference/tokenizer/: a text, the byte-level BPE tokenizers that Hugging Face's tokenizers train on it
with the splits of GPT-2, Llama 3 and Qwen 2, and the tokens of a second text that is hard to split.

    .venv/bin/python python_ref/tokenizer.py
"""

import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = Path(__file__).resolve().parent.parent / "test" / "reference" / "tokenizer"
VOCABULARY = 400
WORDS = ("the and of that it's they'll we've I'm don't he'd norm layer token gradient banana aaaa 1234 2026 3.14 "
         "für Straße naïve день неделя μέσος 東京 日本語 مرحبا नमस्ते 한국어 👍🏽 👩‍👩‍👧 e\u0301 "
         "!? ... --- == x_1 (a) $9").split()
SPACES = [" "] * 12 + ["  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "    "]
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
SPLITS = {"llama3": f"{ENDINGS}|{LETTERS}|\\p{{N}}{{1,3}}|{REST}", "qwen2": f"{ENDINGS}|{LETTERS}|\\p{{N}}|{REST}"}
HARD = ["\u180e", "\u2028", "\x85", "\x00", "\x1f ", "'S", "'LL", "½²Ⅷ", "\u0301", "\ufeff", "'", "''s", " 's",
        "\u1680", "<|endoftext|>", "\U0001f3f4\u200d\u2620\ufe0f", "   x", " \n \n", "_", "ÀÉ", "a" * 120]


def text(words, count, seed):
    rng = random.Random(seed)
    return "".join(rng.choice(words) + rng.choice(SPACES) * rng.choice([1, 1, 1, 0, 2]) for _ in range(count))


def trained(trained_on, pre_tokenizer, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([trained_on], trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    trained_on, hard = text(WORDS, 1500, 1), text(WORDS + HARD, 600, 2)
    tokenizer = trained(trained_on, pre_tokenizers.ByteLevel(add_prefix_space=False))
    files = {"trained_on.txt": trained_on, "hard.txt": hard, "tokenizer.json": tokenizer.to_str(),
             "hard.tokens.json": json.dumps(tokenizer.encode(hard).ids)}
    for name, regex in SPLITS.items():
        split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer = trained(trained_on, split, ignore_merges=name == "llama3")
        files |= {f"{name}.json": tokenizer.to_str(), f"{name}.tokens.json": json.dumps(tokenizer.encode(hard).ids)}
    for name, content in files.items():
        (FOLDER / name).write_text(content, encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
