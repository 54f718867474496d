"""The counter-based random numbers of layers/random.hpp, with Python's integers."""

import math

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix64's finaliser (Steele, Lea & Flood 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(*words):
    k = 0
    for word in words:
        k = mix((k + GOLDEN + mix((word + GOLDEN) & MASK)) & MASK)
    return k


def word(name):
    """FNV-1a."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def bits(key, counter):
    return mix((key + GOLDEN * (counter + 1)) & MASK)


def uniform(key, counter):
    return (bits(key, counter) >> 11) * 2.0**-53


def below(n, key, counter):
    return (bits(key, counter) * n) >> 64


def normal(key, counter):
    radius = math.sqrt(-2 * math.log(1 - uniform(key, 2 * counter)))
    return radius * math.cos(6.283185307179586 * uniform(key, 2 * counter + 1))
