"""The computations behind the figures, and the claims of the headline."""

import shutil
import unittest

import numpy as np
import pandas as pd

import browser
import figures
import fixtures
import page
import read
import series
import style
import words
from testing import Scratch, rewrite, run

TWO = {"placement": ["pre", "post"], "norm": ["layernorm"]}


def exploding(out, floor=True):
    """Every seed of the second cell explodes for a while at a validation and recovers."""
    fixtures.Maker(out, TWO, floor=floor, diagnostics=False)

    def explode(row):
        hit = row["cell"].startswith("placement=post") and 78 <= int(row["step"]) <= 82
        factor = 10 ** int(row["seed"]) if hit else 1
        return {**row, **{name: str(factor * float(row[name])) for name in ("train_loss", "val_loss") if row[name]}}

    rewrite(out / "curves.csv", lambda rows: list(map(explode, rows)))


def exploding_without_a_floor(out):
    exploding(out, floor=False)


class Curves(Scratch):
    make = {make.__name__: make for make in (exploding, exploding_without_a_floor)}

    def test_an_explosion_does_not_hide_the_others(self):
        for name in self.make:
            comparison = read.read_comparison(self.scratch / name)
            cells, scale = series.cells_of(comparison), series.scale_of(comparison)
            curves = [curve for cell in cells for curve in series.curves_of(comparison, cell, scale)]
            limits = series.height(curves, scale.excess)
            self.assertLess(limits[1], 1.4 * fixtures.INITIAL)
            post = next(curve for curve in curves if curve.role == "val" and curve.cell.label == "post")
            points = post.drawn()
            self.assertGreater(points.y.max(), 100)
            shown = series.narrow(points, scale.excess, limits)
            self.assertFalse(shown[points.step == 80].any())
            self.assertTrue(shown[points.step > 120].all())
            drawn = figures.curves_plot(cells, curves, "", scale.excess)
            halves = next(c["half"] for c in drawn["curves"] if c["role"] == "val" and c["cell"] == 1)
            self.assertEqual([half is None for half in halves], [not x for x in shown])

    def test_a_smoothed_curve_does_not_end_on_its_last_point(self):
        loss = np.full(1000, 2.0)
        loss[-1] = 1.0  # a lucky batch
        self.assertGreater(series.smoothed(loss)[-1], 1.85)
        self.assertEqual(len(series.smoothed(loss)), 1000)
        falling = np.exp(-np.arange(1000) / 5)  # the first point is not smoothed
        self.assertEqual(series.smoothed(falling)[0], 1)
        self.assertTrue(np.allclose(series.smoothed(np.arange(500.0))[:480], np.arange(480)))

    def test_the_axis_starts_where_curves_become_distinct(self):
        comparison = read.read_comparison(self.scratch / "exploding")
        steps = np.arange(1, 101)
        shared = 6.0 * np.exp(-steps / 20)

        def curve(cell, extra, role="val", state="finished"):
            points = pd.DataFrame({"step": steps, "tokens": steps, "seconds": steps, "mean": shared + extra})
            points["half"] = 0.0
            return series.Curve(cell, role, points, ["1"], state=state)

        one, other = series.cells_of(comparison)
        split = np.where(steps > 50, 0.3, 0.0)
        for log in (False, True):
            together = series.height([curve(one, 0.1), curve(other, 0.1)], log)[1]
            apart = series.height([curve(one, 0.1), curve(other, 0.1 + split)], log)[1]
            self.assertGreater(together, 3)
            self.assertLess(apart, 1.2 * (shared[50] + 0.4))
            lost = curve(other, 2.0, "lost", "stuck")
            self.assertGreater(series.height([curve(one, 0.1), curve(other, 0.1 + split), lost], log)[1], 2.0)

    def test_interval(self):
        self.assertAlmostEqual(series.half_width(1.0, 3), fixtures.T_975[3] / np.sqrt(3), places=4)

    def test_no_norm_is_not_nobody(self):
        self.assertEqual(style.label({"placement": "none"}, ""), "no norm")
        self.assertEqual(style.label({"qk-norm": "none"}, ""), "no qk-norm")


def cells_ending_at(*losses, edge=()):
    """A comparison in which cell i ends with `losses[i]`, a list over seeds."""
    import pandas as pd
    runs = pd.DataFrame([{"cell": f"placement={name}", "stage": "final", "placement": name, "seed": str(seed),
                          "state": "finished", "final_val": loss, "floor": float("nan")}
                         for name, of in zip(("pre", "post", "none", "lns", "peri", "mix-ln"), losses)
                         for seed, loss in enumerate(of)])
    names = list(dict.fromkeys(runs.cell))
    summary = pd.DataFrame({"cell": names, "mean": [np.mean(of) for of in losses],
                            "at_edge": ["peak_lr=0.01" if i in edge else "" for i in range(len(losses))]})
    comparison = read.Comparison("made up", ["placement"], None, runs, summary)
    return words.headline(comparison, series.cells_of(comparison))


class Headline(unittest.TestCase):
    low, near, high = [2.00, 2.10, 2.20], [2.03, 2.09, 2.24], [2.50, 2.61, 2.69]

    def test_a_winner(self):
        first, *others = cells_ending_at(self.high, self.low)
        self.assertEqual(first, "post has the lowest final loss: 2.1000 nats per token.")
        self.assertIn("All others that finished are distinguishably higher.", others)

    def test_no_winner_among_those_that_cannot_be_told_apart(self):
        first, *others = cells_ending_at(self.low, self.high, self.near)
        self.assertEqual(first, "pre and no norm end lowest and cannot be told apart: 2.1000 to 2.1200 nats per token.")
        self.assertEqual(cells_ending_at(self.low, self.near)[0],
                         "pre and post end alike and cannot be told apart: 2.1000 to 2.1200 nats per token.")

    def test_many_that_cannot_be_told_apart_are_counted(self):
        first, *others = cells_ending_at(self.low, *4 * [self.near], self.high)
        self.assertTrue(first.startswith("5 of 6 cells end lowest and cannot be told apart"), first)
        self.assertIn("Lowest mean: pre.", others)

    def test_no_winner_if_a_best_rate_is_at_the_edge(self):
        for edge in ([0], [1]):
            first, *others = cells_ending_at(self.low, self.high, edge=edge)
            self.assertTrue(first.startswith("No winner yet: pre has the lowest final loss"), first)
            self.assertIn(f"not tried for {('pre', 'post')[edge[0]]}", others[-1])

    def test_the_number_of_cells_is_taken_into_account(self):
        post = [2.03, 2.14, 2.26]  # p = .039 against the first
        first, *others = cells_ending_at(self.low, post)
        self.assertTrue(first.startswith("pre has the lowest final loss"), first)
        first, *others = cells_ending_at(self.low, post, self.near)
        self.assertTrue(first.startswith("pre, no norm and post end alike"), first)
        self.assertEqual(words.holm([0.03, None, 0.01, 0.02]), [0.04, 0.0, 0.03, 0.04])

    def test_one_seed_proves_nothing(self):
        first, *others = cells_ending_at([2.0], [2.5])
        self.assertEqual(first, "Lowest final loss: pre, 2.0000 nats per token. It may be chance.")


class Surfaces(unittest.TestCase):
    @staticmethod
    def crossed(keys, tuned, rows):
        columns = ["cell", "stage", "placement", "peak_lr", "warmup", "seed", "state", "final_val"]
        comparison = read.Comparison("made up", keys, None, pd.DataFrame(rows, columns=columns), tuned=tuned)
        cells = series.cells_of(comparison)
        return cells, series.surfaces(comparison, cells)

    def test_cells_of_a_grid_share_a_panel(self):
        rows = [[f"placement={p},lr={lr},warmup={w}", "final", p, lr, w, str(seed), "finished", lr * 100 + seed]
                for p in ("pre", "post") for lr in (0.01, 0.001) for w in ("40", "0") for seed in (1, 2)]
        rows[0][6] = "stuck"  # pre, 0.01, 40, seed 1
        cells, (pre, post) = self.crossed(["placement", "peak_lr", "warmup"], [], rows)
        self.assertEqual((pre.label, pre.cells, post.label, post.cells), ("pre", [0, 1, 2, 3], "post", [4, 5, 6, 7]))
        self.assertEqual(cells[0].label, "pre · lr 0.01 · warmup 40")
        found = {(row.peak_lr, row.warmup): (row.loss, row.states) for row in pre.points.itertuples()}
        self.assertTrue(np.isnan(found[0.01, "40"][0]))
        self.assertEqual(found[0.01, "40"][1], ["stuck", "finished"])
        self.assertAlmostEqual(found[0.001, "0"][0], 1.6)

    def test_one_of_both_is_no_surface(self):
        rows = [["placement=pre", "tune", "pre", lr, "", "1", "finished", 1.0] for lr in (0.01, 0.001)]
        rows += [["placement=pre", "final", "pre", 0.01, "", "1", "finished", 1.0]]
        self.assertEqual(self.crossed(["placement"], ["peak_lr"], rows)[1], [])

    def test_order_of_warmups(self):
        self.assertEqual(sorted(["40%", "2.5%", "100", "20", "10%"], key=series.size_of),
                         ["20", "100", "2.5%", "10%", "40%"])


RUN = "placement=pre,norm=layernorm/seed=1"
SAMPLES = "==== step 100 ====\nOn dya\n==== step 200 ====\nOne day,\n<b>Tom</b>\n==== step 200 ====\nOne day\n"


def single(out):
    fixtures.Maker(out.with_name("whole"), TWO)
    shutil.copytree(out.with_name("whole") / RUN, out)
    lines = (out.with_name("whole") / "diagnostics.csv").read_text().splitlines()
    mine = [line.split(",")[-5:] for line in lines[1:] if line.startswith('"placement=pre') and ",1," in line]
    (out / "diagnostics.csv").write_text("\n".join(["step,layer,part,what,value", *map(",".join, mine)]) + "\n")
    (out / "samples.txt").write_text(SAMPLES)
    (out / "history.jsonl").write_text('{"date": "2026-11-26T09:30:00Z", "version": "v0.1.0", '
                                       '"compiler": "g++ 12.2.0", "simd": "AVX2", "from_step": 0}\n{"date": ')
    (out / "outcome.json").write_text('{"state": "finished", "parameters": 59000, "floor": 0.0894, '
                                      '"val_loss_full": 0.1234}')


class Single(Scratch):
    make = {"0001-pre": single}

    def test_the_program_and_the_date(self):
        directory = self.scratch / "0001-pre"
        program = words.programs(read.read_runs([directory]).runs)
        self.assertEqual(program, [("program", "train_gpt v0.1.0, g++ 12.2.0, AVX2"), ("trained on", "2026-11-26")])
        other = {"version": "v0.2.0", "compiler": "clang 19", "simd": "NEON", "date": "2027-01-02T00:00:00Z"}
        both = words.programs(pd.DataFrame([other, read.read_program(directory)]))
        self.assertEqual(both[0][0], "several programs")
        self.assertEqual(both[1], ("trained on", "2026-11-26 to 2027-01-02"))
        self.assertEqual(words.programs(pd.DataFrame([read.read_program(self.scratch)])), [])

    def test_samples(self):
        self.assertEqual(read.read_samples(self.scratch / "0001-pre"), [(100, "On dya"), (200, "One day")])
        self.assertEqual(read.read_samples(self.scratch), [])

    @unittest.skipUnless(browser.find(), "no Chromium or Chrome here")
    def test_page(self):
        directory = self.scratch / "0001-pre"
        result = run("report.py", directory)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.split(), [str(directory / "report.html")])
        with browser.Browser() as chrome:
            for width in (390, 1280):
                chrome.open((directory / "report.html").as_uri(), width)
                chrome.evaluate("Promise.all(ids.map((id) => { drawn.add(id); return draw(id); })).then(() => 0)")
                self.assertLessEqual(chrome.evaluate("document.documentElement.scrollWidth"), width)
            said = "0001-pre: validation loss 0.1234 nats per token, 0.0340 above the floor, after 400 steps."
            self.assertEqual(chrome.evaluate("document.getElementById('headline').textContent"), said)
            points = "Object.fromEntries(Object.keys(report.plots).map((id) => " \
                     "[id, document.getElementById(id).data[0].x.length]))"
            self.assertEqual(chrome.evaluate(points), {"loss": 400, "lr": 400, "grad_norm": 400})
            self.assertEqual(chrome.evaluate("ids.length"), 3 + 7 * 3)
            self.assertEqual(chrome.evaluate("[...document.querySelectorAll('#samples dd')].map((d) => d.textContent)"),
                             ["On dya", "One day"])
            self.assertEqual(chrome.errors(), [])

    def test_a_run_without_an_outcome_samples_or_validation(self):
        directory = self.scratch / "young"
        directory.mkdir()
        lines = (self.scratch / "0001-pre" / "metrics.csv").read_text().splitlines()
        (directory / "metrics.csv").write_text("\n".join(lines[:20]) + "\n")
        comparison = read.read_runs([directory])
        cell, = series.cells_of(comparison)
        said = words.run_headline(comparison, cell)
        self.assertIn("not validated", said[0])
        self.assertEqual(said[-1], "The run is not finished.")
        self.assertIn("kept no samples", page.of_run(comparison, []))

    def test_the_loss_on_the_whole_split_is_a_column_of_its_own(self):
        directory = self.scratch / "full"
        shutil.copytree(self.scratch / "0001-pre", directory)
        (directory / "outcome.json").unlink()
        rewrite(directory / "metrics.csv", lambda rows: [
            {**row, "val_loss_full": "0.15" if row["step"] == "400" else ""} for row in rows])
        comparison = read.read_runs([directory])
        self.assertEqual(comparison.runs.final_val.iloc[0], 0.15)
        cell, = series.cells_of(comparison)
        val = next(c for c in series.curves_of(comparison, cell, series.Scale(False)) if c.role == "val")
        self.assertEqual(val.full, 0.15)
        self.assertNotEqual(val.drawn().y.iloc[-1], 0.15)

    def test_a_resumed_run_ends_with_its_own_loss(self):
        directory = self.scratch / "resumed"
        shutil.copytree(self.scratch / "0001-pre", directory)
        (directory / "outcome.json").unlink()
        rewrite(directory / "metrics.csv", lambda rows: [
            {**row, "val_loss_full": "0.15" if row["step"] == "200" else "",
             "val_loss": "0.7" if row["step"] == "400" else row["val_loss"]} for row in rows])
        comparison = read.read_runs([directory])
        cell, = series.cells_of(comparison)
        said = words.run_headline(comparison, cell)
        self.assertIn("validation loss 0.7000 nats", said[0])
        self.assertRegex(said[1], r"Lowest on the way: \d\.\d{4} at step \d+\.")
        val = next(c for c in series.curves_of(comparison, cell, series.Scale(False)) if c.role == "val")
        self.assertTrue(np.isnan(val.full))
