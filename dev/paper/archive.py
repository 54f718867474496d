#!/usr/bin/env python3
"""Packs the stored runs of the studies and the track: `make data-archive`.

Writes build/archive/train_gpt-runs-VERSION.tar.gz and SHA256SUMS beside it. The same commit gives the same bytes.
Inside, another SHA256SUMS has the hash of each file. `archive.py --check FILE` compares an archive with that.
"""

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "archive"
PACKED = ("dev/studies/*/*.csv", "dev/studies/*/*.json", "dev/track/entries/*.csv", "dev/track/entries/*.toml",
          "dev/recipes/compare-*.csv")
SUMS = "SHA256SUMS"


def said(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def contents(version):
    """{name: bytes} of the archive: files that git knows, a page that explains them, the license and the hashes."""
    paths = said(["git", "ls-files", *(f":(glob){pattern}" for pattern in PACKED)]).splitlines()
    files = {re.sub("^dev/|entries/", "", path): (ROOT / path).read_bytes() for path in paths}
    files["README.md"] = page(version).encode()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return {**files, SUMS: sums(files)}


def page(version):
    """README.md of the archive. data/compare/README.md has the columns of comparisons."""
    text = (ROOT / "data/compare/README.md").read_text(encoding="utf-8")
    columns = [re.search(rf"^## {re.escape(name)}\n.*?(?=^## )", text, re.MULTILINE | re.DOTALL)[0].strip()
               for name in ("Columns", "runs.csv", "summary.csv")]
    template = Path(__file__).with_name("archive.md").read_text(encoding="utf-8")
    return template.replace("@VERSION@", version).replace("@COLUMNS@", "\n\n".join(columns))


def sums(files):
    """Lines of `sha256sum`."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def pack(files, folder):
    """The bytes of a .tar.gz in which nothing depends on the machine or the time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")  # its owner, mode and time are the same for all
            entry.size = len(files[name])
            tar.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(packed.getvalue(), 9, mtime=0)


def check(path):
    """How many files an archive has. Exits if one of them is not as SHA256SUMS says."""
    try:
        with tarfile.open(path) as tar:
            files = {entry.name.split("/", 1)[1]: tar.extractfile(entry).read() for entry in tar}
        want, got = files.pop(SUMS).decode().splitlines(), sums(files).decode().splitlines()
    except (OSError, EOFError, KeyError, tarfile.TarError) as error:
        sys.exit(f"archive: {path} is no archive of runs: {str(error).splitlines()[0].rstrip(':')}")
    wrong = sorted({line.split("  ", 1)[1] for line in set(want) ^ set(got)})
    if wrong:
        sys.exit(f"archive: {path}: not as {SUMS} says: {', '.join(wrong)}")
    return len(files)


def build():
    version = said([ROOT / "dev/release/version.sh"]).strip()
    if version.endswith("-dirty"):
        sys.exit("archive: the tree has changes, which its version would not name: commit them")
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"train_gpt-runs-{version}.tar.gz"
    data = pack(contents(version), path.name.removesuffix(".tar.gz"))
    path.write_bytes(data)
    (OUT / SUMS).write_bytes(sums({path.name: data}))
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="FILE", help="check this archive, and build none")
    path = parser.parse_args().check or build()
    print(f"{path}: {check(path)} files, all as {SUMS} says")
