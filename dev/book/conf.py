"""Sphinx's configuration of the book. Its source folder is the whole project; its pages are the project's Markdown.

What GitHub shows in its own way is translated here:

    $`...`$ and ```math                 formulas, as MathML: no script and no network
    [name](norm.cpp), `norm.cpp`        links to pages that show the source, with numbered lines
    <!-- listing: FILE SECTION -->      a link to the lines that the block below shows
    <!-- scene: NAME -->                a frame with a scene of the playground, if that has been built
    lists of links in index.md          the order of the chapters
"""

import html
import json
import posixpath
import re
import shutil
from pathlib import Path

from docutils import nodes
from math_core import LatexToMathML
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.builders.html import StandaloneHTMLBuilder

ROOT = Path(__file__).resolve().parents[2]
INDEX = "dev/book/index"
PLAYGROUND = ROOT / "build/playground.html"
MATH_FONT = Path("/usr/share/texmf/fonts/opentype/public/tex-gyre-math/texgyretermes-math.otf")  # fonts-texgyre-math

project = "Train a transformer by hand"
html_title = project
copyright = "the authors of train_gpt. MIT license"
root_doc = INDEX
extensions = ["myst_parser"]
include_patterns = ["README.md", "layers/**.md", "data/**.md", "dev/**.md", "test/README.md", "python_ref/README.md"]
exclude_patterns = ["build", "runs", ".*", "dev/CHANGELOG.md", "dev/book/README.md", "dev/paper/paper.md",
                    "dev/paper/archive.md"]
suppress_warnings = ["toc.not_included"]  # a page may be reached by links alone
nitpicky = True
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "source": None}
highlight_language = "text"

html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["book.css"]
html_css_files = ["book.css"]
if MATH_FONT.exists():
    html_static_path.append("math.css")
    html_css_files.append("math.css")
html_math_renderer = "mathml"
html_use_index = False
html_copy_source = False
html_show_sphinx = False

# ---- Files of the project ----------------------------------------------------------------------------------

SHOWN = re.compile(r"\.(md|cpp|hpp|c|py|sh|awk|toml|txt|css|js|mk)$|^(Makefile|LICENSE)$")


def files_of(folder):
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in (".git", ".venv", "__pycache__", "build", "runs"):
            yield from files_of(path)
        elif path.is_file():
            yield path.relative_to(ROOT).as_posix()


FILES = set(filter(SHOWN.search, files_of(ROOT)))
FOLDERS = {str(folder) for file in FILES for folder in Path(file).parents} - {"."}
shown = {file for file in FILES if re.match(r"(layers|python_ref|dev/ladder)/.*\.(cpp|hpp|py)$", file)}


def lines_of(file):
    return (ROOT / file).read_text(encoding="utf-8").split("\n")


def page_of(path):
    """The page that shows a file or a folder."""
    return f"source/{path}/index" if path in FOLDERS else f"source/{path}"


def find(path, docname):
    """The file or folder that a page means by `path`; None if there is none."""
    for base in (posixpath.dirname(docname), ""):
        found = posixpath.normpath(posixpath.join(base, path))
        if found in FILES or found in FOLDERS:
            return found
    return None


# ---- Markdown ----------------------------------------------------------------------------------------------


def source_link(mark):
    """The link above a listing or an excerpt, whose mark dev/pages.sh explains."""
    kind, file, text = mark.groups()
    wanted = f"// ---- {text} -" if kind == "listing" else text
    line = next((n for n, line in enumerate(lines_of(file), 1) if text and wanted in line), 1)
    return f"[{file}, line {line}](source:{file}#L-{line})\n"


SCENE = """
<details class="scene" ontoggle="let frame = this.querySelector('iframe');
  frame.src = this.open ? frame.dataset.src : 'about:blank'"><summary>Run it here: {title}</summary>
<p><a href="{page}">On a page of its own</a></p><iframe title="{title}" data-src="{page}"></iframe></details>
"""
TITLES = dict(re.findall(r'id: "([\w-]+)", title: "([^"]+)"', (ROOT / "dev/playground/scenes.js").read_text("utf-8")))


def scene(mark):
    """A frame that is loaded while it is open."""
    page = f"@top@playground.html#scene={mark[1]}"
    return SCENE.format(title=TITLES[mark[1]], page=page) if PLAYGROUND.exists() else ""


def chapters(text):
    """Adds a table of contents to the index: a part for each heading, a chapter for each item of its lists."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        pages = re.findall(r"^- \[[^]]*\]\(([^)]+)\.md\)", part, re.M)
        if pages:
            lines = [f":caption: {part.splitlines()[0]}", ":hidden:", ":maxdepth: 2", "", *pages]
            text += "\n```{toctree}\n" + "\n".join(lines) + "\n```\n"
    return text


def prepare(app, docname, source):
    def link(match):
        path, hash, anchor = match[1].partition("#")
        found = None if re.match(r"\w+:", path) or not path else find(path, docname)
        if found in FOLDERS and f"{found}/README" in app.env.found_docs:
            return f"]({posixpath.relpath(found, posixpath.dirname(docname))}/README.md)"
        if not found or posixpath.splitext(found)[0] in app.env.found_docs:
            return match[0]
        return f"](source:{found}{hash}{anchor})"

    def prose(text):
        text = re.sub(r"\$`([^`]+)`\$", r"$\1$", text)
        text = re.sub(r"\]\(([^()\s]+)\)", link, text)
        text = re.sub(r"^<!-- (listing|excerpt): (\S+) ?(.*?) *-->\n", source_link, text, flags=re.M)
        return re.sub(r"^<!-- scene: (\S+) -->\n", scene, text, flags=re.M)

    # The theme has its own links to the previous and the next chapter.
    text = re.sub(r"\n---\s*Previous: .*\Z", "\n", source[0], flags=re.S)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    text = "".join(part if part.startswith("```") else prose(part) for part in parts)
    source[0] = chapters(text) if docname == INDEX else text


# ---- Links to sources --------------------------------------------------------------------------------------


def resolve(app, doctree, docname):
    def address(path, anchor=""):
        shown.add(path)
        base = app.builder.get_target_uri(docname)
        return posixpath.relpath(app.builder.get_target_uri(page_of(path)), posixpath.dirname(base)) + anchor

    for reference in doctree.findall(nodes.reference):
        if reference.get("refuri", "").startswith("source:"):
            path, hash, anchor = reference["refuri"].removeprefix("source:").partition("#")
            reference["refuri"], reference["internal"] = address(path, hash + anchor), True
            if anchor:
                reference.parent["classes"].append("listing")
    for literal in list(doctree.findall(nodes.literal)):
        path = literal.astext().rstrip("/")
        found = find(path, docname) if re.search(r"[./]", path) else None
        inside = isinstance(literal.parent, nodes.reference) or any(
            isinstance(node, nodes.title) for node in (literal.parent, literal.parent.parent))
        if not found or inside or found.endswith(".md") or found == ".":
            continue
        reference = nodes.reference("", "", refuri=address(found), internal=True)
        literal.replace_self(reference)
        reference += literal
    for raw in doctree.findall(nodes.raw):
        if "@top@" in raw.astext():
            top = "../" * app.builder.get_target_uri(docname).count("/")
            raw.children[0] = nodes.Text(raw.astext().replace("@top@", top))


def highlighted(app, file):
    text = (ROOT / file).read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(file).aliases[0]
    except (ClassNotFound, IndexError):
        lexer = "text"
    # force, because a token that a lexer does not know is no fault in the source.
    code = app.builder.highlighter.highlight_block(text, lexer, force=True, linenos="inline", lineanchors="L",
                                                   anchorlinenos=True)

    def include(match):
        included = find(match[1], file)
        if included not in FILES:
            return match[0]
        shown.add(included)
        target = posixpath.relpath(app.builder.get_target_uri(page_of(included)), posixpath.dirname(page_of(file)))
        return f'&quot;<a href="{target}">{match[1]}</a>&quot;'

    return re.sub(r"&quot;([\w/.]+)&quot;", include, code)


def listed(app, folder):
    items = []
    for path in sorted(FILES | FOLDERS):
        if posixpath.dirname(path) == folder and not path.endswith(".md"):
            shown.add(path)
            target = posixpath.relpath(app.builder.get_target_uri(page_of(path)), f"source/{folder}")
            items.append(f'<li><a href="{target}">{html.escape(posixpath.basename(path))}</a></li>')
    return f"<ul>{''.join(items)}</ul>"


def source_pages(app):
    done = set()
    while shown - done:
        path = min(shown - done)
        done.add(path)
        show = listed if path in FOLDERS else highlighted
        body = f'<h1 class="source">{html.escape(path)}</h1>\n{show(app, path)}'
        yield page_of(path), {"title": path, "body": body, "parents": []}, "page.html"


# ---- Formulas ----------------------------------------------------------------------------------------------

CONVERTER = LatexToMathML(fancy_error=False)


def formula(translator, node, display):
    mathml = CONVERTER.convert_with_local_state(node.astext().strip(), displaystyle=display)
    translator.body.append(f'<div class="formula">{mathml}</div>' if display else mathml)
    raise nodes.SkipNode


# ---- The site ----------------------------------------------------------------------------------------------


class Book(StandaloneHTMLBuilder):
    """The index of the book is the index of the site."""

    def get_target_uri(self, docname, typ=None):
        return super().get_target_uri("index" if docname == INDEX else docname, typ)

    def get_outfilename(self, pagename):  # before Sphinx 8.2
        return super().get_outfilename("index" if pagename == INDEX else pagename)

    def get_output_path(self, page_name):
        return super().get_output_path("index" if page_name == INDEX else page_name)


def add_files(app, exception):
    if exception:
        return
    for file, copy in [(PLAYGROUND, "playground.html"), (MATH_FONT, "_static/math.otf")]:
        if file.exists():
            shutil.copy(file, app.outdir / copy)
    index = posixpath.relpath("index.html", posixpath.dirname(INDEX))  # the search knows the index by its source
    page = app.outdir / f"{INDEX}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={index}">\n', encoding="utf-8")
    texts = {f"./{docname}.html": text_of(app.outdir / app.builder.get_target_uri(docname))
             for docname in sorted(app.env.found_docs)}
    (app.outdir / "_static/texts.js").write_text(TEXTS.replace("TEXTS", json.dumps(texts)), encoding="utf-8")


# The search shows some text of each page it finds. It fetches the page for that, which file:// forbids.
TEXTS = """const texts = TEXTS;
window.fetch = async (page) => ({ text: async () => texts[page] });
"""


def text_of(page):
    """The text of a page. The search looks for the sections by their elements, so these stay."""
    main = re.search(r'<article role="main".*?</article>', page.read_text(encoding="utf-8"), re.S)[0]
    main = re.sub(r'<a class="headerlink".*?</a>|<annotation.*?</annotation>', "", main, flags=re.S)
    text = re.sub(r"<(?!/?section)[^>]*>", "", main)
    return f'<div role="main">{text}</div>'


def add_texts(app, pagename, template, context, doctree):
    if pagename == "search":
        app.add_js_file("texts.js")


def setup(app):
    app.add_builder(Book, override=True)
    app.add_html_math_renderer("mathml", (lambda self, node: formula(self, node, False), None),
                               (lambda self, node: formula(self, node, True), None))
    app.connect("source-read", prepare)
    app.connect("doctree-resolved", resolve)
    app.connect("html-collect-pages", source_pages)
    app.connect("html-page-context", add_texts)
    app.connect("build-finished", add_files)
