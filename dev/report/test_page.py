"""Reports of synthetic comparisons in a real browser."""

import math
import re
import unittest
from statistics import mean, stdev

import browser
import fixtures
from testing import Scratch, rewrite, rows_of, run

FULL_CELLS = [f"{placement} · {norm}" for placement in ("pre", "post", "sandwich", "deepnorm")
              for norm in ("layernorm", "rmsnorm")]

FARTHEST = "Math.max(...document.getElementById('loss').data.flatMap((t) => t.x).filter((x) => x !== null))"

# [role, label of the cell, length of its outline] of each trace in the figure's SVG.
TRACES = """(id) => {
  const gd = document.getElementById(id), paths = new Map();
  gd.querySelectorAll('.scatterlayer .trace').forEach((g) => {
    const d = [...g.querySelectorAll('path')].map((p) => p.getAttribute('d')).join('');
    paths.set(g.__data__[0].trace.index, d.length);
  });
  return gd.data.map((t, i) => [t.meta.role, report.cells[t.meta.cell].label, paths.get(i) || 0]);
}"""


def within_a_margin(out):
    """fixtures.tuned, with Sandwich-LN equal to the baseline within a margin."""
    fixtures.tuned(out)
    rewrite(out / "summary.csv", lambda rows: [
        {**row, "verdict": "equal within 0.01", "p_unequal": "0.0312"} if row["placement"] == "sandwich" else row
        for row in rows])


@unittest.skipUnless(browser.find(), "no Chromium or Chrome here")
class Page(Scratch):
    make = {"full": fixtures.full, "plain": fixtures.plain, "tuned": within_a_margin}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in cls.make:
            result = run("report.py", cls.scratch / name)
            if result.returncode:
                raise RuntimeError(result.stderr)
        cls.browser = browser.Browser().__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, name, width=1280, anchor="", **how):
        self.browser.open((self.scratch / name / "report.html").as_uri() + anchor, width, **how)
        self.browser.evaluate("Promise.all(ids.map((id) => { drawn.add(id); return draw(id); })).then(() => 0)")

    def traces(self, figure):
        return self.browser.evaluate(f"({TRACES})('{figure}')")

    def drawn(self, figure, role):
        return [label for kind, label, length in self.traces(figure) if kind == role and length > 10]

    def clean(self):
        self.assertEqual(self.browser.errors(), [])
        others = [url for url in self.browser.requests() if not url.split("#")[0].endswith("/report.html")]
        self.assertEqual(others, [])

    def check_losses(self):
        well = [label for label in FULL_CELLS if label not in ("post · rmsnorm", "deepnorm · rmsnorm")]
        self.assertEqual(sorted(self.drawn("loss", "val")), sorted(well))
        self.assertEqual(sorted(self.drawn("loss", "train")), sorted(well))
        self.assertEqual(sorted(self.drawn("loss", "band")), sorted(well))
        lost = ["post · layernorm"] + 3 * ["post · rmsnorm"] + 3 * ["deepnorm · rmsnorm"]
        self.assertEqual(sorted(self.drawn("loss", "lost")), sorted(lost))
        self.assertEqual(sorted(self.drawn("loss", "cross")), sorted(lost))

    def test_every_curve_against_steps(self):
        self.open("full")
        self.check_losses()
        self.assertEqual(self.browser.evaluate("document.getElementById('loss')._fullLayout.yaxis.type"), "log")
        self.assertEqual(self.browser.evaluate(FARTHEST), 400)
        self.clean()

    def test_every_curve_against_seconds(self):
        self.open("full", anchor="#seconds")
        self.check_losses()
        self.assertLess(self.browser.evaluate(FARTHEST), 3)
        self.clean()

    def test_axes(self):
        self.open("full")
        for x, title, end in (("seconds", "seconds of training", None), ("tokens", "tokens", 400 * 512),
                              ("flops", "FLOPs", 6 * 59000 * 400 * 512)):
            self.browser.evaluate(f"document.querySelector('[data-x={x}]').click()")
            self.browser.wait(f"document.querySelector('#loss .xtitle').textContent === '{title}'")
            self.check_losses()
            if end:
                self.assertAlmostEqual(self.browser.evaluate(FARTHEST) / end, 1, places=6)
        kinds = "(({ xaxis, yaxis }) => [xaxis.type, yaxis.type])(document.getElementById('loss')._fullLayout)"
        self.assertEqual(self.browser.evaluate(kinds), ["linear", "log"])
        self.browser.evaluate("document.querySelectorAll('[data-log]').forEach((b) => b.click())")
        self.assertEqual(self.browser.evaluate(kinds), ["log", "linear"])
        self.clean()

    def test_smoothing(self):
        self.open("full")
        curve = """(() => { const of = (role) => document.getElementById('loss').data.find((t) => t.meta.role === role);
            return [of('train').y, of('val').y]; })()"""
        some, val = self.browser.evaluate(curve)
        self.browser.evaluate("smoothing.value = '0'; smoothing.dispatchEvent(new Event('change'))")
        none, same = self.browser.evaluate(curve)
        self.assertEqual(val, same)
        rough = [sum(abs(a - 2 * b + c) for a, b, c in zip(y, y[1:], y[2:])) for y in (some, none)]
        self.assertLess(rough[0], 0.7 * rough[1])
        self.assertNotAlmostEqual(some[-1], none[-1], places=4)

    def test_saving_what_is_shown(self):
        self.open("full")
        self.browser.evaluate("document.querySelector('[data-toggle=\"0\"]').click()")
        head, *rows = self.browser.evaluate("textOf('loss', 'CSV')").splitlines()
        self.assertEqual(head, "curve,kind,step,loss above the floor (nats per token),95 % interval ±")
        self.assertEqual({row.split(",")[0] for row in rows}, set(FULL_CELLS) - {"pre · layernorm"})
        last = next(r for r in reversed(rows) if r.startswith("pre · rmsnorm,val")).split(",")
        self.assertEqual(last[2], "400")
        self.assertGreater(float(last[4]), 0)
        markdown = self.browser.evaluate("textOf('table', 'Markdown')").splitlines()
        self.assertEqual(markdown[1], "| --- |" + " ---: |" * (markdown[0].count("|") - 2))
        self.assertEqual(len(markdown), 2 + len(FULL_CELLS) - 1)
        latex = self.browser.evaluate("textOf('table', 'LaTeX')")
        self.assertIn("pre $\\cdot$ rmsnorm & 0.12", latex)
        self.assertIn(" $\\pm$ ", latex)
        self.assertIn("\\end{tabular}", latex)
        self.assertIn("pre · rmsnorm,0.12", self.browser.evaluate("textOf('table', 'CSV')"))
        svg = self.browser.evaluate("Plotly.toImage(pictureOf('loss'), { format: 'svg' }).then(decodeURIComponent)")
        self.assertIn("sandwich · rmsnorm", svg)  # the legend
        self.assertNotIn("pre · layernorm", svg)
        png = self.browser.evaluate("Plotly.toImage(pictureOf('rates'), { format: 'png' })")
        self.assertTrue(png.startswith("data:image/png;base64,") and len(png) > 10000)
        self.clean()

    def test_curves_come_first(self):
        self.open("full")
        places = self.browser.evaluate("""['#loss', '#recipe', '#table'].map((id) => document.querySelector(id))
            .map((e) => e.getBoundingClientRect()).map((r) => [r.top + scrollY, r.bottom + scrollY])""")
        self.assertEqual(places, sorted(places))
        self.assertLess(places[0][0], 450)
        self.assertLessEqual(places[0][1], 900)
        line = self.browser.evaluate("document.querySelector('.recipe').textContent")
        for words in ("stories.txt", "6 layers × 32 channels", "context 64", "59 k parameters", "400 steps",
                      "204,800 tokens", "3 seeds", "learning rate tuned over 0.0003 to 0.03"):
            self.assertIn(words, line)

    def test_a_table_that_scrolls_says_so(self):
        hint = "getComputedStyle(document.querySelector('.hint')).display !== 'none'"
        self.open("full", 1280)
        self.browser.wait(f"!({hint})")
        self.browser.evaluate("document.getElementById('all-columns').click()")
        self.browser.wait(hint)
        self.open("full", 390)
        self.browser.wait(hint)
        self.browser.evaluate("document.querySelector('.scroll').scrollLeft = 9999")
        self.browser.wait(f"!({hint})")

    def test_values_are_those_of_the_files(self):
        """The last point of pre · layernorm: the mean of three seeds' final losses above the floor, its interval."""
        self.open("full")
        finals = [float(r["final_val"]) for r in rows_of(self.scratch / "full/runs.csv")
                  if r["cell"] == "placement=pre,norm=layernorm" and r["stage"] == "final"]
        got = self.browser.evaluate("""(() => { const t = document.getElementById('loss').data.find(
            (t) => t.meta.role === 'val' && report.cells[t.meta.cell].label === 'pre · layernorm');
            return [t.x.at(-1), t.y.at(-1), t.customdata.at(-1)]; })()""")
        want = [400, mean(finals) - fixtures.FLOOR, fixtures.T_975[3] * stdev(finals) / math.sqrt(3)]
        for a, b in zip(got, want, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-6 * max(1, b))

    def test_learning_rates(self):
        self.open("full")
        self.assertEqual(sorted(self.drawn("rates", "rate")), sorted(FULL_CELLS))
        points = self.browser.evaluate("""Object.fromEntries(document.getElementById('rates').data.map(
            (t) => [report.cells[t.meta.cell].label, [t.x, t.marker.symbol, t.y]]))""")
        x, symbols, y = points["pre · layernorm"]
        self.assertEqual(x, [3e-4, 1e-3, 3e-3, 1e-2, 3e-2])
        self.assertEqual(symbols[-1], "x")
        self.assertEqual(len(set(symbols[:-1])), 1)
        initial = next(float(r["initial_loss"]) for r in rows_of(self.scratch / "full/runs.csv")
                       if r["cell"] == "placement=pre,norm=layernorm" and r["peak_lr"] == "0.03")
        self.assertAlmostEqual(y[-1], initial - fixtures.FLOOR, places=6)
        stuck = next(float(r["final_val"]) for r in rows_of(self.scratch / "full/runs.csv")
                     if r["cell"] == "placement=sandwich,norm=layernorm" and r["peak_lr"] == "0.03")
        self.assertEqual(points["sandwich · layernorm"][1][-1], "square-open")
        self.assertAlmostEqual(points["sandwich · layernorm"][2][-1], stuck - fixtures.FLOOR, places=6)
        said = self.browser.evaluate("document.getElementById('sensitivity').textContent")
        for row in rows_of(self.scratch / "full/summary.csv"):
            none = row["cell"] in ("placement=post,norm=rmsnorm", "placement=deepnorm,norm=rmsnorm")
            label = " · ".join((row["placement"], row["norm"]))
            self.assertIn(f"{label} {'no rate worked' if none else format(float(row['lr_sensitivity']), '.3f')}", said)

    def test_profiles(self):
        self.open("full")
        panels = self.browser.evaluate("ids.filter((id) => id.startsWith('profile'))")
        self.assertEqual(len(panels), 7 * 3)
        for panel in panels:
            there = [c for c in FULL_CELLS if panel.endswith("start") or c != "post · rmsnorm"]  # that diverged
            self.assertEqual(sorted(self.drawn(panel, "profile")), sorted(there), panel)
        rows = rows_of(self.scratch / "full/diagnostics.csv")
        for panel, step in (("start", "1"), ("middle", "200"), ("end", "400")):  # gradient norms of ffn.down.weight
            where = ("placement=pre,norm=layernorm", step, "2", "ffn.down.weight", "grad_norm")
            values = [float(r["value"]) for r in rows
                      if (r["cell"], r["step"], r["layer"], r["part"], r["what"]) == where]
            got = self.browser.evaluate(f"""(() => {{ const t = document.getElementById('profile-0-{panel}').data.find(
                (t) => t.meta.role === 'profile' && t.meta.cell === 0); return [t.x[2], t.y[2]]; }})()""")
            self.assertEqual(len(values), 3)
            self.assertEqual(got[0], 2)
            self.assertAlmostEqual(got[1], sum(values) / 3, places=7)

    def test_legend_switches_a_cell_off(self):
        self.open("full")
        self.browser.evaluate("document.querySelector('[data-toggle=\"0\"]').click()")
        self.browser.wait("document.getElementById('loss').data.filter((t) => t.visible === false).length > 0")
        for figure in ("loss", "rates", "profile-0-start"):
            for role, label, length in self.traces(figure):
                self.assertEqual(length == 0, label == "pre · layernorm", (figure, role, label))

    def test_words(self):
        self.open("full")
        self.browser.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; }); "
                              "document.getElementById('all-columns').click()")
        text = self.browser.evaluate("document.querySelector('main').innerText")
        text = text.replace("\u00a0", " ")
        for words in ("pre · layernorm and pre · rmsnorm end lowest and cannot be told apart: 0.12",
                      "1 of 3 diverged: post · layernorm;", "3 of 3 stuck: deepnorm · rmsnorm.", "2/3 finished",
                      "0.0894 nats per token", "0.0003, 0.001, 0.003, 0.01, 0.03, on seed 1", "1, 1.86"):
            self.assertIn(words, text)
        row = next(r for r in rows_of(self.scratch / "full/summary.csv") if r["verdict"] == "worse")
        self.assertIn(f"+{float(row['difference']):.4f} ± {float(row['difference_ci']):.4f}", text)
        self.assertNotIn("nan", re.sub(r"\w{4,}", "", text.lower()).split())
        commands = self.browser.evaluate("[...document.querySelectorAll('#commands pre')].map((p) => p.textContent)")
        self.assertEqual(sorted(commands), sorted(r["command"] for r in rows_of(self.scratch / "full/runs.csv")))

    def test_learning_rate_and_warmup(self):
        self.open("tuned")
        panels = self.browser.evaluate("""[...document.querySelectorAll('#surfaces figure')].map((f) =>
            [f.querySelector('figcaption').textContent, [...f.querySelectorAll('tr')].map((r) =>
                [...r.cells].map((c) => (c.className === 'chosen' ? '*' : '') + c.textContent))])""")
        self.assertEqual([label for label, _ in panels], ["pre", "post", "sandwich"])
        runs = [r for r in rows_of(self.scratch / "tuned/runs.csv") if r["stage"] == "tune"]
        for label, ((_, *rates), *rows) in panels:
            self.assertEqual(rates, ["0.001", "0.003", "0.01"])
            self.assertEqual([row[0] for row in rows], ["2.5%", "10%", "40%"])
            for warmup, *fields in rows:
                for rate, field in zip(rates, fields):
                    run, = (r for r in runs if (r["placement"], r["peak_lr"], r["warmup"]) == (label, rate, warmup))
                    best = (rate, warmup) == ("0.003", fixtures.BEST_WARMUP)
                    loss = f"{'*' if best else ''}{float(run['final_val']):.3f}"
                    self.assertEqual(field, loss if run["state"] == "finished" else "stuck")
        self.assertIn("stuck", str(panels[1]))
        shades = self.browser.evaluate("""[...document.querySelectorAll('#surfaces td[style]')].map((c) =>
            [+c.textContent, +c.style.getPropertyValue('--share').slice(0, -1)])""")
        losses, shares = zip(*sorted(shades))
        self.assertEqual((shares[0], shares[-1]), (100, 0))
        self.assertEqual(list(shares), sorted(shares, reverse=True))
        self.browser.evaluate("document.querySelector('[data-toggle=\"1\"]').click()")
        hidden = self.browser.evaluate("[...document.querySelectorAll('#surfaces figure')].map((f) => f.hidden)")
        self.assertEqual(hidden, [False, True, False])
        self.clean()

    def test_corrected_verdicts_and_tuned_options_are_columns(self):
        self.open("tuned")
        head, *rows = self.browser.evaluate("textOf('table', 'CSV')").splitlines()
        self.assertIn("verdict,verdict (Holm),learning rate,warm-up", head)
        row = next(row for row in rows if row.startswith("post"))
        self.assertIn("worse,not distinguishable,0.003,40%", row)
        row = next(row for row in rows if row.startswith("sandwich"))
        self.assertIn("equal within 0.01,not distinguishable", row)
        self.browser.evaluate("document.getElementById('all-columns').click()")
        self.assertIn("0.0312", self.browser.evaluate("textOf('table', 'CSV')"))
        self.assertIn("two one-sided t tests", self.browser.evaluate("document.querySelector('main').innerText"))
        line = self.browser.evaluate("document.querySelector('.recipe').textContent")
        self.assertIn("warm-up tuned over 2.5% to 40%", line)

    def test_table_sorts(self):
        self.open("full")
        first = "document.querySelector('#table tbody tr').cells[0].innerText"
        self.assertEqual(self.browser.evaluate(first), "pre · layernorm")
        self.browser.evaluate("const h = document.querySelectorAll('#table th')[1]; h.click(); h.click()")
        self.assertEqual(self.browser.evaluate(first), "deepnorm · layernorm")

    def test_without_floor_tuning_diagnostics_and_times(self):
        self.open("plain")
        self.assertEqual(sorted(self.drawn("loss", "val")), ["layers 2", "layers 4", "layers 8"])
        self.assertEqual(self.drawn("loss", "band"), [])
        self.assertEqual(self.browser.evaluate("document.getElementById('loss')._fullLayout.yaxis.type"), "linear")
        self.assertEqual(self.browser.evaluate("ids"), ["loss"])
        self.assertTrue(self.browser.evaluate("document.querySelector('[data-x=seconds]').disabled"))
        text = self.browser.evaluate("document.querySelector('main').innerText")
        self.assertIn("It may be chance.", text)
        self.assertIn("With one seed for each cell", text)
        self.clean()

    def test_fits_phone_and_desk(self):
        for name in self.make:
            for width in (390, 1280):
                self.open(name, width)
                self.browser.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                wide = self.browser.evaluate("""[...document.querySelectorAll('main *')].filter((e) =>
                    !e.closest('.scroll, .panels, .surfaces') && e.getBoundingClientRect().right > innerWidth + 1)
                    .map((e) => e.outerHTML.slice(0, 80))""")
                self.assertEqual(wide, [], (name, width))
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_labels_of_axes_do_not_overlap(self):
        for width in (390, 1280):
            self.open("full", width)
            bad = self.browser.evaluate("""ids.flatMap((id) => ['x', 'y'].flatMap((a) => {
                const boxes = [...document.querySelectorAll(`#${id} .${a}tick text`)]
                    .map((t) => t.getBoundingClientRect());
                const tilted = a === 'x' && document.querySelector(`#${id} .xtick text`).getAttribute('transform')
                    .startsWith('rotate(-');
                return boxes.slice(1).filter((b, i) => !tilted && boxes[i].right > b.left && b.right > boxes[i].left &&
                    boxes[i].bottom > b.top + 2 && b.bottom > boxes[i].top + 2).map(() => id + a); }))""")
            self.assertEqual(bad, [], width)

    def test_dark(self):
        self.open("full", dark=True)
        colors = self.browser.evaluate("[getComputedStyle(document.body).backgroundColor, "
                                        "document.getElementById('loss').data.find((t) => t.line).line.color]")
        self.assertEqual(colors[0], "rgb(20, 23, 26)")
        self.assertIn(colors[1].upper(), ("#56A8DE", "#F08A45", "#35C29B", "#DD8FBD"))
