#!/usr/bin/env python3
"""One page and pictures of a comparison, or one page of a run:

    python dev/report/report.py [OUT]     OUT/report.html; of a comparison also loss.png, lr.png and profiles.png

OUT is what `train_gpt compare` or `train_gpt train` wrote; without it, the newest below runs/.
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
    """Never half a file under the name that is looked for."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def report(directory):
    """The files made."""
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
