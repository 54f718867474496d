"""Checks the Markdown of the pages:

    make check-markdown

Links lead to files and headings, tables have even rows, GitHub shows the formulas, quoted test cases exist, functions
are in the files that the page names, measurements name their command, and the page of a layer has its sections. Each
check first runs on the made-up pages of markdown_faults.py. The tests in test/project/test_pages.cpp check names and
commands, test_worked_*.cpp the worked numbers.
"""

import os
import re
import sys
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from markdown_faults import FAULTS, TREE
from markdown_page import anchors, parse_page, shown

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("build", "runs", "__pycache__")


class Tree:
    """Files of the project by path, with the text of those that a check reads, and the folders."""

    def __init__(self, files):
        self.files = files
        self.folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}

    def has(self, path):
        return path in self.files or path in self.folders


def read_tree():
    files = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_OUT and (name[0] != "." or name == ".ci")]
        for name in names:
            path = Path(folder, name)
            reads = path.suffix in (".md", ".cpp", ".hpp")
            files[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8") if reads else ""
    return Tree(files)


def is_page(path):
    return path == "README.md" or path.endswith("/README.md") or re.match(r"(layers|data)/.*\.md$", path)


# Each check yields (line, fault) for a page: its path, its blocks and the tree.

# ---- links ---------------------------------------------------------------------------------------


def targets(block):
    """(line, target) of links and pictures, in Markdown and in HTML."""
    markup = [(block.line, block.text)] if block.kind == "html" and not block.is_comment else []
    for inline in block.inlines:
        line = inline.map[0] + 1
        for token in inline.children:
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                yield line, unquote(target)
            if token.type == "html_inline":
                markup.append((line, token.content))
    for line, text in markup:
        for target in re.findall(r'(?:src|href)="([^"]*)"', text):
            yield line, target


def links(path, blocks, tree):
    for block in blocks:
        for inline in block.inlines:
            if any(token.type == "text" and "](" in token.content for token in inline.children):
                yield inline.map[0] + 1, "]( without a link: a target with a space, or without an end"
        for line, target in targets(block):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if name and not tree.has(file):
                yield line, f"a link to {target}: there is no {file}"
            elif anchor and anchor not in anchors(parse_page(tree.files.get(file, "")) if name else blocks):
                yield line, f"a link to {target}: {file} has no such heading"


# ---- tables and formulas -------------------------------------------------------------------------


def cells(row):
    row = re.sub(r"^\||(?<!\\)\|$", "", row.strip())
    return len(re.split(r"(?<!\\)\|", row))


def tables(path, blocks, tree):
    for block in blocks:
        rows = block.text.split("\n")
        if block.kind == "paragraph" and rows[0].startswith("|"):
            yield block.line, "no table: its second line must be |---|, with as many cells as the first"
        for number, row in enumerate(rows if block.kind == "table" else []):
            if cells(row) != cells(rows[0]):
                yield block.line + number, f"a row of {cells(row)} cells in a table of {cells(rows[0])}"


def fault_of_tex(tex):
    bare = re.sub(r"\\.", "", tex, flags=re.DOTALL)
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        if depth < 0:
            break
    if depth:
        return "braces do not balance"
    if len(re.findall(r"\\left(?!arrow)", tex)) != len(re.findall(r"\\right(?!arrow)", tex)):
        return r"\left and \right do not balance"
    if r"\operatorname" in tex:
        return r"GitHub has no \operatorname: write \mathrm"
    return None


CODE = re.compile(r"(?<![`$])(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
FORMULA = re.compile(r"(?<!\\)(?:\$\$(?P<block>.+?)\$\$|\$`(?P<raw>.+?)`\$|\$(?P<plain>[^$`].*?)\$)", re.DOTALL)


def faults_of_inline(inline):
    """Between plain dollars GitHub parses Markdown first (github/markup issue 1575): it takes the \\ from \\{ and \\,
    and reads two _ or * as emphasis. ```math and $`...`$ are safe."""
    text = CODE.sub(lambda code: "x" * len(code[0]), inline.content)
    visible = " ".join(shown(inline).split())
    changed = []
    for found in FORMULA.finditer(text):
        tex = found[found.lastgroup]
        yield fault_of_tex(tex)
        if found.lastgroup == "raw":
            continue
        if " ".join(found[0].split()) not in visible:
            changed.append(tex)
        if re.search(r"<[A-Za-z]", tex):
            yield "GitHub reads < and a letter as HTML: put a space between them"
        if found.lastgroup == "plain" and re.search(r"(?:[\w-]|[^\x00-\x7f])\Z", text[:found.start()]):
            yield "GitHub sees no formula right after a letter, digit or hyphen"
        if found.lastgroup == "plain" and tex != tex.strip():
            yield "GitHub sees no formula with a space at its edge"
    if changed:
        yield rf"GitHub changes {', '.join(changed)}: write \hat x_i for \hat{{x}}_i, ```math or $`...`$"
    if re.search(r"(?<!\\)\$", FORMULA.sub("", text)):
        yield "a formula begins with $ and does not end"


def formulas(path, blocks, tree):
    for block in blocks:
        if block.info == "math" and (fault := fault_of_tex(block.text)):
            yield block.line, fault
        for inline in block.inlines:
            yield from ((inline.map[0] + 1, fault) for fault in faults_of_inline(inline) if fault)


# ---- test cases, functions and measurements ------------------------------------------------------

FILE = r"(?P<file>test/[\w/]*test_\w+\.cpp)"
QUOTED = (re.compile(FILE + r'[`),: (\n]*"(?P<name>[^"]*)"'),
          re.compile(r'"(?P<name>[^"]*)"(?:[ \n]in)?[`\[(, \n]*' + FILE))


def test_cases(path, blocks, tree):
    for block in blocks:
        for quoted in (found for form in QUOTED for found in form.finditer(block.text if block.inlines else "")):
            name = " ".join(quoted["name"].split())
            if f'TEST_CASE("{name}"' not in tree.files.get(quoted["file"], f'TEST_CASE("{name}"'):
                yield block.line, f'{quoted["file"]} has no TEST_CASE "{name}"'


FUNCTION = re.compile(r"`(?P<name>\w+)(?:\(\))?` (?:\(|in )`(?P<file>[\w/]+\.[ch]pp)`")


def functions(path, blocks, tree):
    """`name` (`file`) or `name` in `file`: the file, seen from the page, from layers/ or from the top, has the name."""
    for block in blocks:
        for named in FUNCTION.finditer(block.text if block.inlines else ""):
            found = [name for start in (os.path.dirname(path), "layers", "") if
                     (name := os.path.normpath(os.path.join(start, named["file"]))) in tree.files]
            if not found:
                yield block.line, f"there is no {named['file']}"
            elif not re.search(rf"\b{named['name']}\b", tree.files[found[0]]):
                yield block.line, f"{found[0]} has no {named['name']}"


UNITS = ("GB/s", "GFLOP/s", "TFLOP/s", "tokens/s", "tokens a second", "times as fast", "times the speed",
         "times faster", "ms", "µs", "ns", "% of the peak")
UNIT = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(UNITS)})(?![A-Za-z])")


def has_measurement(block):
    if block.kind == "heading" or block.is_comment or block.info == "cpp":
        return False
    return UNIT.search(block.text) and re.search(r"\d", block.text)


def measurements(path, blocks, tree):
    """A line "Measured with `COMMAND`" follows each measured figure, before the next heading."""
    if not path.startswith("layers/"):
        return
    missing = "a measured figure; the line \"Measured with `COMMAND`\" below it is missing"
    waiting = []
    for block in blocks:
        if block.kind == "heading":
            yield from ((line, missing) for line in waiting)
            waiting = []
        if has_measurement(block):
            waiting.append(block.line)
        found = re.search(r"^Measured with `([^`]*)`", block.text, re.MULTILINE) if block.inlines else None
        if found:
            waiting = []
            words = found[1].split()
            if words[0] != "make" and not any(word.split("/")[-1] == "train_gpt" for word in words[:-1]):
                yield block.line, f"{found[1]}: no command of make or train_gpt"
    yield from ((line, missing) for line in waiting)


# ---- the page of a layer -------------------------------------------------------------------------

SECTIONS = ["What it is for", "Shapes", "Forward", "Backward", "By hand", "The code", "The fast version", "Traps",
            "Exercises"]
ANSWER = "<details><summary>Answer</summary>"


def is_layer(blocks):
    return any(block.is_comment and block.text.startswith("<!-- listing: layers/textbook/") for block in blocks)


def headings(blocks):
    if sum(block.info == "h1" for block in blocks) != 1:
        yield 1, "it has no title, or several"
    for block, after in zip(blocks, blocks[1:]):
        if block.kind == after.kind == "heading" and block.info == after.info:
            yield block.line, f"nothing below {block.text}"
    found = [block.text for block in blocks if block.info == "h2"]
    if found != SECTIONS:
        yield 1, f"its sections are {', '.join(found)}; a layer's page has {', '.join(SECTIONS)}"


def exercises(blocks):
    """Three times: an exercise, <details><summary>Answer</summary>, a blank line (GitHub needs it), </details>."""
    answers, texts, below, inside = 0, 0, False, False  # texts: blocks since the last <details> or </details>
    for block in blocks:
        if block.info == "h2":
            below = block.text == "Exercises"
        if not below or block.kind == "heading":
            continue
        begins, ends = "<details>" in block.text, block.text.endswith("</details>")
        if begins and (block.text != ANSWER or inside):
            yield block.line, f"an answer begins with {ANSWER} and a blank line"
        if ends and not inside:
            yield block.line, "</details> ends nothing"
        if texts == 0 and (begins or block.text == "</details>"):
            yield block.line, "an answer without an exercise" if begins else "an empty answer"
        answers += begins
        inside = begins or (inside and not ends)
        texts = 0 if block.text == ANSWER or ends else texts + 1
    if answers != 3 or inside:
        yield 1, f"{answers} answers to exercises, not three"


def layers(path, blocks, tree):
    if not is_layer(blocks):
        return
    yield from headings(blocks)
    yield from exercises(blocks)
    for block in blocks:
        if block.kind == "paragraph" and re.fullmatch("[A-Z]+", block.text):
            yield block.line, f"nothing but {block.text}"
    if ".md)" not in blocks[-1].text:
        yield 1, "its last line does not lead to another page"


def worked(path, blocks, tree):
    name = re.sub(r"^layers/|\.md$", "", path)
    room, _, page = name.rpartition("/")
    test = f"test/layers/{room}/test_worked_{page}.cpp"
    if any(block.text == "<!-- worked -->" for block in blocks) and f'"{name}"' not in tree.files.get(test, ""):
        yield 1, f"an example, and no {test} that reads this page"


# --------------------------------------------------------------------------------------------------

CHECKS = (links, tables, formulas, test_cases, functions, measurements, layers, worked)


def misjudged(check):
    """Made-up pages that have one fault and are not found to, or have none and are."""
    tree = Tree(TREE)
    for wanted, pages in zip((1, 0), FAULTS[check.__name__]):
        for text in pages:
            faults = list(check("layers/norm/norm.md", parse_page(text), tree))
            if len(faults) != wanted:
                yield f"{check.__name__}: {wanted} wanted in {text!r}, found: {faults}"


def main():
    tree, failed = read_tree(), 0
    pages = {path: parse_page(text) for path, text in sorted(tree.files.items()) if is_page(path)}
    faults = [] if any(map(is_layer, pages.values())) else ["no page of a layer is found"]
    for check in CHECKS:
        found = list(misjudged(check))
        for path, blocks in pages.items():
            found += [f"{path}:{line}: {fault}" for line, fault in check(path, blocks, tree)]
        failed += bool(found)
        faults += found
    print("\n".join(faults + [f"{len(CHECKS) - failed} passed, {failed} failed"]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
