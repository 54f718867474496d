"""Tokenizers in the shape of published ones: the same normalizer, pre-tokenizer, decoder, template and kinds of added
tokens, with a small vocabulary that is trained on our text. FAMILIES names the models of each shape.
"""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPACE = "\u2581"
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{REST}"
QWEN2 = rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{REST}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDINGS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
DEEPSEEK = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"]
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
               r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
               r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

pre, norm = pre_tokenizers, normalizers


def special(*names, **flags):
    return [AddedToken(name, special=True, normalized=False, **flags) for name in names]


def runs_of(character, lengths, **flags):
    """Added tokens that are not special, as in GPT-NeoX and Phi."""
    return [AddedToken(character * n, special=False, **flags) for n in lengths]


def byte_level(use_regex=True, prefix=False):
    return pre.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def split(pattern, behavior="isolated", invert=False):
    return pre.Split(Regex(pattern), behavior, invert)


def spaced(*steps):
    """Decoders of SentencePiece's models."""
    return decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *steps])


PREFIXED = norm.Sequence([norm.Prepend(SPACE), norm.Replace(" ", SPACE)])
LLAMA = special("<unk>", "<s>", "</s>")
BERT = special("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ONE_SPACE = norm.Replace(Regex(" {2,}"), " ")


def precompiled(rules, *after):
    return norm.Sequence([norm.Precompiled(rules), *after])


def of_albert(rules):
    return norm.Sequence([norm.Replace("``", '"'), norm.Replace("''", '"'), norm.NFKD(), norm.StripAccents(),
                          norm.Lowercase(), norm.Precompiled(rules), ONE_SPACE])  # fmt: skip


# `bytes`: the model reads bytes, of which `alphabet` may leave some out. `pieces`: it reads characters, with byte
# fallback. `unigram` and `word_piece` are other models; their normalizers may be functions of SentencePiece's rules.
FAMILIES = {
    "gpt2": dict(bytes=True, pre=byte_level(), added=special("<|endoftext|>")),
    "pythia": dict(bytes=True, normalizer=norm.NFC(), pre=byte_level(),  # GPT-NeoX, OLMo
                   added=[*special("<|endoftext|>", "<|padding|>"), *runs_of(" ", range(24, 1, -1), normalized=True)]),
    "phi": dict(bytes=True, pre=byte_level(),  # Phi-1 to Phi-2, CodeGen
                added=[*special("<|endoftext|>"), *runs_of(" ", range(31, 1, -1), normalized=True),
                       *runs_of("\t", range(9, 1, -1), normalized=True)]),
    "smollm": dict(bytes=True, alphabet=False, pre=pre.Sequence([pre.Digits(True), byte_level()]),  # StarCoder, Granite
                   added=special("<|endoftext|>", "<|im_start|>", "<|im_end|>")),
    "command-r": dict(bytes=True, normalizer=norm.NFC(), pre=pre.Sequence([pre.Digits(True), byte_level()]),
                      added=special("<BOS_TOKEN>"), begin="<BOS_TOKEN>"),
    "qwen2": dict(bytes=True, normalizer=norm.NFC(), pre=pre.Sequence([split(QWEN2), byte_level(False)]),
                  added=[*special("<|endoftext|>", "<|im_start|>"),
                         AddedToken("<think>", special=False, normalized=False)]),
    "llama3": dict(bytes=True, pre=pre.Sequence([split(CL100K), byte_level(False)]), ignore_merges=True,
                   added=special("<|begin_of_text|>", "<|end_of_text|>"), begin="<|begin_of_text|>"),
    "stablelm2": dict(bytes=True, normalizer=norm.NFC(), added=special("<|endoftext|>"),
                      pre=pre.Sequence([split(CL100K, "removed", True), byte_level(False)])),
    "gpt4o": dict(bytes=True, pre=pre.Sequence([split(O200K), byte_level(False)]), ignore_merges=True,  # Phi-4
                  added=special("<|endoftext|>", rstrip=True, lstrip=True)),
    "falcon": dict(bytes=True, added=special("<|endoftext|>"), pre=pre.Sequence(
        [pre.Punctuation("contiguous"), byte_level(), pre.Digits(False), split("[0-9][0-9][0-9]")])),
    "bloom": dict(bytes=True, pre=pre.Sequence([split(BLOOM), byte_level(False)]), added=special("</s>")),
    "deepseek": dict(bytes=True, added=special("<bos>"), begin="<bos>",
                     pre=pre.Sequence([*map(split, DEEPSEEK), byte_level(False)])),
    "deepseek-v3": dict(bytes=True, added=special("<bos>"), begin="<bos>",
                        pre=pre.Sequence([*map(split, DEEPSEEK_V3), byte_level(False)])),
    "roberta": dict(bytes=True, pre=byte_level(prefix=True), added=special("<s>", "</s>"), roberta=True),
    "llama2": dict(pieces=True, normalizer=PREFIXED, decoder=spaced(decoders.Strip(" ", 1, 0)), added=LLAMA,
                   begin="<s>"),  # TinyLlama, Mistral, Phi-3
    "phi3": dict(pieces=True, normalizer=PREFIXED, decoder=spaced(decoders.Strip(" ", 1, 0)),
                 added=[*LLAMA, *special("<|user|>", "<|end|>", rstrip=True)]),
    "mistral": dict(pieces=True, pre=pre.Metaspace(prepend_scheme="first", split=False),
                    decoder=spaced(decoders.Strip(" ", 1, 0)), added=LLAMA, begin="<s>"),
    "gemma": dict(pieces=True, normalizer=norm.Replace(" ", SPACE), pre=pre.Split(" ", "merged_with_previous"),
                  decoder=spaced(), begin="<s>",
                  added=[*LLAMA, *runs_of(SPACE, range(2, 9), normalized=False),
                         *runs_of("\n", range(2, 9), normalized=False)]),
    "t5": dict(unigram=True, normalizer=precompiled, decoder=decoders.Metaspace(), added=LLAMA, template="$A </s>",
               pre=pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])),
    "t5, later": dict(unigram=True, pre=pre.Metaspace(), decoder=decoders.Metaspace(), added=LLAMA,
                      normalizer=lambda rules: precompiled(rules, norm.Strip(left=False, right=True),
                                                           norm.Replace(Regex(" {2,}"), SPACE))),
    "albert": dict(unigram=True, normalizer=of_albert, pre=pre.Metaspace(), decoder=decoders.Metaspace(), added=LLAMA,
                   template="<s> $A </s>"),
    "xlm-r": dict(unigram=True, normalizer=lambda rules: precompiled(rules, ONE_SPACE), decoder=decoders.Metaspace(),
                  pre=pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()]), added=LLAMA, template="<s> $A </s>"),
    "mbart": dict(unigram=True, normalizer=precompiled, pre=pre.Metaspace(), decoder=decoders.Metaspace(),
                  added=[*LLAMA, *special("en_XX")], template="$A </s> en_XX"),
    "deberta-v2": dict(unigram=True, pre=pre.Sequence([pre.Punctuation(), pre.Metaspace()]), added=LLAMA,
                       normalizer=lambda rules: norm.Sequence([norm.Strip(), norm.Precompiled(rules), ONE_SPACE]),
                       decoder=decoders.Metaspace()),
    "bert": dict(word_piece=True, normalizer=norm.BertNormalizer(), pre=pre.BertPreTokenizer(), added=BERT,
                 decoder=decoders.WordPiece(), template="[CLS] $A [SEP]"),
    "bert, cased": dict(word_piece=True, normalizer=norm.BertNormalizer(lowercase=False), pre=pre.BertPreTokenizer(),
                        decoder=decoders.WordPiece(), added=BERT, template="[CLS] $A [SEP]"),
    # Parts that the families above do not have.
    "unigram with bytes": dict(unigram=True, fallback=True, normalizer=norm.Replace(" ", SPACE), added=LLAMA,
                               decoder=spaced(decoders.Strip(" ", 1, 0))),
    "nmt": dict(unigram=True, normalizer=norm.Sequence([norm.Nmt(), norm.NFKC()]), pre=pre.Metaspace(),
                decoder=decoders.Metaspace(), added=LLAMA),
    "wordpiece": dict(word_piece=True, normalizer=norm.BertNormalizer(False, False, True, False), pre=pre.Whitespace(),
                      decoder=decoders.WordPiece(cleanup=False), added=BERT),
    "metaspace": dict(pieces=True, pre=pre.Metaspace(), decoder=decoders.Metaspace(), added=LLAMA),
    "nfkc, lowercase": dict(bytes=True, normalizer=norm.Sequence([norm.NFKC(), norm.Lowercase()]), pre=byte_level()),
    "nfd": dict(bytes=True, normalizer=norm.NFD(), pre=byte_level()),
    "nfkd, strip": dict(bytes=True, normalizer=norm.Sequence([norm.NFKD(), norm.Strip()]), pre=byte_level()),
    "regex": dict(bytes=True, normalizer=norm.Replace(Regex(r"\s+|\bb"), " "), pre=byte_level()),
    "whitespace": dict(pieces=True, pre=pre.Whitespace(), decoder=decoders.Fuse(), unknown=True),
    "whitespace split": dict(pieces=True, pre=pre.WhitespaceSplit(), decoder=decoders.Fuse(), unknown=True, fuse=True),
    "digits": dict(bytes=True, pre=pre.Sequence([pre.Digits(False), pre.Punctuation(), byte_level(False)])),
    "merged": dict(bytes=True, pre=pre.Sequence(
        [split(r"\w+", "merged_with_next"), split(r"\d", "merged_with_previous", True), split("e", "contiguous"),
         byte_level(False)])),
    "added": dict(bytes=True, normalizer=norm.Lowercase(), pre=byte_level(), added=[
        AddedToken("banana", single_word=True, normalized=False), AddedToken("Norm", normalized=True),
        AddedToken(" the", lstrip=True, rstrip=True), AddedToken("the", single_word=True, normalized=False),
        AddedToken("layer", rstrip=True, normalized=False)]),
}  # fmt: skip


def unigram(trained_on, vocabulary, fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre.Metaspace()
    tokenizer.train_from_iterator([trained_on], trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    pieces = [tuple(row) for row in json.loads(tokenizer.to_str())["model"]["vocab"]]
    pieces += [(f"<0x{byte:02X}>", 0.0) for byte in range(256 * fallback)]
    return models.Unigram(pieces, 0, fallback)


def word_piece(trained_on, vocabulary, family):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = family["normalizer"], family["pre"]
    tokenizer.train_from_iterator([trained_on], trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=[token.content for token in BERT], show_progress=False))
    return tokenizer.model


def merges(trained_on, vocabulary, f):
    pieces = f.get("pieces", False)
    fallback = pieces and not f.get("unknown", False)
    tokenizer = Tokenizer(models.BPE(ignore_merges=f.get("ignore_merges", False), byte_fallback=fallback,
                                     unk_token="<unk>" if pieces else None,
                                     fuse_unk=fallback or f.get("fuse", False)))  # fmt: skip
    tokenizer.normalizer = f.get("normalizer")
    # A SentencePiece model learns words, although its tokenizer.json does not split a text.
    tokenizer.pre_tokenizer = pre.Metaspace() if fallback else f.get("pre")
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))] if fallback else ["<unk>"] * pieces
    alphabet = pre.ByteLevel.alphabet() if f.get("bytes") and f.get("alphabet", True) else []
    trainer = trainers.BpeTrainer(vocab_size=vocabulary + len(first), initial_alphabet=alphabet, show_progress=False,
                                  special_tokens=first)
    tokenizer.train_from_iterator([trained_on], trainer)
    return tokenizer.model  # without the marks that the trainer puts on its special tokens


def built(trained_on, family, rules, vocabulary=500):
    """Returns the tokenizer of a family. `rules` are SentencePiece's, in its binary form."""
    f = dict(FAMILIES[family])
    if callable(f.get("normalizer")):
        f["normalizer"] = f["normalizer"](rules)
    if f.get("unigram"):
        whole = Tokenizer(unigram(trained_on, vocabulary, f.get("fallback", False)))
    elif f.get("word_piece"):
        whole = Tokenizer(word_piece(trained_on, vocabulary, f))
    else:
        whole = Tokenizer(merges(trained_on, vocabulary, f))
    whole.normalizer, whole.pre_tokenizer = f.get("normalizer"), f.get("pre")
    whole.decoder = f.get("decoder", decoders.ByteLevel())
    for token in f.get("added", []):
        whole.add_tokens([token]) if not token.special else whole.add_special_tokens([token])
    if template := f.get("template", f"{f['begin']} $A" if "begin" in f else None):
        names = [name for name in template.split() if name != "$A"]
        whole.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[(name, whole.token_to_id(name)) for name in names])  # fmt: skip
    if f.get("roberta"):
        whole.post_processor = processors.RobertaProcessing(
            ("</s>", whole.token_to_id("</s>")), ("<s>", whole.token_to_id("<s>")))  # fmt: skip
    return whole
