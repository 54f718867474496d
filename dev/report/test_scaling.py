"""Laws of losses against size: the fits, their intervals, the compute saved, the section of the page."""

import csv
import unittest

import numpy as np

import fixtures
import page
import read
import scaling
import series
from testing import Scratch, rewrite, run

SIZES = np.array([2e4, 1e5, 3.5e5, 8e5, 1.6e6])


def three_sizes(out):
    fixtures.scaling(out, sizes=3)


def two_sizes(out):
    fixtures.scaling(out, sizes=2)


def real_text(out):
    fixtures.scaling(out, floor=False)


def bent(out):
    """The largest size of a placement has half the loss that its law says."""
    fixtures.scaling(out)
    rewrite(out / "runs.csv", lambda rows: [
        {**row, "final_val": fixtures.FLOOR + (float(row["final_val"]) - fixtures.FLOOR) / 2}
        if row["cell"] == "placement=post,size=d5" else row for row in rows])


def one_seed(out):
    fixtures.scaling(out, seeds=1)


def groups_in(directory):
    comparison = read.read_comparison(directory)
    return scaling.groups_with_laws(comparison, series.cells_of(comparison)), series.floor_of(comparison)


class Fits(unittest.TestCase):
    def test_a_law_without_noise_is_found(self):
        for E, A, alpha in ((0.09, 40, 0.45), (1.7, 400, 0.34), (0.0, 5, 0.07)):
            loss = E + A * SIZES ** -alpha
            for x, factor in ((SIZES, 1), (120 * SIZES ** 2, 120 ** (alpha / 2))):
                power = alpha if factor == 1 else alpha / 2
                fixed = scaling.fit(x, loss, E)
                self.assertAlmostEqual(fixed.alpha, power, places=6)
                self.assertAlmostEqual(fixed.A / (A * factor), 1, places=4)
                self.assertEqual(fixed.E, E)
                fitted = scaling.fit(x, loss)
                self.assertAlmostEqual(fitted.alpha / power, 1, places=3)
                self.assertAlmostEqual(fitted.E, E, places=3)

    def test_a_loss_that_is_not_above_the_floor_has_no_law(self):
        self.assertIsNone(scaling.fit(SIZES, [1, 0.8, 0.6, 0.5, 0.4], 0.4))

    def test_a_law_reaches_a_loss(self):
        law = scaling.Law(0.5, 40, 0.45)
        self.assertAlmostEqual(law.inverse(float(law.at(1e5))), 1e5, places=4)
        self.assertEqual(law.inverse(0.5), np.inf)
        self.assertEqual(scaling.Law(0.5, 40, 1e-4).inverse(0.6), np.inf)  # hardly falls

    def test_a_mean_below_0_has_no_law(self):
        self.assertIsNone(scaling.fit(SIZES, [1, 0.8, 0.6, 0.5, -0.1]))

    def test_an_interval_may_end_at_infinity(self):
        self.assertEqual(scaling.interval([-np.inf] * 20 + [0.1] * 380), (-np.inf, 0.1))
        said = scaling.saving_text(scaling.Saving(1, "d5", -25.6, (-np.inf, -1.9), False))
        self.assertEqual(said, "needs 26.6 × (2.9 to ∞) the compute")


class Scaling(Scratch):
    make = {make.__name__: make for make in (fixtures.scaling, three_sizes, two_sizes, real_text, one_seed, bent)}

    def covers(self, bounds, value):
        self.assertLess(bounds[0], value)
        self.assertGreater(bounds[1], value)

    def test_intervals_cover_the_planted_law(self):
        for name, kinds in (("scaling", (True, False)), ("real_text", (False,))):
            groups, _ = groups_in(self.scratch / name)
            self.assertEqual([group.label for group in groups], ["pre", "post"])
            for group in groups:
                A, alpha = fixtures.LAWS[group.label]
                self.assertEqual({fixed for _, fixed in group.laws}, set(kinds))
                for fixed in kinds:
                    found = group.laws["parameters", fixed]
                    self.covers(found.intervals["alpha"], alpha)
                    self.covers(found.intervals["A"], A)
                    self.assertLess(np.ptp(found.intervals["alpha"]), 0.03 if fixed else 0.3)
                    if not fixed:
                        self.covers(found.intervals["E"], fixtures.FLOOR)

    def test_compute_saved_at_equal_loss(self):
        (pre, post), floor = groups_in(self.scratch / "scaling")
        (A, alpha), (more, _) = fixtures.LAWS["pre"], fixtures.LAWS["post"]
        self.assertIsNone(pre.saving)
        self.assertAlmostEqual(post.saving.share, 1 - (more / A) ** (2 / alpha), delta=0.6)
        self.covers(post.saving.interval, 1 - (more / A) ** (2 / alpha))
        self.assertTrue(post.saving.beyond)
        self.assertRegex(scaling.headline([pre, post], floor)[0], r"^post needs [56]\.\d × \(\d\.\d to \d\.\d\) "
                         "the compute for the loss that pre has at size d5")
        pre.baseline, post.baseline = False, True
        pre.saving, post.saving = scaling.saving(pre, post, True), None
        self.assertAlmostEqual(pre.saving.share, 1 - (A / more) ** (2 / alpha), delta=0.05)
        self.assertFalse(pre.saving.beyond)
        self.assertRegex(scaling.headline([pre, post], floor)[0],
                         r"^pre saves 8\d % \(\d+ to \d+\) of the compute for ")
        self.assertEqual(scaling.saving_text(scaling.Saving(1, "d5", -0.12, (-0.15, 0.02), False)),
                         "needs 12 % (−2 to 15) more compute")

    def test_losses_that_follow_no_law_save_nothing(self):
        (pre, post), floor = groups_in(self.scratch / "bent")
        self.assertLess(pre.laws["flops", True].miss, 0.05)
        self.assertGreater(post.laws["flops", True].miss, 0.2)
        self.assertIsNone(post.saving)
        self.assertRegex(scaling.headline([pre, post], floor)[0],
                         r"^The losses of post follow no law: they are up to \d\d % of the loss above E off it")
        self.assertEqual([row[2] for row in scaling.table([pre, post])[1]], ["baseline", "no law"])

    def test_pairs_of_seeds_are_drawn_together(self):
        groups, _ = groups_in(self.scratch / "scaling")
        noise = [np.array([group.points["mean"] - fixtures.FLOOR for group in groups])]
        draws = np.random.default_rng(3)
        noise += [np.array(scaling.resampled_means(groups, draws)) - fixtures.FLOOR for _ in range(200)]
        ratio = np.log([one[0] / one[1] for one in noise])
        self.assertLess(ratio.std(axis=0).max(), 0.8 * np.log([one[0] for one in noise]).std(axis=0).max())

    def test_too_few_sizes(self):
        groups, floor = groups_in(self.scratch / "two_sizes")
        self.assertEqual(scaling.missing(groups, floor), "A law of a text whose entropy is known needs at least 3 "
                         "sizes whose runs all finished; there are 2.")
        self.assertEqual([group.laws for group in groups], [{}, {}])
        self.assertEqual(scaling.rows_of(groups), [])
        groups, floor = groups_in(self.scratch / "three_sizes")
        self.assertEqual({fixed for _, fixed in groups[0].laws}, {True})  # not enough for E

    def test_one_seed_has_no_interval(self):
        groups, floor = groups_in(self.scratch / "one_seed")
        self.assertEqual(groups[0].laws["parameters", True].intervals, {})
        self.assertEqual(groups[1].saving.interval, ())
        self.assertIn(", which may be chance.", scaling.headline(groups, floor)[0])

    def test_the_only_law_is_named(self):
        groups, floor = groups_in(self.scratch / "scaling")
        groups[1].laws, groups[1].saving = {}, None
        law, lack = scaling.headline(groups, floor)
        self.assertRegex(law, r"^The loss above the floor of pre falls as parameters\^−0\.")
        self.assertIn("There is no law of post: ", lack)

    def test_a_size_that_did_not_finish_is_left_out(self):
        rewrite(self.scratch / "three_sizes" / "runs.csv", lambda rows: [
            {**row, "state": "diverged"} if (row["cell"], row["seed"]) == ("placement=pre,size=d2", "1") else row
            for row in rows])
        groups, _ = groups_in(self.scratch / "three_sizes")
        self.assertEqual([list(group.points["size"]) for group in groups], [["d1", "d3"], ["d1", "d2", "d3"]])
        self.assertEqual([bool(group.laws) for group in groups], [False, True])
        three_sizes(self.scratch / "three_sizes")

    def test_the_report_has_them(self):
        for name in ("scaling", "two_sizes", "real_text"):
            directory = self.scratch / name
            made = run("report.py", directory)
            self.assertEqual(made.returncode, 0, made.stderr)
            has_laws = name != "two_sizes"
            self.assertEqual((directory / "scaling.csv").exists(), has_laws)
            self.assertTrue((directory / "scaling.png").exists())
            text = (directory / "report.html").read_text(encoding="utf-8")
            self.assertIn('<section id="scales">', text)
            self.assertEqual('<table id="laws">' in text, has_laws)
            if has_laws:
                with open(directory / "scaling.csv", newline="", encoding="utf-8") as file:
                    rows = list(csv.DictReader(file))
                fixed = next((row for row in rows if row["E is"] == "floor"), None)
                self.assertEqual(fixed is not None, name != "real_text")
                if fixed:
                    self.assertAlmostEqual(float(fixed["alpha"]), fixtures.LAWS["pre"][1], delta=0.05)

    def test_other_grids_have_no_section(self):
        fixtures.plain(self.scratch / "plain")
        text = page.of_comparison(read.read_comparison(self.scratch / "plain"))
        self.assertNotIn('id="scales"', text)
