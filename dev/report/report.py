#!/usr/bin/env python3
"""One page and three pictures of a comparison:

    python dev/report/report.py [OUT]     OUT/report.html, OUT/loss.png, OUT/lr.png, OUT/profiles.png

OUT is what `train_gpt compare` wrote; without it, the newest below runs/.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", help="the directory of a comparison")
    args = parser.parse_args()
    try:
        directory = Path(args.out) if args.out else read.newest("summary.csv")
        comparison = read.read_comparison(directory)
        path = directory / "report.html"
        write_whole(path, page.build(comparison))
        for made in (path, *picture.draw_all(comparison, directory)):
            print(made)
    except (read.Complaint, OSError) as complaint:
        sys.exit(f"report: {complaint}")


if __name__ == "__main__":
    main()
