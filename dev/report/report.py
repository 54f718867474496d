#!/usr/bin/env python3
"""Writes the report of a comparison (a page and pictures), of a run or of several runs (a page):

    python dev/report/report.py [OUT]     OUT/report.html; for a comparison also loss.png, lr.png, profiles.png,
                                          scaling.png and scaling.csv
    python dev/report/report.py RUN...    report.html in the directory that they share

OUT is a directory of `train_gpt compare` or `train_gpt train`, or one with several runs (default: the newest below
runs/). Runs with different tokenizers are shown in bits per byte.
"""

import argparse
import os
import sys
from pathlib import Path

import needs  # noqa: F401
import pandas as pd

import page
import picture
import read
import scaling
import series


def write_whole(path, text):
    """Writes a file so that its name never refers to an incomplete one."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def write_laws(comparison, path):
    """Writes the laws of a comparison of sizes; returns the paths. Deletes the file of an earlier report if there are
    none."""
    rows = scaling.rows_of(scaling.groups_with_laws(comparison, series.cells_of(comparison)))
    if not rows:
        path.unlink(missing_ok=True)
        return []
    write_whole(path, pd.DataFrame(rows).to_csv(index=False))
    return [path]


def is_comparison(directory):
    return (directory / "summary.csv").exists() or (directory / "runs.csv").exists()


def runs_of(directories):
    """The runs in the directories: each is one itself, or has several."""
    found = [run for directory in directories for run in read.runs_below(directory) if (run / "metrics.csv").exists()]
    return list(dict.fromkeys(found))


def report(*directories):
    """Writes the report; returns the paths of its files."""
    path = read.root_of(directories) / "report.html"
    first = directories[0]
    if len(directories) > 1 and any(map(is_comparison, directories)):
        raise read.Complaint("a report is of one comparison, or of several runs")
    if len(directories) == 1 and (first / "metrics.csv").exists() and not is_comparison(first):
        write_whole(path, page.of_run(read.read_runs([first]), read.read_samples(first)))
        return [path]
    if len(directories) == 1 and (is_comparison(first) or not first.is_dir() or not runs_of([first])):
        comparison = read.read_comparison(first)
        write_whole(path, page.of_comparison(comparison))
        return [path, *picture.draw_all(comparison, first), *write_laws(comparison, first / "scaling.csv")]
    write_whole(path, page.of_runs(read.read_runs(runs_of(directories))))
    return [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="*", type=Path, help="a comparison, a run, several runs, or a directory with some")
    args = parser.parse_args()
    try:
        for made in report(*(args.out or [read.newest("summary.csv", "metrics.csv")])):
            print(made)
    except (read.Complaint, OSError) as complaint:
        sys.exit(f"report: {complaint}")


if __name__ == "__main__":
    main()
