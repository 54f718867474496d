#!/usr/bin/env python3
"""Does the order of placements on generated stories predict their order on text that people wrote?

Placements with AdamW and with Muon on stories, tiny Shakespeare by characters and by byte-pair encoding, a dictionary
of English, and German help pages and manuals. A Llama of 6 layers x 64 channels; each cell tunes its rate and its
warm-up together on a separate seed, and five others follow. A part is one text with one optimizer. --keep trains only
parts that are not stored yet, --only those that it names, --stored none. Build with `make MARCH=x86-64-v3`: the runs
then have the same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy  # noqa: E402
from cells import TUNED, Cells  # noqa: E402
from common import Study, part_options, stats, table  # noqa: E402

MODEL = "--preset llama --layers 6 --channels 64 --heads 4 --context 64 --batch 4 --steps 800"
PLACEMENTS = {
    "pre": "placement=pre", "post": "placement=post", "sandwich": "placement=sandwich",
    "deepnorm": "placement=deepnorm", "reordered": "placement=reordered", "lns": "placement=lns",
    "mix-ln": "placement=mix-ln", "pre, LayerNorm": "placement=pre norm=layernorm", "none": "placement=none",
}
TEXTS = {  # label: (title, text, tokenizer)
    "stories": ("stories", "stories", "byte"),
    "characters": ("tiny Shakespeare, characters", "tinyshakespeare", "char"),
    "bpe": ("tiny Shakespeare, BPE", "tinyshakespeare", "bpe:1024"),
    "english": ("English", "english", "byte"),
    "german": ("German", "german", "byte"),
}
FIRST = "stories"
RESAMPLES = 2000
GRID = Cells(Path(__file__).parent, PLACEMENTS, "pre", {label: title for label, (title, *_) in TEXTS.items()})


def ranks(losses, draws):
    """Ranks of the mean losses of cells, and of those of each resample of the seeds."""
    values = losses.values
    means = [values.mean(axis=0), *(values[drawn].mean(axis=0) for drawn in draws)]
    return [stats.rankdata(mean) for mean in means]


def correlation(first, other):
    """Spearman's rank correlation of the mean losses on two texts, and the middle 95 % of a bootstrap over the seeds of
    both. Only cells whose runs all finished on both count."""
    both = [name for name in first if name in other]
    draws = numpy.random.default_rng(1).integers(0, len(first), (2, RESAMPLES, len(first)))
    pairs = zip(*(ranks(losses[both], drawn) for losses, drawn in zip((first, other), draws)), strict=True)
    found = [numpy.corrcoef(a, b)[0, 1] for a, b in pairs]
    low, high = numpy.percentile(found[1:], (2.5, 97.5))
    return len(both), found[0], low, high


def correlations():
    """Rows: a text with an optimizer, and how its order agrees with that on stories."""
    rows = []
    for part in GRID.stored():
        text, optimizer = GRID.parts()[part]
        beside = f"{FIRST}-{optimizer}"
        if text != FIRST and beside in GRID.stored():
            count, value, low, high = correlation(GRID.losses(beside), GRID.losses(part))
            rows.append([GRID.texts[text], TUNED[optimizer][0], count, f"{value:.2f} ({low:.2f} to {high:.2f})"])
    return rows


def published():
    """The picture and the tables in README.md, from the parts that are stored."""
    rows = correlations()
    order = table(rows, ["text", "optimizer", "cells", "rank correlation with stories"]) if rows else ""
    return GRID.published("Differences to Pre-LN on five texts with two optimizers", order)


def words_of(study, text):
    """Words that train on a text with its tokenizer."""
    _, name, tokenizer = TEXTS[text]
    return [*study.text_named(name), "--tokenizer", tokenizer]


def main():
    study = Study(__doc__, part_options(list(GRID.parts())))
    options = {part: GRID.options(part, MODEL) for part in GRID.parts()}
    for part in study.parts_to_train({part: {part: words} for part, words in options.items()}):
        text, _ = GRID.parts()[part]
        study.compare(part, options[part], text=words_of(study, text))
        study.publish(GRID.picture(), published())
    study.publish(GRID.picture(), published())


if __name__ == "__main__":
    main()
