"""The counter-based random numbers of layers/kernels/random.hpp in Python integers."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix64's finalizer (Steele, Lea & Flood 2014)."""
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


def below(n, key, counter):
    return (bits(key, counter) * n) >> 64
