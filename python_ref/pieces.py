"""Writes test/reference/pieces/: small SentencePiece models with the settings of Llama 2, and their tokens of a text
that is hard to split. Needs sentencepiece.

    .venv/bin/python python_ref/pieces.py
"""

import json
from pathlib import Path

import sentencepiece

from tokenizer import HARD, WORDS, text

FOLDER = Path(__file__).resolve().parent.parent / "test" / "reference" / "pieces"
LLAMA2 = dict(model_type="bpe", byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True,
              normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True)
MODELS = {"llama2": {}, "across_spaces": dict(split_by_whitespace=False, add_dummy_prefix=False)}
SPACE_INSIDE = ["\u2581of\u2581the", "a\u2581b"]  # a text with the character that pieces have for a space


def train(folder, name, vocabulary, **settings):
    words = [w for w in WORDS if w.isprintable()] + SPACE_INSIDE
    lines = folder / "lines.txt"
    lines.write_text("\n".join(text(words, 1500, 1).split("\n")), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines), model_prefix=str(folder / name), vocab_size=vocabulary, minloglevel=2,
        **{**LLAMA2, "character_coverage": .999, **settings})
    lines.unlink()
    (folder / f"{name}.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    hard = text(WORDS + HARD + SPACE_INSIDE, 600, 2)
    tokens = {}
    for name, settings in MODELS.items():
        tokens[name] = train(FOLDER, name, 440, **settings).encode(hard)
    (FOLDER / "hard.txt").write_text(hard, encoding="utf-8", newline="")
    (FOLDER / "hard.tokens.json").write_text(json.dumps(tokens))


if __name__ == "__main__":
    main()
