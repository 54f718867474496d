#!/usr/bin/env python3
"""Writes texts that people wrote, from Debian packages that any machine can download:

    python dev/studies/texts.py [english] [german] [--out build/texts]

english.txt, 32 MB, is the GNU Collaborative International Dictionary of English (Webster 1913 and WordNet):
definitions, etymologies and quotations. german.txt, 12 MB, has the help of LibreOffice, the Debian Administrator's
Handbook and the manual pages. apt-get downloads the packages of Debian 12 and need not be root. A text that has not the
hash below comes from other versions of the packages, and is not written.
"""

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Text: (sha256, [(package, the folder or file to read)]).
TEXTS = {
    "english": ("a8d971c74d235157b5aa9f64f0bbe2e7cb1630ec760aa85bca007a547c36d0c1",
                [("dict-gcide", "usr/share/dictd/gcide.dict.dz")]),
    "german": ("d82391c7db93364c957c3d295158d1c02a1b3c4c8caecb5de1121f3eca45741e",
               [("libreoffice-help-de", "usr/share/libreoffice/help/de/text"),
                ("debian-handbook", "usr/share/doc/debian-handbook/html/de-DE"), ("manpages-de", "usr/share/man/de")]),
}
# A text that no package has. Fetch data/tinyshakespeare/input.txt of github.com/karpathy/char-rnn yourself.
SHAKESPEARE = ROOT / "build" / "texts" / "tinyshakespeare.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def files_of(package, folder):
    """The files of a package, {path: bytes}."""
    done = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"texts: apt-get cannot download {package}: {done.stderr.strip().splitlines()[-1]}")
    deb = next(folder.glob(f"{package}_*.deb"))
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(tar)) as files:
        return {member.name.removeprefix("./"): files.extractfile(member).read() for member in files if member.isfile()}


class Paragraphs(HTMLParser):
    """The text of headings, paragraphs, list items and table cells. Code and menus are left out."""

    BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "dt", "dd", "td", "th"}
    LEFT_OUT = {"script", "style", "head", "header", "aside", "nav", "pre", "footer"}

    def __init__(self):
        super().__init__()
        self.lines, self.words, self.outside = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.outside += tag in self.LEFT_OUT
        if tag in self.BLOCKS:
            self.end_line()

    def handle_endtag(self, tag):
        self.outside -= tag in self.LEFT_OUT and self.outside > 0
        if tag in self.BLOCKS:
            self.end_line()

    def handle_data(self, data):
        if not self.outside:
            self.words.append(data)

    def end_line(self):
        line = " ".join("".join(self.words).split())
        if line:
            self.lines.append(line)
        self.words = []


def of_html(data):
    parser = Paragraphs()
    parser.feed(data.decode("utf-8", "replace"))
    parser.close()
    parser.end_line()
    return "\n".join(parser.lines)


SOURCE = re.compile(r"\[[^\]]*(?:Webster|WordNet|PJC|RH|AS)[^\]]*\]")  # who wrote an entry


def of_dictionary(data):
    """Entries without their indentation, their sources and the notices before the first."""
    text = gzip.decompress(data).decode("utf-8", "replace")
    text = text[text.index("\nA \\A\\"):]
    lines = (SOURCE.sub("", line).strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


ESCAPES = {r"\-": "-", r"\(en": "–", r"\(em": "—", r"\(lq": "„", r"\(rq": "“", r"\(bu": "•", r"\&": "", r"\ ": " ",
           r"\e": "\\", r"\(bq": "‚", r"\(cq": "‘", r"\(aq": "'", r"\(dq": '"', r"\(Fo": "«", r"\(Fc": "»",
           r"\~": " "}
ESCAPE = re.compile("|".join(map(re.escape, ESCAPES)))
FONT = re.compile(r"\\f(?:\[\w*\]|\(\w\w|\w)|\\s[-+]?\d|\\\*\(..|\\\*\[\w+\]")
HEADS = re.compile(r"\.\s*(?:SH|SS|B|I|BI|BR|IR|RB|IB|RI|SM)\s+(.*)")


def of_manual(data):
    """The headings and sentences of a manual page, without its commands and comments."""
    lines = []
    for line in gzip.decompress(data).decode("utf-8", "replace").split("\n"):
        if found := HEADS.match(line):
            line = found[1].replace('"', "")
        elif line.startswith((".", "'", '\\"')):
            line = "" if line.startswith((".PP", ".TP", ".P", ".IP", ".LP")) else None
        if line is not None:
            lines.append(ESCAPE.sub(lambda found: ESCAPES[found[0]], FONT.sub("", line)).strip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


READERS = {".dz": of_dictionary, ".html": of_html, ".gz": of_manual}


def text_of(name):
    """The text of all packages. Long lines that pages repeat, such as licenses, are in it once."""
    parts, seen = [], set()
    for package, place in TEXTS[name][1]:
        with tempfile.TemporaryDirectory() as folder:
            files = files_of(package, Path(folder))
        for path in sorted(path for path in files if path.startswith(place) and Path(path).suffix in READERS):
            lines = READERS[Path(path).suffix](files[path]).split("\n")
            parts.append("\n".join(line for line in lines if len(line) < 40 or line not in seen))
            seen.update(lines)
    return "\n\n".join(filter(None, parts)) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="english, german (default: both)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "texts")
    args = parser.parse_args()
    if unknown := set(args.names) - set(TEXTS):
        parser.error(f"there is no text {', '.join(sorted(unknown))}: choose from {', '.join(TEXTS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or TEXTS:
        path, data = args.out / f"{name}.txt", text_of(name).encode()
        found, wanted = hashlib.sha256(data).hexdigest(), TEXTS[name][0]
        if found != wanted:
            sys.exit(f"texts: {name} has the hash {found}, not {wanted}: the packages have other versions")
        partial = path.with_suffix(".partial")
        partial.write_bytes(data)
        partial.replace(path)
        print(f"{path}: {len(data) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
