"""Made-up pages for the checks of check_markdown.py: with one fault each, and without any. Each is checked as
layers/norm/norm.md of a made-up tree."""

TREE = {
    "README.md": "# Top\n## Two words\n## Two words\n",
    "layers/norm/norm.hpp": "void norm_forward();",
    "layers/textbook/norm.hpp": "",
    "test/layers/norm/test_norm.cpp": 'TEST_CASE("a norm is right", "[norm]") {}\n',
    "test/layers/norm/test_worked_norm.cpp": 'WorkedPage page("norm");\n',
    "test/reference/norm/one.x.npy": "",
}

BY_BENCH = "\n\nMeasured with `make bench ARGS=norm`: 2 cores."
ANSWER = "\n\n<details><summary>Answer</summary>\n\nYes.\n\n</details>\n\n"
SECTIONS = "".join(f"## {name}\n\nx\n\n" for name in (
    "What it is for", "Shapes", "Forward", "Backward", "By hand", "The code", "The fast version", "Traps"))
LAST = "[next](norm.md)\n"
LISTING = "<!-- listing: layers/textbook/norm.hpp -->\n```cpp\n```\n"
LAYER = f"# T\n\n{LISTING}\n{SECTIONS}## Exercises\n\n1. Why?{ANSWER}2. How?{ANSWER}3. When?{ANSWER}{LAST}"


def layer(part, other=""):
    """The page of a layer with another text at the first place of a part."""
    assert part in LAYER
    return LAYER.replace(part, other, 1)


FAULTS = {  # check → (pages with one fault, pages without)
    "links": (
        ["[x](norm.cpp)", "text [x\ny](../../nothing) text", "![x](../../dev/p.png)", '<img src="x.png">',
         'a <a href="x.md">b</a>', "[x](#forward)", "[x](../../README.md#two)", "[x](../../README.md#two-words-2)",
         "| [x](none.md) | y |", "| a |\n|---|\n| [x](none.md) |", "- a\n  - [x](none.md)", "[x](norm.hpp x)",
         "# [x](none.md)", "[x][1]\n\n[1]: none.md"],
        ["[x](norm.hpp)", "[x](../../README.md#two-words-1)", "# A γ-word: x\n[x](#a-γ-word-x)",
         "[x](https://x.org/none)", "`[x](none)`", "```\n[x](none)\n```", "[x](../textbook)",
         "[x](../../test/reference/)", "<!-- [x](none) -->", "# `a_b` of x₂\n[x](#a_b-of-x)"]),
    "tables": (
        ["| a | b |\n|---|---|\n| 1 |", "| a | b |\n|---|---|\n| 1 | 2 | 3 |", "| a |\n|---|\n| `x|y` |",
         "| a | b |\n|---|\n| 1 | 2 |"],
        ["| a | b |\n|---|---|\n| 1 | |\n| `x\\|y` | 2 |", "```\n| a | b |\n| c |\n```"]),
    "formulas": (
        ["$x", "$$x", "$`x$", r"$\frac{1}{n$", "```math\n\\frac{1}{n\n```", r"$\left( x )$", r"$\operatorname{Re} x$",
         r"$\{x\}$", r"$a\,b$", "$a<b$", "a$x$", "a $ x$ b", r"$\hat{x}_{i} = \hat{y}_{j}$",
         "$\\hat{x}_i$ and\n$a_{j}$", "$x^*$ and $y^*$", "| $x |", "# $x", "| a |\n|---|\n| $x |"],
        ["$x$", "$$\n\\hat x_i = \\frac{a_{i}}{b_{i}}\n$$", r"$`\{x\}`$", "```math\n\\{\\hat{x}_i, \\hat{y}_j\\}\n```",
         "`$x`", "```\n$x\n```", "$\\hat{x}_i$\n\n$\\hat{y}_j$", "$\\hat{x}_i$\n- $\\hat{y}_j$", "$a < b$", r"\$5",
         r"$\left( x \right)$"]),
    "test_cases": (
        ['`test/layers/norm/test_norm.cpp`, "a norm is wrong"', '`test/layers/norm/test_norm.cpp` ("a norm is\nwrong")',
         '"a norm is wrong" in `test/layers/norm/test_norm.cpp`'],
        ['`test/layers/norm/test_norm.cpp`, "a norm is right"', '`test/layers/norm/test_norm.cpp` ("a norm\nis right")',
         '"a norm is right" (`test/layers/norm/test_norm.cpp`)', '"this" is not in `test/layers/norm/test_norm.cpp`']),
    "functions": (
        ["`forward` (`norm/norm.hpp`)", "1. `norm_backward` (`norm.hpp`)", "`norm_forward` in `norm/none.hpp`"],
        ["`norm_forward` (`norm/norm.hpp`)", "`norm_forward()` in `layers/norm/norm.hpp`",
         "`norm_forward` (`norm.hpp`)"]),
    "measurements": (
        ["It reads 30 GB/s.", "3 ms", "2 times as fast", "| GFLOP/s |\n|---|\n| 7 |", "```text\nrung 0   3 µs\n```",
         "3 ms\n\n## Next" + BY_BENCH, "3 ms\n\nMeasured with `ls`", "3 ms. Measured with `make bench`",
         "3 ms" + BY_BENCH + "\n\n4 ms"],
        ["It reads 30 GB/s." + BY_BENCH, "3 ms\n\nand 4 ms" + BY_BENCH, "3 ms\nMeasured with `make bench`", "GB/s",
         "3 norms, 5 items", "```cpp\nfloat ms = 3;\n```", "3 ms\n\nMeasured with `build/train_gpt train --steps 9`"]),
    "layers": (
        [layer("# T\n"), "# S\n\nx\n\n" + LAYER, layer("## Shapes\n\nx\n\n"), layer("## Forward", "## Fwd"),
         layer("## Traps\n\nx\n\n", "## Traps\n\n"), LAYER + "\n## More\n\n" + LAST, layer("2. How?" + ANSWER),
         layer("2. How?"), layer("Answer"), layer("Yes.\n\n"), layer(LAST),
         layer("</summary>\n\nYes.", "</summary>\nYes."), layer("x\n\n", "x\n\nBENCH\n\n"),
         layer("</details>\n\n" + LAST, LAST)],
        [LAYER, "no layer", layer("x\n\n", "x\n\n### y\n\nx\n\n"), layer("x\n\n", "```\nBENCH\n```\n"),
         layer("x\n\n", "BENCH is\nONE\n\n")]),
    "worked": (
        ["<!-- worked -->\n```text\nx = 1\n```"],
        ["no example"]),
}
