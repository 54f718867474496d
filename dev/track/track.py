#!/usr/bin/env python3
"""Runs entries of the track, repeats some of their runs, and writes the tables and the picture:

    make track                          the entries, and what is left to run
    make track ENTRY=post               tunes and trains an entry; ENTRY=all, or several with commas
    make track ENTRY=post ARGS=--dry-run     what that costs
    make track ARGS=--tables            writes the tables and the picture from the stored runs
    make track-check ENTRY=post         repeats three runs, and compares the bits

Started again, it goes on where it was. Several processes, on all machines that see the folder, share the runs.
"""

import argparse
import functools
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "studies")]
import common  # noqa: E402
import entry as entries  # noqa: E402
import pages  # noqa: E402
import results  # noqa: E402
import rules  # noqa: E402
from read import Complaint  # noqa: E402

WORK = rules.ROOT / "build" / "track"
TIMED_STEPS = 20


def check_program(trains):
    """Refuses a program whose bits are others, or whose sources nobody else has."""
    if not entries.BINARY.exists():
        raise Complaint(f"build/train_gpt is missing: run `make MARCH={rules.MARCH}`")
    version = entries.asked("--version")
    if version.split("SIMD")[1].split()[0] != rules.SIMD:
        raise Complaint(f"build/train_gpt was not built for {rules.SIMD}: run `make MARCH={rules.MARCH}`")
    if trains and version.split()[1].endswith("-dirty"):
        raise Complaint("build/train_gpt is from sources with changes that are not committed: commit them, and run "
                        f"`make MARCH={rules.MARCH}`")


def texts_here():
    """The texts that this machine has. The program writes its own."""
    here = []
    for text in rules.TEXTS:
        if not text.is_here() and text.written:
            entries.asked("corpus", *text.written, "--out", str(text.path))
        if not text.is_here():
            print(f"NOTE {text.title} is skipped: {text.path.relative_to(rules.ROOT)} is missing (see dev/track)")
        elif not text.is_right():
            raise Complaint(f"{text.path.relative_to(rules.ROOT)} has not the hash {text.sha256}")
        else:
            here.append(text)
    return here


def search_of(entry):
    return ["--tune", f"lr={entry.lr:g},{entry.lr * rules.RATE_STEP:g}", f"warmup={rules.WARMUPS}", "--tune-runs",
            str(rules.TUNE_RUNS)]


def run(entry, text, jobs):
    """Tunes and trains an entry on a text, and stores its runs."""
    cost = entries.cost_of(entry, text, entry.path.parent)
    folder = WORK / f"{entry.name}-{entry.digest(text)}"
    print(f"== {entry.name} on {text.name}: {cost.steps} steps, {cost.parameters:,} parameters", flush=True)
    seeds = ",".join(map(str, rules.SEEDS))
    common.run_program("track", "compare", *entries.words_for(entry, text), "--steps", str(cost.steps), "--grid",
                       f"seed={seeds}", *search_of(entry), "--quiet", "--jobs", str(jobs), "--join", "--out",
                       str(folder))
    others = {name: rows for name, rows in results.read(entry).items() if name != text.name}
    others[text.name] = list(results.rows_of(entry, text, folder, cost))
    results.write(entry, [row for known in rules.TEXTS for row in others.get(known.name, [])])
    for weights in folder.glob("*/*/*.safetensors"):  # large, and their hashes are stored
        weights.unlink()


@functools.cache
def seconds_of(words, steps):
    """Processor seconds of a run of so many steps."""
    with tempfile.TemporaryDirectory() as folder:
        before = common.processor_seconds()
        entries.asked("train", *words, "--steps", str(steps), "--warmup", "0", "--quiet", "--threads", "1", "--force",
                      "--out", folder)
        return common.processor_seconds() - before


def predicted_seconds(entry, text, cost):
    """Processor seconds of a run, from some of its steps and from the baseline's start and end."""
    around = seconds_of(tuple(entries.words_for(entries.read_entry(rules.BASELINE), text)), 1)
    some = seconds_of(tuple(entries.words_for(entry, text)), TIMED_STEPS)
    return around + (some - around) / (TIMED_STEPS - 1) * cost.steps


def bill(chosen, texts):
    """What the runs that are left cost at most."""
    rows, total = [], 0
    for entry in chosen:
        for text in texts:
            if results.current(entry, text):
                continue
            cost = entries.cost_of(entry, text, entry.path.parent)
            runs = rules.TUNE_RUNS + len(rules.SEEDS)
            minutes = runs * predicted_seconds(entry, text, cost) / 60
            total += minutes
            print(f"{entry.name} on {text.name}: at most {runs} runs of {cost.steps} steps, {runs * rules.BUDGET:.3g} "
                  f"FLOPs, about {minutes:.1f} processor minutes", flush=True)
            rows.append(runs)
    print(f"{len(rows)} searches, at most {sum(rows)} runs, {sum(rows) * rules.BUDGET:.3g} FLOPs, about {total:.0f} "
          "processor minutes")


def listing(known):
    for entry in known:
        done = [text.name for text in rules.TEXTS if results.current(entry, text)]
        print(f"{entry.name:24} {', '.join(done) or 'not run':20} {entry.claim}")
    print("\nmake track ENTRY=NAME runs one, ENTRY=all those that are left, ARGS=--dry-run says what it costs.")
    print("make track-check ENTRY=NAME repeats three of its runs. Add an entry: dev/track/README.md")


def picked(rows, word):
    """The runs that a check repeats. `word` and the file decide, so its author cannot."""
    return sorted(rows, key=lambda row: hashlib.sha256((word + row["row"]).encode()).digest())[:rules.REPEATED]


def check(entry, texts, word, threads):
    """Repeats some runs of an entry, and compares the bits."""
    stored = results.read(entry)
    if not stored:
        raise Complaint(f"{entry.name} has no runs: `make track ENTRY={entry.name}` trains them")
    here = {text.name: text for text in texts}
    for name in stored.keys() & here.keys():
        if not results.current(entry, here[name]):
            raise Complaint(f"{entry.name}: the entry or the rules changed after its runs on {name}: run it again")
    rows = [row for name, some in stored.items() if name in here for row in some]
    word = word or results.hash_of(entry.results.read_bytes())
    for row in picked(rows, word):
        repeat(entry, here[row["text"]], row, threads)


def repeat(entry, text, row, threads):
    name = f"{entry.name} on {text.name}, {row['stage']} seed={row['seed']},lr={row['peak_lr']},warmup={row['warmup']}"
    began = time.monotonic()
    cost = entries.cost_of(entry, text, entry.path.parent)
    with tempfile.TemporaryDirectory() as folder:
        words = ["train", *entries.words_for(entry, text), "--steps", str(cost.steps), "--lr", row["peak_lr"],
                 "--warmup", row["warmup"], "--seed", row["seed"], "--data-seed", row["seed"], "--quiet", "--force",
                 *(["--threads", str(threads)] if threads else []), "--out", folder]
        # The exit code of a run that diverged is not 0, and that is a result.
        subprocess.run([str(entries.BINARY), *words], capture_output=True, stdin=subprocess.DEVNULL)
        found = {"steps": str(cost.steps), "final_val": final_loss(Path(folder)), **results.bits_of(Path(folder))}
    wrong = [f"{key} is {found[key] or 'missing'}, and {row[key] or 'missing'} in {entry.results.name}" for key in found
             if found[key] != row[key]]
    if wrong:
        raise Complaint(f"{name} differs: {'; '.join(wrong)}{compilers(row)}")
    print(f"{name}: the same bits ({time.monotonic() - began:.0f} s)", flush=True)


def final_loss(folder):
    """The final loss, as compare writes it."""
    outcome = folder / "outcome.json"
    loss = json.loads(outcome.read_text())["val_loss_full"] if outcome.exists() else None
    return "" if loss is None else f"{loss:.9g}"


def compilers(row):
    """A reason for other bits, if there is one."""
    mine = entries.asked("--version").split("compiler")[1].split("\n")[0].strip()
    return "" if mine == row["compiler"] else f" (made with {row['compiler']}, and this program with {mine})"


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ENTRY", help="names of entries, or all")
    parser.add_argument("--check", action="store_true", help="repeat three runs of each entry")
    parser.add_argument("--pick", default="", metavar="WORD", help="word that decides which runs a check repeats")
    parser.add_argument("--threads", type=int, help="threads of a repeated run")
    parser.add_argument("--dry-run", action="store_true", help="say what the runs cost, and stop")
    parser.add_argument("--tables", action="store_true", help="write the tables and the picture, and stop")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    return parser.parse_args()


def main(args):
    every = entries.names_in(entries.ENTRIES)
    names = [name for word in args.names for name in word.split(",") if name]
    known = [entries.read_entry(name) for name in every]
    if args.tables:
        return pages.publish(known)
    if not names and not args.check:
        return listing(known)
    if not names:
        raise Complaint(f"say which: ENTRY={every[0]}")
    check_program(trains=not (args.check or args.dry_run))
    chosen = known if names == ["all"] else [entries.read_entry(name) for name in names]
    texts = texts_here()
    if args.dry_run:
        return bill(chosen, texts)
    if args.check:
        for entry in chosen:
            check(entry, texts, args.pick, args.threads)
        return None
    for entry in chosen:
        for text in texts:
            if not results.current(entry, text):
                run(entry, text, args.jobs)
    return pages.publish([entries.read_entry(name) for name in every])


if __name__ == "__main__":
    try:
        main(parsed())
    except Complaint as error:
        sys.exit(f"track: {error}")
