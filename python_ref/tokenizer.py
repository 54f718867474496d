"""Writes test/reference/tokenizer/: a text, the byte-level BPE tokenizers that Hugging Face's tokenizers train on it
with the splits of GPT-2, Llama 3 and Qwen 2, and the tokens of a second text that is hard to split. The tokenizer
nfc.json normalizes text as Qwen 2 does; its text is hard to normalize. published.json has a tokenizer of each family in
published_tokenizers.py, with a text, its tokens, and what they decode to. Run pieces.py first: some of them have its
rules of normalization.

    .venv/bin/python python_ref/tokenizer.py
"""

import json
import random
from pathlib import Path

from protobuf import normalization_rules
from published_tokenizers import FAMILIES, built
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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

# Letters with marks in any order, Hangul in parts, characters that are never composed, and ones that only NFKC changes.
TO_NORMALIZE = ["e\u0301", "u\u0308\u0304", "u\u0304\u0308", "a\u0323\u0302", "a\u0302\u0323", "\u00e9\u0323",
                "o\u031b\u0301", "a\u0300\u0301\u0302\u0316\u0317", "q\u0307\u0323", "<\u0338", "= \u0338=\u0338",
                "\u0301", "\n\u0301", "A\u030a", "\u1112\u1161\u11ab", "\u1112\u1161", "\ud55c\u11a8",
                "\uac00\u11a7", "\uac00\u11a8", "\u1161\u11ab", "\u09c7\u09be", "\u0b47\u0b3e",
                "\u0dd9\u0dcf\u0dca", "\u0915\u093c", "\u0958", "\u0344", "\u2126", "\u212b", "\u1f71", "\ufb1d",
                "\u2adc", "\U0001d15e", "\uf900", "\U0002f800", "\u0340", "\u0387", "\u0f73\u0f71", "\u304b\u3099",
                "\u304b \u3099", "\U00011131\U00011127", "\ufb01", "\u2460", "\uff21", "\u00bd", "\u338f", "\u2003",
                "\u017f\u0307", "\u1e9b\u0323", "x!"]


def text(words, count, seed):
    rng = random.Random(seed)
    return "".join(rng.choice(words) + rng.choice(SPACES) * rng.choice([1, 1, 1, 0, 2]) for _ in range(count))


def trained(trained_on, pre_tokenizer, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([trained_on], trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


# What added tokens do, and what normalizers and pre-tokenizers of FAMILIES change.
TO_ADD = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", " <|endoftext|>  ", "<|user|>", "<|user|>\n ",
          "<think>", "banana", "bananas", "Norm", "the", "layer  ", "  the  ", "\n\n\n", "\t\t\t", "     ",
          "\u2581\u2581", "<0x41>",
          "\u00a0", "\u2003", "ﬁ", "İ", "x_1", "99999", "\u3002\u3002", "[MASK]", "x[SEP]", "##a", "``", "''",
          "ﬁ\u0301", "e\u0301\u0302", "\r\n", "do not", " n't", " 's", "a ."]


def rules():
    """SentencePiece's rules of normalization in the model that pieces.py writes."""
    return normalization_rules((FOLDER.parent / "pieces" / "unigram.model").read_bytes())


def published(trained_on):
    content = "  " + text(WORDS + HARD[:-1] + TO_NORMALIZE + TO_ADD * 4, 260, 4)
    known = {}
    for name in FAMILIES:
        tokenizer = built(trained_on, name, rules(), 300)
        tokens = tokenizer.encode(content, add_special_tokens=False).ids
        known[name] = {"file": tokenizer.to_str(), "tokens": json.dumps(tokens),
                       "decoded": tokenizer.decode(tokens, skip_special_tokens=False)}
    return {"text": content, "families": known}


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
    tokenizer = trained(trained_on, split, normalizers.NFC())
    unlike = text(WORDS + TO_NORMALIZE * 3, 600, 3)
    files |= {"nfc.txt": unlike, "nfc.json": tokenizer.to_str(),
              "nfc.tokens.json": json.dumps(tokenizer.encode(unlike).ids)}
    files["published.json"] = json.dumps(published(trained_on), indent=0, ensure_ascii=False)
    for name, content in files.items():
        (FOLDER / name).write_text(content, encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
