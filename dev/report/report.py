#!/usr/bin/env python3
"""Writes the report of a comparison (a page and pictures) or of a run (a page):

    python dev/report/report.py [OUT]     OUT/report.html; for a comparison also loss.png, lr.png and profiles.png

OUT is a directory of `train_gpt compare` or `train_gpt train` (default: the newest below runs/).
"""

import argparse
import os
import sys
from pathlib import Path

import needs  # noqa: F401

import page
import picture
import read


def write_whole(path, text):
    """Writes a file so that its name never refers to an incomplete one."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def report(directory):
    """Writes the report; returns the paths of its files."""
    path = directory / "report.html"
    if (directory / "metrics.csv").exists() and not (directory / "summary.csv").exists():
        write_whole(path, page.of_run(read.read_runs([directory]), read.read_samples(directory)))
        return [path]
    comparison = read.read_comparison(directory)
    write_whole(path, page.of_comparison(comparison))
    return [path, *picture.draw_all(comparison, directory)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", help="the directory of a comparison or of a run")
    args = parser.parse_args()
    try:
        directory = Path(args.out) if args.out else read.newest("summary.csv", "metrics.csv")
        for made in report(directory):
            print(made)
    except (read.Complaint, OSError) as complaint:
        sys.exit(f"report: {complaint}")


if __name__ == "__main__":
    main()
