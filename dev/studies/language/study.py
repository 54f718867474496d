#!/usr/bin/env python3
"""Another language: which weights of an English model have to move for it to learn German?

A Pre-LN model with LayerNorm, 4 layers x 96 channels, is trained on English manual pages, once per seed. It then learns
German ones, by the norms' gains and biases alone, by LoRA, by all weights but the norms', or by all. A model of the
same size learns them from scratch. Each way tunes its learning rate and warm-up together, on the first English model
and a seed of its own. The pages come from Debian's packages manpages, manpages-dev, manpages-de and manpages-de-dev,
which the script downloads with apt-get. Build with `make MARCH=x86-64-v3`: the runs then have the same bits on every
processor with AVX2.
"""

import gzip
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas  # noqa: E402
from common import BINARY, LINES, MARKERS, Study, outcome, plt, shown, stored, table, tuned_to  # noqa: E402

PACKAGES = {"english": ("manpages", "manpages-dev"), "german": ("manpages-de", "manpages-de-dev")}
PAGES = {"english": "usr/share/man/man*/*.gz", "german": "usr/share/man/de/man*/*.gz"}
HELD_OUT = 100_000  # bytes of whole pages
WAYS = {"train-only=norm": "norms alone", "lora=8": "LoRA, rank 8", "freeze=norm": "all but the norms", "lora=0": "all"}
SCRATCH, BEFORE = "all, from scratch", "nothing"
COLORS = {"norms alone": "#E69F00", "LoRA, rank 8": "#CC79A7", "all but the norms": "#009E73", "all": "#0072B2",
          SCRATCH: "#000000"}
SEEDS = 1, 2, 3

# What a page is made of: the macros whose words a reader sees, escapes that show nothing, and those of characters.
SEEN = re.compile(r"\.\s*(SH|SS|SM|SB|BR|RB|BI|IB|IR|RI|B|I|R)\b ?(.*)")
SILENT = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\[&/,|^:%c]|\\s[-+]?\d+|\\m\[\w*\]")
CHARACTERS = {"-": "-", "e": "\\", "~": " ", " ": " ", "(aq": "'", "(dq": '"', "(em": "—", "(en": "–", "(bu": "•",
              "(co": "©", "(ha": "^", "(ti": "~", "(rs": "\\", "(lq": "“", "(rq": "”", "(oq": "‘", "(cq": "’"}
CHARACTER = re.compile(r"\\(" + "|".join(map(re.escape, CHARACTERS)) + ")")


def plain(line):
    """A line of a page as its reader sees it, or None if it shows nothing."""
    if macro := SEEN.fullmatch(line):
        words = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', macro[2])]
        alternates = len(macro[1]) == 2 and macro[1][0] in "BIR"  # the fonts of .BR change without a space
        line = ("\n" if macro[1] in ("SH", "SS") else "") + ("" if alternates else " ").join(words)
    elif line.startswith((".", "'")):
        return "" if re.match(r"\.(PP|P|LP|TP|IP|HP)\b", line) else None
    return CHARACTER.sub(lambda escape: CHARACTERS[escape[1]], SILENT.sub("", line))


def text_of(page):
    lines = map(plain, gzip.decompress(page.read_bytes()).decode("utf-8", "replace").split("\n"))
    text = "\n".join(line for line in lines if line is not None)
    text = re.split(r"\n(?:ÜBERSETZUNG|COLOPHON)\n", text)[0]  # the same in all pages
    return re.sub(r"\n\s*\n+", "\n\n", text).strip() + "\n\n"


def write_texts(folder, language):
    """Pages in a fixed random order: LANGUAGE.txt to train on, LANGUAGE-held-out.txt to measure."""
    pages = []
    for package in PACKAGES[language]:
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
        archive = next(folder.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / package)], check=True)
        pages += [page for page in (folder / package).glob(PAGES[language]) if not page.is_symlink()]
    pages.sort(key=lambda page: hashlib.sha256(page.name.encode()).hexdigest())
    texts = [text for text in map(text_of, pages) if len(text) > 500]  # shorter ones refer to others
    held_out = ""
    while len(held_out.encode()) < HELD_OUT:
        held_out += texts.pop()
    (folder / f"{language}-held-out.txt").write_text(held_out)
    (folder / f"{language}.txt").write_text("".join(texts))


def text_words(folder, language):
    if not (folder / f"{language}.txt").exists():
        write_texts(folder, language)
    return ["--data", str(folder / f"{language}.txt"), "--val-data", str(folder / f"{language}-held-out.txt")]


def named(rows):
    """The rows with the name of their way to train."""
    return rows.assign(way=[next((name for key, name in WAYS.items() if key in cell), SCRATCH) for cell in rows.cell])


def pairs_found():
    """[rate, warm-up] of each way; an asterisk if a neighbor was not tried."""
    rows = pandas.concat([stored(__file__, f"{name}-summary") for name in ("search", "scratch")])
    return {row.way: tuned_to(row) for row in named(rows).itertuples()}


def final_runs():
    runs = named(pandas.concat([stored(__file__, f"{name}-runs") for name in ("ways", "scratch")]))
    return runs[runs.stage == "final"].set_index("seed")


def published():
    """The table in README.md, from the stored runs and losses."""
    runs, pairs, losses = final_runs(), pairs_found(), stored(__file__, "losses")
    before = losses[losses.way == BEFORE].set_index("seed")
    whole = runs[runs.way == "all"].final_val
    rows = []
    for way in COLORS:
        some, after = runs[runs.way == way], losses[losses.way == way]
        rows.append([way, *pairs[way], outcome(some), shown(some.final_val - whole) if way != "all" else "",
                     shown(after.english) if way != SCRATCH else ""])
    ends = table(rows, ["what trains", "rate", "warm-up", "final loss, German", "minus all", "English afterwards"])
    return f"{ends}\nBefore: {shown(before.german)} in German and {shown(before.english)} in English.\n"


def loss_on(study, model, language):
    """The loss of a trained model on the held-out pages of a language."""
    words = ["eval", str(model), "--data", str(study.out / f"{language}-held-out.txt"), "--json"]
    found = subprocess.run([str(BINARY), *words], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(found.stdout)["loss"]


def measure(study, bases, runs):
    """Losses of the English models in both languages, and of the models made from them in English."""
    models = [(BEFORE, seed, base) for seed, base in bases.items()]
    models += [(row.way, row.seed, study.out / f"ways-{row.seed}" / row.directory) for row in named(runs).itertuples()]
    rows = [{"way": way, "seed": seed, **{language: loss_on(study, model, language) for language in PACKAGES}}
            for way, seed, model in models]
    pandas.DataFrame(rows).to_csv(study.folder / "losses.csv", index=False, float_format="%.8g")


def draw(axes, curves):
    """The loss in German by step, and in both languages at the end."""
    by_step, both = axes
    losses, runs = stored(__file__, "losses"), final_runs()
    for number, (way, color) in enumerate(COLORS.items()):
        look = {"color": color, "marker": MARKERS[number]}
        by_way = named(curves[curves.stage == "final"]).dropna(subset="val_loss").groupby("way").get_group(way)
        median = by_way.groupby("step").val_loss.median()
        by_step.plot(median.index, median, linestyle=LINES[number % len(LINES)], markevery=3, label=way, **look)
        if way != SCRATCH:
            english = losses[losses.way == way].set_index("seed").english
            both.plot(runs[runs.way == way].final_val, english, linestyle="", **look)
    before = losses[losses.way == BEFORE]
    both.plot(before.german, before.english, "x", color="0.3")
    both.annotate("before", (before.german.mean(), before.english.mean()), xytext=(0, 8), textcoords="offset points",
                  ha="center", color="0.3")
    by_step.set(xlabel="step of training on German", ylabel="loss in German", title="median of the seeds")
    by_step.legend(fontsize=9)
    both.set(xlabel="loss in German at the end", ylabel="loss in English at the end", title="each seed")


def main():
    study = Study(__doc__)
    english, german = (text_words(study.out, language) for language in PACKAGES)
    base_steps, steps = (20000, 5000) if study.long else (4000, 1000)
    sizes = "--layers 4 --channels 96 --heads 4 --context 128"
    shared = "--batch 8 --eval-batches 20 --save-every 0 --eval-every"
    tuned = f"{shared} {steps // 20} --steps {steps} --tune lr=3e-3,9e-3 warmup=10%,30% --tune-runs 12"
    bases = {seed: study.trained(f"base-{seed}", f"{sizes} {shared} {base_steps // 20} --steps {base_steps} --lr 3e-3 "
                                 f"--warmup 10% --seed {seed}", english) for seed in SEEDS}
    study.compare("search", f"--init-from {bases[1]} {tuned} --grid {' + '.join(WAYS)} seed=1", text=german)
    scratch = study.compare("scratch", f"{sizes} {tuned} --grid placement=pre seed=1,2,3", text=german)
    found = {way: [value.rstrip("*") for value in pair] for way, pair in pairs_found().items()}
    cells = [f"{key} lr={found[way][0]} warmup={found[way][1]}" for key, way in WAYS.items()]
    ways, curves = study.compare_on(bases, "ways", f"{shared} {steps // 20} --steps {steps} --grid {' + '.join(cells)}",
                                    text=german)
    measure(study, bases, ways)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4))
    draw(axes, pandas.concat([curves, scratch.curves]))
    study.publish(figure, published())


if __name__ == "__main__":
    main()
