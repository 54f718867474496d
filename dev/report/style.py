"""Name, color, dash and marker of each cell, shared by the page, the pictures, `watch` and the studies."""

from dataclasses import dataclass, replace

# Okabe & Ito's colors, which color-blind readers can distinguish, without yellow and black. More follow for placements
# that rarely appear together. The second of each pair has the same hue, lighter, for a dark page.
COLORS = (("#0072B2", "#56A8DE"), ("#D55E00", "#F08A45"), ("#009E73", "#35C29B"), ("#B5568F", "#DD8FBD"),
           ("#C98A00", "#E8B23F"), ("#3A9BD0", "#8CCBEF"), ("#5F6670", "#A4ACB7"),
           ("#6B4CB3", "#A890E6"), ("#A3123A", "#E8668C"), ("#7B4B1E", "#C29468"), ("#75800A", "#B9C548"),
           ("#0B5D66", "#56AEB8"), ("#7CC62F", "#B4EB7A"))
IN_TURN = 7  # colors used for numbered cells
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon")

# A placement has the same color in every report and study.
PLACEMENTS = {"pre": 0, "post": 1, "sandwich": 2, "peri": 2, "deepnorm": 3, "reordered": 4, "olmo2": 4, "none": 6,
              "lns": 5, "glm-deepnorm": 7, "pre-post": 8, "mix-ln": 9, "sub-ln": 10, "layerscale": 11, "rezero": 12,
              "hyper": 7, "hyper-static": 10, "mhc": 11, "mhc-read": 5, "mhc-mean": 9,
              "hyper-independent": 8, "gated-residual": 4, "resi-dual": 12, "keel": 9, "hybridnorm": 5,
              "hybridnorm-star": 7, "b2t": 10, "normformer": 11, "gpas": 9, "admin": 10, "siamese": 8,
              "attnres": 4, "attnres-normed": 11, "ngpt": 5}
NORMS = {"layernorm": 0, "rmsnorm": 1}


@dataclass
class Style:
    light: str
    dark: str
    dash: str
    marker: str


def style(color, dash):
    light, dark = COLORS[color]
    return Style(light, dark, DASHES[dash % len(DASHES)], MARKERS[color % len(MARKERS)])


def by_number(index):
    return style(index % IN_TURN, index // IN_TURN)


def styles_of_sizes(cells):
    """Color stands for all other keys and dash for the size; None if sizes do not differ or colors do not suffice."""
    sizes = list(dict.fromkeys(cell.get("size") for cell in cells))
    others = [{key: value for key, value in cell.items() if key != "size"} for cell in cells]
    kinds = [kind for i, kind in enumerate(others) if kind not in others[:i]]
    if len(sizes) < 2 or len(kinds) > IN_TURN:
        return None
    looks = styles(kinds)
    if len({look.light for look in looks}) < len(looks):
        looks = [by_number(i) for i in range(len(kinds))]
    return [replace(looks[kinds.index(other)], dash=DASHES[sizes.index(cell.get("size")) % len(DASHES)])
            for cell, other in zip(cells, others)]


def styles(cells):
    """cells: [{key: value}]. Color stands for the placement and dash for the norm if that distinguishes all cells."""
    if looks := styles_of_sizes(cells):
        return looks
    chosen = []
    for cell in cells:
        placement, norm = cell.get("placement"), cell.get("norm") or "layernorm"
        if placement not in PLACEMENTS or norm not in NORMS:
            break
        chosen.append((PLACEMENTS[placement], NORMS[norm]))
    if len(chosen) == len(cells) == len(set(chosen)):
        return [style(color, dash) for color, dash in chosen]
    return [by_number(i) for i in range(len(cells))]


def said(key, value):
    """A value for a label: words alone, numbers after their key."""
    if value in ("true", "false"):
        return key if value == "true" else f"no {key}"
    if value == "none":  # "none" alone would be unclear
        return "no norm" if key == "placement" else f"no {key}"
    return value if value[:1].isalpha() else f"{key} {value}"


def label(cell, fallback):
    """pre · rmsnorm · layers 6"""
    return " · ".join(said(key, value) for key, value in cell.items() if value) or fallback
