#!/usr/bin/env python3
"""Writes metrics.csv and diagnostics.csv as event files of TensorBoard:

    python dev/report/events.py [RUN...]     into RUN/tensorboard/; RUN may be a directory with several runs

View them with `.venv/bin/tensorboard --logdir RUN`. Files of an earlier call are replaced.
"""

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path

import needs  # noqa: F401

import read

# This file cannot be called tensorboard.py: it would hide the package.
try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    sys.exit(f"events: {error.name} is missing: `make tensorboard` puts it into .venv/ (pip alone has it)")

NOT_CURVES = {"step", "elapsed_s"}


def metrics_scalars(table):
    """Yields (tag, step, value) for each number measured."""
    for column in (name for name in (*read.METRICS, *read.OPTIONAL) if name in table and name not in NOT_CURVES):
        for step, value in zip(table.step, table[column]):
            if not math.isnan(value):
                yield f"metrics/{column}", int(step), value


def diagnostics_scalars(table):
    """Yields a curve for each layer: grad_norm/ffn.down.weight/layer 03."""
    for row in table.itertuples():
        if not math.isnan(row.value):
            layer = "" if math.isnan(row.layer) else f"/layer {int(row.layer):02d}"
            yield f"{row.what}/{row.part}{layer}", int(row.step), row.value


def write(run):
    """Writes the event file of one run."""
    metrics = run / "metrics.csv"
    table = read.read_table(metrics)
    scalars = list(metrics_scalars(table))
    if (run / "diagnostics.csv").exists():
        scalars += diagnostics_scalars(read.read_table(run / "diagnostics.csv"))
    out = run / "tensorboard"
    for old in out.glob("events.out.tfevents.*"):
        old.unlink()
    # Wall-clock times: the run ended when the file was last written.
    elapsed = dict(zip(table.step, table.elapsed_s.fillna(0)))
    end = metrics.stat().st_mtime
    begin = end - max(elapsed.values())
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:  # TensorBoard writes into directories whose names are UTF-8 alone
        writer = EventFileWriter(scratch)
        for tag, step, value in scalars:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=begin + elapsed.get(step, 0), step=step, summary=summary))
        writer.close()
        for file in Path(scratch).iterdir():
            shutil.move(file, out)
    return len(scalars), out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="*", help="runs, or directories with several (default: the newest below runs/)")
    args = parser.parse_args()
    try:
        places = [Path(run) for run in args.run] or [read.newest("metrics.csv")]
        for place in places:
            runs = [run for run in read.runs_below(place) if (run / "metrics.csv").exists()]
            if not runs:
                raise read.Complaint(f"{place} has no metrics.csv, nor a directory in it")
            for run in runs:
                count, out = write(run)
                print(f"{out}: {count:,} numbers")
        print(f"look at them: {Path(sys.executable).parent / 'tensorboard'} --logdir {places[0]}")
    except (read.Complaint, OSError) as complaint:
        sys.exit(f"events: {complaint}")


if __name__ == "__main__":
    main()
