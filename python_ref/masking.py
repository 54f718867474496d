"""Masked language modeling (BERT, Devlin et al. 2019, arXiv 1810.04805, §3.1) as data/text/masking.hpp does it, with
the same random numbers: what a model reads in `eval`, and what it is to predict.
"""

import rng


def masked_among(n, fraction):
    return max(1, int(n * fraction + 0.5)) if n else 0


def masked(tokens, mask, special, vocabulary, fraction, key):
    """-> tokens, targets; -1 in targets is ignored. `special` tokens are never hidden and never drawn."""
    tokens, targets = list(tokens), [-1] * len(tokens)
    places = [i for i, token in enumerate(tokens) if token not in special]
    chosen = rng.key(key, rng.word("places"))
    for i in range(masked_among(len(places), fraction)):
        j = i + rng.below(len(places) - i, chosen, i)
        places[i], places[j] = places[j], places[i]
        at = places[i]
        targets[at] = tokens[at]
        own = rng.key(key, rng.word("replace"), at)
        chance = (rng.bits(own, 0) >> 11) * 2.0**-53
        if chance < 0.8:
            tokens[at] = mask
        elif chance < 0.9:
            drawn, draw = rng.key(own, rng.word("token")), 0
            while (token := rng.below(vocabulary, drawn, draw)) in special:
                draw += 1
            tokens[at] = token
    return tokens, targets


def validation_key(start):
    """Of the window that begins at this token of the text, at the begin of its row."""
    return rng.key(rng.key(rng.word("mask"), start), 0)
