"""Markdown pages as lists of blocks, parsed by markdown-it-py as GitHub parses them."""

import unicodedata
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
KINDS = {"heading_open": "heading", "paragraph_open": "paragraph", "table_open": "table", "fence": "code",
         "code_block": "code", "html_block": "html"}


@dataclass
class Block:
    kind: str  # heading, paragraph, table, code or html
    line: int  # the first line in the file, counted from 1
    text: str  # a heading's words, the lines inside a fence, or the lines of the page
    info: str = ""  # a heading's level as "h2", or the language of a code block
    inlines: list[Token] = field(default_factory=list)  # the parser's tokens: one per paragraph, heading or table cell

    @property
    def is_comment(self):
        return self.kind == "html" and self.text.startswith("<!--")


def shown(inline):
    """The text that a reader sees, with code in backticks and line breaks as spaces."""
    pieces = {"softbreak": " ", "hardbreak": " "}
    return "".join(f"`{t.content}`" if t.type == "code_inline" else pieces.get(t.type, t.content)
                   for t in inline.children)


def parse_page(text):
    """The blocks of a page, in order. Lists and quotations are flattened into their paragraphs."""
    lines, blocks = text.split("\n"), []
    for token in PARSER.parse(text):
        if token.type == "inline":
            block = blocks[-1]
            block.inlines.append(token)
            if block.kind == "heading":
                block.text = shown(token)
        elif token.type in KINDS:
            kind, (begin, end) = KINDS[token.type], token.map
            raw = token.content if kind == "code" else "\n".join(lines[begin:end]).strip()
            info = token.tag if kind == "heading" else token.info.strip()
            blocks.append(Block(kind, begin + 1, raw, info))
    return blocks


def anchors(blocks):
    """GitHub's anchors of the headings: lowercase letters, digits, - and _, with hyphens for spaces."""
    found, seen = [], {}
    for block in blocks:
        if block.kind != "heading":
            continue
        kept = [c for c in block.text.lower() if c in " -" or unicodedata.category(c) in ("Nd", "Pc") or
                unicodedata.category(c)[0] in "LM"]
        slug = "".join(kept).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
    return found
