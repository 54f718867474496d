"""The numbers in README.md come from the stored CSV files. Run by `make test-report`."""

import re
import unittest
from pathlib import Path

import numpy
import pandas
from common import load_study
from scipy import stats

HERE = Path(__file__).parent
README = (HERE / "README.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"<!-- ([a-z]+) -->\n(.*?)<!-- end of \1 -->", README, re.DOTALL))
# A study's text, without its tables: from a heading to the next one.
CHAPTERS = {name: chapter for chapter in re.split(r"^##+ ", README, flags=re.MULTILINE)
            for name in re.findall(r"<!-- end of ([a-z]+) -->", chapter)}
WITH_RUNS = sorted({path.parent.name for path in HERE.glob("*/*-runs.csv")})
# A study that was not run yet has no tables in README.md.
RECOMPUTED = sorted(name for name in SECTIONS if "def published()" in (HERE / name / "study.py").read_text())

INTERVAL = re.compile(r"[+-]?\d+\.\d+ ± \d+\.\d+")
DIFFERENCE_SHOWN = re.compile(r"([+-]\d+\.\d+) ± (\d+\.\d+)")
LOSS = re.compile(r"lr \d|final loss|loss after")  # headings of columns whose cells show the final losses of a cell
DIFFERENCE = re.compile(r"minus pre|against pre", re.IGNORECASE)  # columns with paired differences to the baseline


def intervals(text):
    return INTERVAL.findall(text.replace("−", "-"))


def numbers_of(interval):
    """|mean| and half width. Text may name the direction in words."""
    mean, half = interval.split(" ± ")
    return abs(float(mean)), float(half)


def columns_of(section):
    """(heading, text) of each field of the tables of a section."""
    for part in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        heads, _, *rows = ([field.strip() for field in line.strip("|\n").split("|")] for line in part.splitlines())
        yield from ((head, field) for row in rows for head, field in zip(heads, row, strict=True))


def said(values, digits, sign=""):
    """Mean and 95 % t interval, by SciPy alone."""
    mean, half = round(numpy.mean(values), digits) + 0.0, half_width(values)
    return f"{mean:{sign}.{digits}f} ± {half:.{digits}f}"


def half_width(values):
    return stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else numpy.nan


def final_runs(name):
    """The final runs of each comparison of a study."""
    for path in sorted((HERE / name).glob("*-runs.csv")):
        runs = pandas.read_csv(path)
        yield path, runs[runs.stage == "final"]


def outcomes(name, digits):
    """What README.md may say about a cell: mean and interval, or how many runs did not finish."""
    result = set()
    for _, runs in final_runs(name):
        for _, cell in runs.groupby("cell"):
            bad = cell.state[cell.state != "finished"].value_counts()
            result.add(", ".join(f"{n}/{len(cell)} {state}" for state, n in bad.items()) if len(bad) else
                       said(cell.final_val, digits))
    return result


def differences(name, digits):
    """Differences of each cell to the baseline of its comparison, over runs of the same seed."""
    result = set()
    for path, runs in final_runs(name):
        summary = pandas.read_csv(str(path).replace("-runs.csv", "-summary.csv"))
        losses = {cell: some.set_index("seed").final_val for cell, some in runs.groupby("cell")
                  if (some.state == "finished").all()}
        base = summary.cell[summary.verdict == "baseline"].iloc[0]
        result |= {said(loss - losses[base], digits, "+") for loss in losses.values() if base in losses}
    return result


def digits_of(text):
    return len(text.rsplit(".", 1)[1]) if "." in text else 3


class Stored(unittest.TestCase):
    def test_tables_are_those_of_the_stored_files(self):
        self.assertIn("warmup", RECOMPUTED)
        for name in RECOMPUTED:
            with self.subTest(name):
                self.assertEqual(SECTIONS[name].split("\nTook ")[0], load_study(name).published())

    def test_losses_and_differences_are_those_of_the_stored_runs(self):
        for name in WITH_RUNS:
            seen = 0
            for heading, text in columns_of(SECTIONS[name]):
                for pattern, known in (LOSS, outcomes), (DIFFERENCE, differences):
                    if pattern.match(heading) and text:
                        seen += 1
                        with self.subTest(name, heading=heading):
                            self.assertIn(text, known(name, digits_of(text)))
            self.assertTrue(seen > 0 or name in RECOMPUTED, name)

    def test_text_quotes_intervals_of_its_tables(self):
        for name in RECOMPUTED:
            if not intervals(SECTIONS[name]):
                continue  # no part of it has been trained
            quoted = intervals(CHAPTERS[name].replace(SECTIONS[name], ""))
            self.assertGreater(len(quoted), 0, name)
            self.assertLessEqual(set(quoted), set(intervals(SECTIONS[name])), name)

    def test_claims_quote_intervals_of_the_studies_they_name(self):
        by_number = {chapter.split(".")[0]: chapter for chapter in re.split(r"^## ", README, flags=re.MULTILINE)}
        claims = README.split("## What our sources say")[1].split("\n## ")[0]
        rows = [line for line in claims.splitlines() if intervals(line)]
        self.assertGreater(len(rows), 0)
        for row in rows:
            linked = "".join(by_number[number] for number in re.findall(r"\[(\d+)\]\(#", row))
            self.assertLessEqual(set(intervals(row)), set(intervals(linked)), row)

    def test_other_pages_quote_intervals_of_the_studies(self):
        root = HERE.parents[1]
        known = [numbers_of(words) for words in intervals(README.replace("\n", " "))]
        quoting = {}
        for page in root / "README.md", *sorted(root.glob("layers/**/*.md")):
            quoting[page.name] = intervals(page.read_text(encoding="utf-8").replace("\n", " "))
            for words in quoting[page.name]:
                mean, half = numbers_of(words)
                digits = digits_of(words)
                with self.subTest(page.name, words=words):
                    self.assertTrue(any((round(m, digits), round(h, digits)) == (mean, half) for m, h in known))
        self.assertGreater(len(quoting["normalization.md"]), 0)

    def test_summaries_are_those_of_the_runs(self):
        for name in WITH_RUNS:
            for path, runs in final_runs(name):
                summaries = path.with_name(path.name.replace("-runs.csv", "-summary.csv"))
                if not summaries.exists():
                    continue  # runs on top of several models
                summary = pandas.read_csv(summaries).set_index("cell")
                for cell, some in runs.groupby("cell"):
                    if len(some) > 1 and (some.state == "finished").all():
                        row = summary.loc[cell]
                        want = [some.final_val.mean(), half_width(some.final_val)]
                        self.assertTrue(numpy.allclose([row["mean"], row.ci], want, 1e-5), cell)


def holm(values):
    """p values after Holm's correction (1979)."""
    corrected, highest = {}, 0
    for rank, name in enumerate(sorted(values, key=values.get)):
        highest = max(highest, min(1, (len(values) - rank) * values[name]))
        corrected[name] = highest
    return corrected


class ManyComparisons(unittest.TestCase):
    """Where verdicts are those of single comparisons, the text names those that Holm's correction takes away."""

    SEEDS = {"optimizers": 5, "survey": 3, "longer": 3}
    LOST = re.compile(r"Holm's correction for (\d+) comparisons takes (.*?) away")
    BORDER = 0.045, 0.055  # the printed digits do not say more

    def test_text_names_what_does_not_remain(self):
        for name, seeds in self.SEEDS.items():
            if "verdict (Holm)" in SECTIONS[name]:
                continue  # its verdicts are corrected ones
            tests = {}
            for i, (heading, text) in enumerate(self.rows_of(name)):
                if found := DIFFERENCE_SHOWN.fullmatch(text):
                    t = float(found[1]) / float(found[2]) * stats.t.ppf(0.975, seeds - 1)
                    tests[heading, i] = 2 * stats.t.sf(abs(t), seeds - 1)
            corrected = holm(tests)
            alone = {at: p for at, p in corrected.items() if tests[at] < 0.05}
            lost = {at[0] for at, p in alone.items() if p > self.BORDER[1]}
            kept = {at[0] for at, p in alone.items() if p < self.BORDER[0]}
            with self.subTest(name):
                number, names = self.LOST.search(" ".join(CHAPTERS[name].split())).groups()
                self.assertEqual(int(number), len(tests))
                self.assertEqual(set(re.findall("`(.*?)`", names)), lost)
                self.assertGreater(len(kept), 0)

    @staticmethod
    def rows_of(name):
        """(row, text) of each field of a column of differences."""
        for part in re.findall(r"(?:^\|.*\n)+", SECTIONS[name], re.MULTILINE):
            heads, _, *rows = ([field.strip() for field in line.strip("|\n").split("|")] for line in part.splitlines())
            yield from ((row[0], field) for row in rows for head, field in zip(heads, row, strict=True)
                        if DIFFERENCE.match(head))


class Norms(unittest.TestCase):
    """Study 8's differences between norms, over runs of the same seed."""

    def setUp(self):
        self.rates, self.own = (pandas.read_csv(HERE / "none" / f"{name}-runs.csv").fillna({"norm": "none"})
                                for name in ("rates", "own"))
        self.text = " ".join(CHAPTERS["none"].split())

    def losses(self, norm, warmup, rate):
        runs = pandas.concat([self.rates, self.own])
        runs = runs[(runs.norm == norm) & (runs.warmup == warmup) & (runs.peak_lr == rate)]
        return runs.set_index("seed").final_val

    def test_without_a_norm(self):
        (warmup, rate), = set(zip(*(self.own[self.own.norm == "none"][key] for key in ("warmup", "peak_lr"))))
        more = self.losses("none", warmup, rate) - self.losses("layernorm", 200, 0.01)
        self.assertIn(f"{said(more[[4, 5, 6]], 2)} above LayerNorm with three fresh seeds, and {said(more, 2)} with "
                      "all six", self.text)
        at = self.rates[(self.rates.norm == "none") & (self.rates.peak_lr == 0.01)]
        diverged = at[at.state == "diverged"].groupby("warmup").size()
        self.assertEqual(list(diverged.items()), [(60, 3), (200, 1)])

    def test_rmsnorm_at_the_lowest_rate(self):
        pairs = {pair: self.losses("rmsnorm", *pair)[[1, 2, 3]] - self.losses("layernorm", *pair)[[1, 2, 3]]
                 for pair in sorted(set(zip(self.rates.warmup, self.rates.peak_lr)))}
        p = holm({pair: stats.ttest_1samp(values, 0).pvalue for pair, values in pairs.items()})
        short, long = pairs[60, 3e-4], pairs[200, 3e-4]
        self.assertIn(f"by {said(short, 3)} with 60 steps and by {said(long, 3)} with 200 (p = {p[60, 3e-4]:.2f} and "
                      f"{p[200, 3e-4]:.2f} after Holm's correction for the {len(pairs)} pairs", self.text)


class MakeCompare(unittest.TestCase):
    """The comparison of `make compare` on the recipes' page, from its stored runs."""

    def setUp(self):
        folder = HERE.parent / "recipes"
        self.page = (folder / "README.md").read_text(encoding="utf-8").replace("−", "-")
        self.runs = pandas.read_csv(folder / "compare-runs.csv")

    def test_table(self):
        runs = self.runs[self.runs.stage == "final"]
        done = runs.groupby("placement").filter(lambda cell: (cell.state == "finished").all())
        for name, cell in runs[~runs.placement.isin(done.placement)].groupby("placement"):
            bad = cell.state[cell.state != "finished"].value_counts()
            outcome = ", ".join(f"{n}/{len(cell)} {state}" for state, n in bad.items())
            self.assertRegex(self.page, rf"\| {name} \|.*\| {outcome} \| \| \|")
        final = done.pivot(index="seed", columns="placement", values="final_val")
        differences = final.drop(columns="pre").sub(final.pre, axis="index")
        p = holm({name: stats.ttest_1samp(values, 0).pvalue for name, values in differences.items()})
        for name, losses in final.items():
            cell = self.runs[(self.runs.stage == "final") & (self.runs.placement == name)].iloc[0]
            end = "| | baseline |"
            if name in p:
                verdict = "better" if differences[name].mean() < 0 else "worse"
                end = f"| {said(differences[name], 3, '+')} | {verdict if p[name] < 0.05 else 'not distinguishable'} |"
            warmup = cell.warmup.replace("%", " %")
            self.assertIn(f"| {name} | {cell.peak_lr:g} | {warmup} | {said(losses, 3)} {end}", self.page)

    def test_warmup_decides(self):
        tuned = self.runs[(self.runs.stage == "tune") & self.runs.peak_lr.isin([1e-3, 3e-3])]
        best = tuned.groupby(["warmup", "placement"]).final_val.min()
        losses = [f"{best[warmup, name]:.2f}" for warmup in ("10%", "40%") for name in ("post", "deepnorm", "pre")]
        self.assertIn("Post-LN ends at {}, DeepNorm at {} and Pre-LN at {} with 10 %; with 40 % they end at {}, {} and "
                      "{}.".format(*losses), " ".join(self.page.split()))


class Powers(unittest.TestCase):
    """Slopes in log-log coordinates, by SciPy's regression."""

    @staticmethod
    def over_seeds(rows, x, y):
        return said([stats.linregress(numpy.log(seed[x]), numpy.log(seed[y])).slope for _, seed in
                     rows.groupby("seed")], 2)

    def test_gradients(self):
        data = pandas.read_csv(HERE / "gradients" / "gradients.csv")
        parts = (data[data.layer == data.layers], "layers"), (data[data.layers == 12], "layer")
        tables = SECTIONS["gradients"].split("\n\n")
        for (rows, key), part in zip(parts, tables):
            lines = iter(part.strip().splitlines()[2:])
            for init in "wide", "xavier", "own":
                for placement in "post", "pre":
                    some = rows[(rows.init == init) & (rows.placement == placement)]
                    want = [self.over_seeds(some[some.of == of], key, "value") for of in ("W1", "W2", "1/√R")]
                    self.assertEqual(want, intervals(next(lines)), (init, placement, key))

    def test_growth_of_the_stream(self):
        data = pandas.read_csv(HERE / "activations" / "stream.csv")
        text = dict(own="each placement's own initialization", xavier="the same Xavier for all")
        when = {1: "before training"}
        found = {}
        for init, placement, time, *_, power, _ in (line.strip("| ").split(" | ") for line in
                                                    SECTIONS["activations"].split("\n\n")[1].splitlines()[2:]):
            found[init, placement, time] = power
        self.assertGreater(len(found), 0)
        for (init, placement, step), rows in data.groupby(["init", "placement", "step"]):
            name = text[init], placement, when.get(step, f"step {step}")
            if name in found:
                self.assertEqual(self.over_seeds(rows, "block", "mean_square"), found.pop(name), name)
        self.assertEqual(found, {})


class FirstSteps(unittest.TestCase):
    """The numbers of "Why Post-LN needs a warm-up" in the chapter, from the stored steps."""

    def setUp(self):
        chapter = (HERE.parents[1] / "layers/norm/normalization.md").read_text(encoding="utf-8")
        section = chapter.split("### Why Post-LN needs a warm-up")[1].split("\n## ")[0]
        self.section = " ".join(section.split())
        self.data = pandas.read_csv(HERE / "stuck" / "steps.csv")

    def of(self, model, step, value):
        rows = self.data[(self.data.model == model) & (self.data.step == step)]
        return rows.eval(value).mean()

    def says(self, text):
        self.assertIn(text, self.section)

    def test_gradients(self):
        first, last = self.of("none", 1, "g1 / g6"), self.of("none", 20, "g1 / g6")
        self.says(f"Post-LN's gradient is {first:.1f} times as large in block 1 as in block 6")
        self.says(f"At step 20 the gradient in block 1 is {last * 1e4:.1f} ten-thousandths of that in block 6")
        self.says(f"(a ratio of {self.of('pre', 20, 'g1 / g6'):.1f})")
        back = [self.of("none", step, "g1 / g6 * divisor") for step in (1, 2, 20)]
        self.says("It is {:.1f} at step 1, {:.1f} at step 2 and {:.1f} at step 20; 1 would be".format(*back))

    def test_divisors(self):
        one, two, five, twenty = (self.of("none", step, "divisor") for step in (1, 2, 5, 20))
        each = self.of("none", 20, "divisor ** .1")
        self.says(f"It is {one:.1f} at step 1, {two:.0f} at step 2, {five:.0f} at step 5 and {twenty:,.0f} at step 20, "
                  f"that is {each:.1f} for each norm")
        warm, ratio = self.of("warmup", 80, "divisor"), self.of("warmup", 80, "g1 / g6")
        self.says(f"At step 80 the divisor is {warm:.0f} and the gradient's ratio {ratio:.3f}")
        self.says(f"the divisor is {self.of('none', 9, 'divisor'):,.0f} after 8")
        end, back = self.of("warmup", 400, "divisor"), self.of("warmup", 400, "g1 / g6 * divisor")
        self.says(f"at step 400 the divisor is {end:.0f}, and the branches carry back {back:.0f} times")

    def test_branches(self):
        sizes = [self.of("none", step, "branch") for step in (1, 2, 5, 20)]
        self.says("a branch is {:.2f} of the stream at step 1, {:.2f} at step 2, {:.2f} at step 5 and {:.2f} at step 20"
                  .format(*sizes))
        self.says("from {:.2f} of its stream to {:.2f} at step 20".format(*(self.of("pre", step, "branch")
                                                                           for step in (1, 20))))
        self.says("rises from {:.2f} to {:.3f} of that of equal weights".format(*(self.of("none", step, "entropy")
                                                                                  for step in (1, 20))))

    def test_adams_step(self):
        for name, inputs, outputs in ("W2", 256, 64), ("v", 64, 64):
            sigma = (2 / (inputs + outputs)) ** 0.5
            update = self.of("none", 1, f"update_{name}")
            self.assertAlmostEqual(update, 3e-3 / sigma, delta=3e-4)
            self.says(f"| {1e-1 / sigma:.1f} % | {3e-1 / sigma:.1f} % | {100 * update:.2f} % |")
        aligned = [round(100 * 3e-3 / sigma * (2 * n / numpy.pi) ** 0.5) for sigma, n in
                   ((0.1**0.5 / 4, 64), (0.1**0.5 / 4, 256), (0.125, 64))]
        self.says("up to {} % of the output of $W_1$ (n = 64) and {} % of that of $W_2$ (n = 256), and 2.4 % becomes "
                  "{} % for v and o".format(*aligned))

    def test_eps(self):
        runs = pandas.read_csv(HERE / "stuck" / "inside-runs.csv")
        cell = runs[(runs.stage == "final") & runs.cell.str.contains("adam-eps")]
        self.assertEqual(list(cell.state), ["stuck"] * 3)
        self.says("with 1e-15 for 1e-8, all three seeds get stuck as well")


if __name__ == "__main__":
    unittest.main()
