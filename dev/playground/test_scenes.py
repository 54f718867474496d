#!/usr/bin/env python3
"""Run the playground in headless Chromium, from file:// and with the network cut.

usage: test_scenes.py [PAGE] [--minutes N] [--seeds N] [unittest's options]
  --minutes N   how long memory is watched (1)
  --seeds N     run each scene with the seeds 1 to N instead of its own
"""

import json
import re
import sys
import time
import unittest
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "report"))
from browser import Browser, find  # noqa: E402

PAGE = HERE.parents[1] / "build" / "playground.html"
MINUTES = 1.0
SEEDS = 0
SCENES = ("warm-up", "deep", "deepnorm", "inverted", "none", "batchnorm", "dyt", "rmsnorm")
SECONDS = 400  # for the slowest scene, on a busy machine
SMALL = {"tokenizer": "char", "bytes": "1M", "steps": 30, "batch": 4, "context": 16, "heads": 2, "channels": 16,
         "layers": 2}
VIEWS = {"gradients": "#tower .part", "stream": "#tower .part", "norms": "#figure-0 canvas",
         "updates": "#figure-1 canvas", "attention": "#heads canvas", "token": "#trace td",
         "later": "#leaks .bars span", "samples": "#samples dd"}  # and what each shows
# Each would run in one of the places where a text stands: between tags, in an attribute, in a script.
PAYLOADS = ("<img src=x onerror=hacked=1>", "\"><img src=x onerror=hacked=1>", "'><img src=x onerror=hacked=1>",
            "</textarea></select><script>hacked=1</script>", "\" autofocus onfocus=hacked=1 x=\"")
# What a plot may be asked to draw, one list for each line.
VALUES = ([0], [0, 0, 0], [1, 1, 1], [1e-23, 1e-5, 0.1], [5e-324, 1e-45, 1], [1e-45] * 3, [1e38, 1e300, 1e308],
          [1e20] * 3, [-1e300, 0, 1e300], [1, 1 + 2e-16, 1], ["NaN", 1, "NaN"], ["NaN"] * 3,
          ["Infinity", 1, "-Infinity"], ["Infinity"] * 3, [-1, -2, -3], ["null", 1, "null"], ["null"] * 3,
          ["undefined", 1e-30, 5], [0.999, 1, 1.001], [])
OVER = "state.models.length && state.models.every((model) => model.over)"


@unittest.skipUnless(find(), "needs Chromium or Chrome")
class Playground(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Browser())

    def open(self, fragment="", **size):
        self.browser.open(PAGE.as_uri() + fragment, **size)
        self.browser.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0,
                          uploadThroughput=0)
        self.browser.wait("optionTable.length > 0")

    def race(self, models, **common):
        return "#race=" + quote(json.dumps({"common": {**SMALL, **common}, "models": models}))

    def click(self, selector):
        self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, selector, text):
        self.browser.evaluate(f"""{{ const input = document.querySelector({json.dumps(selector)});
          input.value = {json.dumps(text)}; input.dispatchEvent(new Event("input", {{ bubbles: true }})); }}""")

    def finish(self, seconds=SECONDS):
        self.browser.wait(OVER, seconds)

    def run_race(self, models, **common):
        self.open(self.race(models, **common))
        self.click("#run")
        self.finish()

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual([url for url in self.browser.requests() if not url.startswith(PAGE.as_uri())], [])


class Scenes(Playground):
    """Each scene opens with one click, starts with a prediction and runs to its claim."""

    def run_scene(self, name):
        for seed in range(1, SEEDS + 1) or [None]:
            with self.subTest(seed=seed):
                self.run_scene_with(name, seed)

    def run_scene_with(self, name, seed):
        self.open()
        if seed:
            self.browser.evaluate(f"kScenes.find(({{ id }}) => id === {json.dumps(name)}).common.seed = {seed}")
        self.click(f"[data-scene={name}]")
        self.click("[data-guess='0']")
        self.finish()
        checks = self.browser.evaluate("state.race.claim(state.models)")
        if seed:
            losses = self.browser.evaluate("state.models.map((model) => fixed(model.loss()))")
            print(f"{name}, seed {seed}: {', '.join(losses)}; {sum(c['held'] for c in checks)} of {len(checks)} held")
        self.assertGreaterEqual(len(checks), 3)
        for check in checks:
            self.assertTrue(check["held"], check["text"])
        self.browser.wait(f"document.querySelectorAll('#verdict li.held').length === {len(checks)}")
        self.assertEqual(self.browser.evaluate("location.hash"), f"#scene={name}")

    def test_names(self):
        self.open()
        self.assertEqual(tuple(self.browser.evaluate("kScenes.map(({ id }) => id)")), SCENES)

    def test_warm_up_in_numbers(self):
        """The claim once more, from the curves alone."""
        self.run_scene("warm-up")
        post, warm, pre = self.browser.evaluate(
            "state.models.map(({ rows }) => rows.loss.slice(-20).reduce((a, b) => a + b, 0) / 20)")
        unigram = self.browser.evaluate("state.models[0].ready.unigram")
        self.assertAlmostEqual(post, unigram, delta=0.05)
        self.assertLess(pre, unigram - 0.5)
        self.assertLess(warm, unigram - 0.5)


def add_scene(name):
    def test(self):
        self.run_scene(name)
    setattr(Scenes, f"test_{name.replace('-', '_')}", test)


for scene in SCENES[1:]:  # the first has a test of its own
    add_scene(scene)


class Page(Playground):
    def test_size(self):
        self.assertLessEqual(PAGE.stat().st_size, 3_000_000)

    def test_one_button_starts(self):
        self.open()
        self.click("#first")
        self.click("#run")
        self.browser.wait("state.models.some((model) => model.step > 3)")
        self.click("#run")
        self.browser.wait("state.models.every((model) => model.state !== 'running')")

    def test_plot_shows_all_steps_from_the_start(self):
        self.open(self.race([{"placement": "post"}, {"placement": "pre"}], steps=400))
        self.browser.wait("lossPlot.plot")
        ends = "[lossPlot.plot.scales.x.min, lossPlot.plot.scales.x.max]"
        self.assertEqual(self.browser.evaluate(ends), [0, 400])
        self.click("#run")
        self.browser.wait("state.models.some((model) => model.step > 3)")
        self.assertEqual(self.browser.evaluate(ends), [0, 400])

    def test_prediction(self):
        self.open(self.race([{"placement": "pre", "lr": 1e-9}, {"placement": "pre", "lr": 0.01}], steps=100))
        for guess, answer in ((0, "Not so"), (1, "Right"), (2, "Not so")):
            self.browser.evaluate("setRace(withText(raceOf(location.hash)))")
            self.click(f"[data-guess='{guess}']")
            self.assertTrue(self.browser.evaluate("$('predict').hidden"))
            self.finish()
            self.browser.wait("$('verdict').textContent")
            words = self.browser.evaluate("$('verdict').textContent")
            self.assertRegex(words, f"You predicted: .*{answer}: .* ends lowest")

    def test_predicts_no_difference(self):
        self.open(self.race([{"placement": "pre"}, {"placement": "pre"}]))
        self.click("[data-guess='2']")
        self.finish()
        self.browser.wait("$('verdict').textContent.includes('Right: the lowest losses are less than 0.1 apart')")

    def test_curves_have_the_unit_of_the_cards(self):
        self.run_race([{"placement": "post"}, {"placement": "pre"}])
        self.browser.wait("lossPlot.plot.data[1]?.length === 30")
        drawn, losses = self.browser.evaluate("[lossPlot.plot.data[1].at(-1), state.models[0].loss(10)]")
        self.assertAlmostEqual(drawn, losses)

    def test_label_is_off_a_stuck_curve(self):
        """It is above the curve, which falls when it is no longer stuck."""
        self.run_race([{"placement": "post"}, {"placement": "pre"}])
        labels, above = self.browser.evaluate("""(async () => {
          const context = CanvasRenderingContext2D.prototype, { fillText } = context, labels = [];
          context.fillText = function (text, x, y) {
            if (text.startsWith("unigram")) labels.push(y + this.measureText(text).actualBoundingBoxDescent);
            return fillText.call(this, text, x, y);
          };
          const steps = upTo(400), unigram = ready().unigram;
          lossPlot.draw([{ color: "red" }], [steps, steps.map((step) => unigram + 0.05 * Math.sin(step))], "");
          await new Promise((done) => setTimeout(done, 100));
          context.fillText = fillText;
          const top = lossPlot.plot.valToPos(unigram + 0.05, "y", true);
          return [labels.length, labels.filter((bottom) => bottom < top).length];
        })()""")
        self.assertGreater(labels, 0)
        self.assertEqual(above, labels)

    def test_slider_over_steps(self):
        self.run_race([{"placement": "post"}, {"placement": "pre"}], steps=100)
        slider = "document.querySelector('#moment')"
        data = "state.plots[0].plot.data"
        same = f"{data}.slice(1, 3).every((line, i) => `${{line}}` === `${{{data}[i + 3]}}`)"
        self.browser.wait(f"{slider}.max > 10 && {slider}.value === {slider}.max")
        self.assertFalse(self.browser.evaluate(same))
        self.fill("#moment", "0")
        self.browser.wait(f"{slider}.nextElementSibling.textContent === '1'")
        self.browser.wait(same)  # these are the thin lines of step 1
        self.click("[data-view=stream]")
        self.click("[data-view=gradients]")
        self.browser.wait(f"{slider}.value === {slider}.max")

    def test_batchnorm_reads_the_answer_in_a_small_batch(self):
        scene = {"layers": 2, "steps": 2000, "lr": 0.003, "warmup": 20, "placement": "pre", "channels": 32, "clip": 0,
                 "weight-decay": 0, "seed": 3, "batch": 1, "context": 8}
        self.run_race([{"norm": "batchnorm"}, {"norm": "layernorm"}], **scene)
        batch, layer = self.browser.evaluate("state.models.map((model) => model.loss(200))")
        self.assertLess(batch, layer - 0.3)

    def test_link_restores_settings(self):
        self.open(self.race([{"placement": "post", "lr": "0.002"}, {"placement": "pre", "lr": "0.004"}]))
        self.assertEqual(self.browser.evaluate("['lr-0', 'lr-1'].map((id) => $(id).value)"), ["0.002", "0.004"])
        self.fill("#lr-1", "0.005")
        self.click("#form [type=submit]")
        link = self.browser.evaluate("location.hash")
        self.open(link)
        self.assertEqual(self.browser.evaluate("document.getElementById('lr-1').value"), "0.005")
        self.click("#run")
        self.finish()
        self.assertEqual(self.browser.evaluate("state.models.map((model) => model.ready.settings.lr)"), [0.002, 0.005])

    def test_broken_link(self):
        self.open("#race=nonsense")
        self.assertIn("The link holds no race", self.browser.evaluate("document.getElementById('error').textContent"))
        self.assertEqual(self.browser.evaluate("state.race.id"), "warm-up")

    def test_links_run_nothing(self):
        """Every option, and names that are none, with markup as its value, in its name, and in the settings of all."""
        self.open()
        self.browser.evaluate("globalThis.hacked = 0")
        options = [*self.browser.evaluate("optionTable.map(({ name }) => name)"), *PAYLOADS, "constructor", "__proto__"]
        links = [self.race([{name: f"{text}{i}"} for i in range(2)], **{**SMALL, "steps": 2})
                 for name in options for text in PAYLOADS[:1]]
        links += [self.race([{"init-from": f"{text}{i}"} for i in range(2)]) for text in PAYLOADS]
        links += [self.race([{}, {}], **{name: text}) for name in options for text in PAYLOADS[:1]]
        links += ["#scene=" + quote(text) for text in PAYLOADS]
        for link in links:
            self.browser.evaluate(f"location.hash = {json.dumps(link)}")
            self.browser.wait(f"state.race && location.hash === {json.dumps(link)}")
            self.browser.evaluate("new Promise((done) => setTimeout(done, 20))")  # for the event of the new fragment
            if "race" in link:
                self.click("#step")
                self.browser.wait("state.models.every((model) => model.over || model.statistics)")
            self.browser.evaluate("for (const name in kViews) { openView(name); draw(); }")
            strangers = "document.querySelectorAll('main img, main script').length"
            self.assertEqual(self.browser.evaluate(f"[hacked, {strangers}]"), [0, 0], link)

    def test_markup_is_made_in_one_place(self):
        made = r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|createContextualFragment|DOMParser)\b"
        scripts = [path for folder in ("playground", "report") for path in sorted((HERE.parent / folder).glob("*.js"))]
        found = [f"{path.name}: {line.strip()}" for path in scripts
                 for line in path.read_text(encoding="utf-8").splitlines() if re.search(made, line)]
        self.assertEqual(found, ["html.js: place.innerHTML = markup;"])

    def test_any_numbers_can_be_drawn(self):
        """Each plot of the page, with a linear and a logarithmic axis."""
        lists = "[%s]" % ", ".join("[%s]" % ", ".join(map(str, values)) for values in VALUES)
        draw = """(async () => {
          const drawn = ({ plot: { scales: { y } } }) => Number.isFinite(y.max - y.min) && y.min < y.max;
          const wrong = [];
          for (const name in kViews) {
            openView(name);
            for (const plot of [lossPlot, ...state.plots])
              for (const log of [false, true])
                for (const values of LISTS) {
                  plot.options.log = log;
                  const xs = values.map((_, i) => i + 1);
                  plot.draw([{ color: "red" }, { color: "blue" }], [xs, values, values.toReversed()], "");
                  await new Promise((done) => setTimeout(done));
                  const ticks = plot.plot.axes.map(({ _splits }) => _splits?.length ?? 0);
                  if (!drawn(plot) || Math.min(...ticks) < 1 || Math.max(...ticks) > 30)
                    wrong.push([name, log, values.map(String), ticks]);
                }
          }
          return wrong;
        })()""".replace("LISTS", lists)
        self.open(self.race([{"placement": "post"}, {"placement": "pre"}]))
        self.assertEqual(self.browser.evaluate(draw), [])

    def test_what_every_student_tries(self):
        self.run_race([{"placement": "post"}, {"placement": "pre"}], layers=20, lr=0.02, warmup=0, clip=0)
        for name in ("gradients", "stream", "norms", "updates"):
            self.click(f"[data-view={name}]")
        self.click("#log")
        self.browser.wait("lossPlot.options.log")

    def test_steps_of_any_size(self):
        for steps in (0, -5, 1e300, "1e999", "NaN", "many", 0.5, {"a": 1}, None):
            self.open(self.race([{"placement": "post"}, {"placement": "pre"}], steps=steps))
            self.browser.wait("lossPlot.plot?.scales.x.max > 0")

    def test_csv(self):
        self.run_race([{"placement": "post"}, {"placement": "pre"}])
        lines = self.browser.evaluate("csv()").splitlines()
        self.assertEqual(lines[0], "model,step,loss,grad_norm,lr")
        self.assertEqual(len(lines), 1 + 2 * SMALL["steps"])
        last = self.browser.evaluate("state.models[1].rows.loss.at(-1)")
        self.assertAlmostEqual(float(lines[-1].split(",")[2]), last)

    def test_pasted_text(self):
        self.open(self.race([{"placement": "pre"}, {"placement": "post"}]))
        self.fill("#text", "abc " * 3000)
        self.click("#form [type=submit]")
        self.finish()
        self.assertEqual(self.browser.evaluate("state.models[0].ready.vocabulary"), 4)
        self.assertEqual(self.browser.evaluate("$('loss-title').textContent"), "Loss (nats per character)")

    def wrong(self, selector, value, words):
        self.open(self.race([{"placement": "pre"}, {"placement": "post"}]))
        self.fill(selector, value)
        self.click("#form [type=submit]")
        self.browser.wait("!document.getElementById('error').hidden")
        message = self.browser.evaluate("document.getElementById('error').textContent")
        self.assertIn(words, message)
        self.assertEqual(len(message.splitlines()), 1)

    def test_wrong_settings(self):
        self.wrong("#lr-0", "fast", "lr")
        self.wrong("#more-0", "--no-such-option 3", "no-such-option")
        self.wrong("#more-1", "beta2 0.9", "“beta2” is no option: write --name value")
        self.wrong("#channels-0", "17", "channels")
        self.wrong("#text", "short", "text")

    def test_steps_one_by_one(self):
        self.open(self.race([{"placement": "pre"}, {"placement": "post"}]))
        for count in (1, 2):
            self.click("#step")
            self.browser.wait(f"state.models.every((model) => model.step === {count})")

    def test_models_are_added_and_removed(self):
        self.open(self.race([{"placement": "pre"}, {"placement": "post"}]))
        self.click("#add")
        self.click("#add")
        self.assertEqual(self.browser.evaluate("state.race.models.length"), 4)
        self.assertFalse(self.browser.evaluate("Boolean(document.getElementById('add'))"))
        self.click("[data-remove='0']")
        self.assertEqual(self.browser.evaluate("state.race.models.map((model) => model.settings.placement)"),
                         ["post"] * 3)

    def test_same_seed_same_numbers(self):
        self.run_race([{"placement": "pre"}, {"placement": "pre"}])
        one, other = self.browser.evaluate("state.models.map((model) => model.rows.loss)")
        self.assertEqual(one, other)

    def test_views(self):
        self.run_race([{"placement": "pre"}, {"placement": "post"}])
        for name, selector in VIEWS.items():
            self.click(f"[data-view={name}]")
            self.browser.wait(f"document.querySelector('{selector}')", 10)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#samples dd').length"), 2)

    def test_attention_is_causal_and_sums_to_one(self):
        self.run_race([{"placement": "pre"}, {"placement": "post"}])
        heads = self.browser.evaluate("state.models[0].ask('attention', { text: 'A little dog', layer: 1 })")["heads"]
        self.assertEqual(len(heads), 2)
        for rows in heads:
            for i, row in enumerate(rows):
                self.assertAlmostEqual(sum(row), 1, delta=1e-4)
                self.assertEqual([p for p in row[i + 1:] if p], [])

    def test_phone(self):
        self.open(width=390, height=844)
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
        self.click("#first")
        self.click("#run")
        self.browser.wait("state.models.some((model) => model.step > 20)")
        for name in self.browser.evaluate("Object.keys(kViews)"):
            self.click(f"[data-view={name}]")
            time.sleep(1.5)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390, name)

    def test_contrast(self):
        for dark in (False, True):
            self.open(self.race([{"placement": "post"}, {"placement": "pre"}]), dark=dark)
            self.click("#run")
            self.finish()
            self.browser.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
            for view, selector in VIEWS.items():
                self.click(f"[data-view={view}]")
                self.browser.wait(f"document.querySelector('{selector}')", 10)
                seen = self.browser.evaluate((HERE / "contrast.js").read_text(encoding="utf-8"))
                self.assertGreater(seen["texts"], 50)
                self.assertEqual(seen["found"], [], f"{view}, {'dark' if dark else 'light'}")

    def test_labels(self):
        """Every control has a name, and every plot describes its lines."""
        self.run_race([{"placement": "pre"}, {"placement": "post"}])
        nameless = self.browser.evaluate("""[...document.querySelectorAll("button, input, select, textarea, progress")]
          .filter((e) => !(e.textContent.trim() && e.tagName === "BUTTON") && !e.getAttribute("aria-label")
            && !e.closest("label"))
          .map((e) => e.outerHTML)""")
        self.assertEqual(nameless, [])
        self.browser.wait("document.getElementById('loss').getAttribute('aria-label').includes('at step 30')")

    def test_keyboard(self):
        self.open()
        self.browser.evaluate("document.querySelector('[data-scene=batchnorm]').focus()")
        for kind in ("keyDown", "keyUp"):
            self.browser.send("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter",
                              windowsVirtualKeyCode=13, text="\r")
        self.browser.wait("state.race.id === 'batchnorm' && document.querySelectorAll('[data-guess]').length === 3")

    def test_memory_is_flat(self):
        """The heap of the page; the engine's is measured by make test-playground."""
        self.open(self.race([{"placement": "pre"}, {"placement": "post"}], steps=100_000_000, batch=1))
        self.click("#run")
        self.click("[data-view=attention]")
        sizes, end = [], time.monotonic() + 60 * MINUTES
        while time.monotonic() < end:
            time.sleep(3 * MINUTES)
            self.browser.send("HeapProfiler.collectGarbage")
            sizes.append(self.browser.send("Runtime.getHeapUsage")["usedSize"])
        rows = self.browser.evaluate("state.models.map((model) => model.rows.step.length)")
        self.assertLessEqual(max(rows), self.browser.evaluate("kMostRows"))
        self.assertLess(max(sizes[10:]) - sizes[4], 8e6, sizes)  # two models: 16384 rows of numbers, and their curves

    def test_long_runs_are_thinned(self):
        self.open()
        kept = self.browser.evaluate("""(() => {
          const model = new Model("", {}, () => {});
          for (let step = 1; step <= 3 * kMostRows; ++step) model.keep([{ step, loss: step, gradNorm: 1, lr: 1 }]);
          model.end();
          const { step, loss } = model.rows;
          return [model.step, model.stride, step.length, step[0], step.at(-1), loss.every((x, i) => x === step[i])];
        })()""")
        self.assertEqual(kept, [3 * 16384, 4, 3 * 16384 / 4, 4, 3 * 16384, True])


def take(option, default):
    """The number after an option of ours, which unittest does not know."""
    if option not in arguments:
        return default
    at = arguments.index(option)
    _, number = arguments[at:at + 2]
    del arguments[at:at + 2]
    return float(number)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    MINUTES = take("--minutes", MINUTES)
    SEEDS = int(take("--seeds", SEEDS))
    if arguments and arguments[0].endswith(".html"):
        PAGE = Path(arguments.pop(0)).resolve()
    unittest.main(argv=sys.argv[:1] + arguments)
